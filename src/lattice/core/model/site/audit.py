"""The audit chain: who did what, on what, and what came of it, each entry bound to all before it.

link(n) = SHA-256(link(n - 1) + canonical bytes of entry n), the first one over 32 zero bytes. The canonical bytes are one line of JSON,
the same in the state, in the archive and in an export, so that anyone who has the lines can compute the links without this code.
See docs/architecture/core.md.
"""

from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct

NO_LINK = "0" * 64
MAX_DETAIL = 1000
SEAL_PREFIX = b"lattice audit seal 1\n"
_encode = msgspec.json.Encoder().encode


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    BEGUN = "begun"  # recorded before it was done


class AuditNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an entry is made of, before it has its place in the chain.

    `user` and `tenant` are those whom it concerns; `count` says how often it happened, where repeats are counted.
    """

    kind: str
    actor: str = ""  # empty = no trusted identity
    outcome: AuditOutcome = AuditOutcome.DONE
    subject: str = ""
    user: str = ""
    tenant: str = ""
    allocation: int = 0
    nodes: tuple[str, ...] = ()
    detail: str = ""
    count: int = 1


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry. The order of the fields and what is left out are part of its canonical bytes and never change."""

    seq: int
    at: int
    kind: str
    actor: str
    outcome: AuditOutcome
    subject: str = ""
    user: str = ""
    tenant: str = ""
    allocation: int = 0
    nodes: tuple[str, ...] = ()
    detail: str = ""
    count: int = 1


class ChainedEntry(Struct, frozen=True, gc=False, array_like=True):
    entry: AuditEntry
    link: str


class AuditKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public key (Ed25519, hex) that seals; `id` is the beginning of its SHA-256. Retired keys are kept: old seals name them."""

    id: str
    public: str
    server: str = ""
    added_at: int = 0
    retired_at: int = 0


class AuditSeal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signature over the links at both ends of the entries `first` to `last`.

    `epoch` is the history in which it was made: it rises when a backup is restored. 0 = made before seals said so.
    """

    first: int
    last: int
    previous: str
    head: str
    key: str
    sealed_at: int
    signature: str
    epoch: int = 0


class AuditHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the chain has come, has been sealed, and has left the hot state; with the links at these places."""

    last: int = 0
    link: str = NO_LINK
    sealed: int = 0
    sealed_link: str = NO_LINK
    archived: int = 0
    archived_link: str = NO_LINK


def canonical(entry: AuditEntry) -> bytes:
    """The line of an entry, without a line break."""
    return _encode(entry)


def next_link(previous: str, line: bytes) -> str:
    return sha256(bytes.fromhex(previous) + line).hexdigest()


def chained(head: AuditHead, note: AuditNote, at: int) -> ChainedEntry:
    """The note as the next entry of the chain."""
    entry = AuditEntry(
        seq=head.last + 1,
        at=at,
        kind=note.kind,
        actor=note.actor,
        outcome=note.outcome,
        subject=note.subject,
        user=note.user,
        tenant=note.tenant,
        allocation=note.allocation,
        nodes=note.nodes,
        detail=note.detail[:MAX_DETAIL],
        count=note.count,
    )
    return ChainedEntry(entry, next_link(head.link, canonical(entry)))


def key_id(public: str) -> str:
    return sha256(bytes.fromhex(public)).hexdigest()[:16]


def seal_message(seal: AuditSeal) -> bytes:
    """What the signature of a seal is over."""
    return SEAL_PREFIX + _encode(msgspec.structs.replace(seal, signature=""))
