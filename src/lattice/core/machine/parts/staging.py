"""The part of the state that says which data is on the hot tier and who needs it. Written by `evolve` and the codec alone.

See docs/architecture/data.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.data.copies import Copy, DataUse
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup


class StagingRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.copies: dict[str, Copy] = {}  # by key
        # Derived: live work by the copy that it needs, and what waits in Staging. Numbers of allocations and of groups.
        self.users: dict[str, dict[int, tuple[DataUse, ...]]] = {}
        self.waiting: dict[int, None] = {}

    def put(self, copy: Copy) -> None:
        old = self.copies.get(copy.key)
        if old is not None:
            self._digest.remove(b"copy", old)
        self._digest.add(b"copy", copy)
        self.copies[copy.key] = copy

    def drop(self, key: str) -> None:
        self._digest.remove(b"copy", self.copies.pop(key))

    def is_used(self, key: str, generation: int) -> bool:
        """Whether live work has this generation, or will get it."""
        return any(
            use.key == key and use.generation in (0, generation)
            for uses in self.users.get(key, {}).values()
            for use in uses
        )

    def note(self, old: Allocation | None, new: Allocation | None) -> None:
        """An allocation was put or dropped."""
        if old is not None and old.data:
            self._forget(old.number, old.data)
        if new is not None and new.data and not new.is_terminal:
            self._remember(new.number, new)

    def note_group(self, old: TaskGroup | None, new: TaskGroup | None) -> None:
        if old is not None and old.template.data:
            self._forget(old.number, old.template.data)
        if new is not None and new.template.data and new.pending:
            self._remember(new.number, new.template)

    def _remember(self, number: int, record: Allocation) -> None:
        for use in record.data:
            self.users.setdefault(use.key, {})[number] = record.data
        if record.state is AllocationState.STAGING:
            self.waiting[number] = None

    def _forget(self, number: int, uses: tuple[DataUse, ...]) -> None:
        for use in uses:
            found = self.users.get(use.key, {})
            found.pop(number, None)
            if not found:
                self.users.pop(use.key, None)
        self.waiting.pop(number, None)
