"""The part of the state that holds the audit chain: its newest entries, their seals, and the keys that sealed.

Written by `evolve` and the codec alone. Entries leave at the old end only, and only when they are sealed; `head` knows the links at the
ends, so that what left and what stays are still one chain. Nothing is recorded before there is a key.
See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine.digest import Digest
from lattice.core.model.site.audit import AuditHead, AuditKey, AuditSeal, ChainedEntry
from lattice.core.model.site.tenants import SENSITIVE, Vcluster


class AuditRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.entries: dict[int, ChainedEntry] = {}  # by place in the chain, without gaps
        self.seals: dict[int, AuditSeal] = {}  # by the last entry that each seals
        self.keys: dict[str, AuditKey] = {}
        self.head = AuditHead()
        self.sensitive: dict[str, None] = {}  # vClusters whose work is recorded; derived

    @property
    def is_on(self) -> bool:
        return bool(self.keys)

    def link_at(self, seq: int) -> str | None:
        """The link of an entry that is here, or of the last one that left."""
        if seq == self.head.archived:
            return self.head.archived_link
        found = self.entries.get(seq)
        return None if found is None else found.link

    def note_vcluster(self, vcluster: Vcluster) -> None:
        if vcluster.scheduler == SENSITIVE:
            self.sensitive[vcluster.name] = None
        else:
            self.sensitive.pop(vcluster.name, None)

    def forget_vcluster(self, name: str) -> None:
        self.sensitive.pop(name, None)

    def put_key(self, key: AuditKey) -> None:
        old = self.keys.get(key.id)
        if old is not None:
            self._digest.remove(b"audit key", old)
        self._digest.add(b"audit key", key)
        self.keys[key.id] = key

    def append(self, added: ChainedEntry) -> None:
        self.load(added)
        self.head = replace(self.head, last=added.entry.seq, link=added.link)

    def seal(self, seal: AuditSeal) -> None:
        self.load_seal(seal)
        self.head = replace(self.head, sealed=seal.last, sealed_link=seal.head)

    def drop_to(self, last: int) -> None:
        """Everything up to the entry `last` is kept elsewhere."""
        link = self.entries[last].link
        for seq in range(self.head.archived + 1, last + 1):
            self._digest.remove(b"audit", self.entries.pop(seq))
        for end in [end for end in self.seals if end <= last]:
            self._digest.remove(b"audit seal", self.seals.pop(end))
        self.head = replace(self.head, archived=last, archived_link=link)

    def load(self, added: ChainedEntry) -> None:
        self._digest.add(b"audit", added)
        self.entries[added.entry.seq] = added

    def load_seal(self, seal: AuditSeal) -> None:
        self._digest.add(b"audit seal", seal)
        self.seals[seal.last] = seal
