"""The part of the state that keeps what services ran before. Written by `evolve` and the codec alone.

A service that was never updated has no entry: what it runs is in `State.payloads`. See docs/architecture/services.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.services.rollouts import KEPT_REVISIONS, ServiceRevision

_NONE: dict[int, ServiceRevision] = {}


class RevisionRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.records: dict[int, dict[int, ServiceRevision]] = {}  # by allocation and revision, ascending

    def put(self, revision: ServiceRevision) -> None:
        kept = self.records.setdefault(revision.number, {})
        old = kept.get(revision.revision)
        if old is not None:
            self._digest.remove(b"revision", old)
        self._digest.add(b"revision", revision)
        kept[revision.revision] = revision

    def of(self, number: int) -> dict[int, ServiceRevision]:
        """All that are kept of a service, the oldest first."""
        return self.records.get(number, _NONE)

    def trim(self, number: int, in_use: tuple[int, ...]) -> None:
        """Drops the oldest beyond those that are kept, never one that instances have or may get again."""
        kept = self.records[number]
        for revision in list(kept)[: max(0, len(kept) - KEPT_REVISIONS)]:
            if revision not in in_use:
                self._digest.remove(b"revision", kept.pop(revision))

    def drop(self, number: int) -> None:
        for revision in self.records.pop(number, _NONE).values():
            self._digest.remove(b"revision", revision)

    def every(self) -> tuple[ServiceRevision, ...]:
        return tuple(revision for kept in self.records.values() for revision in kept.values())
