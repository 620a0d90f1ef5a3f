"""State changes as they happen: one bounded ring that all watchers read at their own pace, and those who wait for one allocation.

Nothing is queued per client. A watcher keeps its place in the ring; one that falls behind the oldest kept change is told so.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from lattice.api.limits import KEPT_CHANGES
from lattice.core.machine import events as ev
from lattice.core.machine.commands import Envelope
from lattice.core.model.allocations import Allocation, AllocationState, TaskGroup
from lattice.ports.replica import Replica
from lattice.wire.allocations import group_state


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """One state change of an allocation, a task group or (with `node`) a node."""

    index: int
    at: int
    kind: str
    state: str
    number: int = 0
    node: str = ""
    name: str = ""
    user: str = ""
    tenant: str = ""
    cause: str = ""
    exit_code: int | None = None
    run: int = 0
    nodes: tuple[str, ...] = ()
    group: int = 0
    reason: str = ""


_A = AllocationState
# Events that change what people see of one allocation, with the state they lead to (None: whatever it is).
_KINDS: dict[type, tuple[str, AllocationState | None]] = {
    ev.AllocationPlaced: ("placed", _A.STARTING),
    ev.AllocationStarted: ("started", _A.RUNNING),
    ev.AllocationStopping: ("stopping", _A.STOPPING),
    ev.AllocationEnded: ("ended", None),
    ev.AllocationRequeued: ("requeued", _A.PENDING),
    ev.AllocationHeld: ("held", None),
    ev.AllocationReleased: ("released", None),
    ev.AllocationUpdated: ("updated", None),
}


class Feed:
    """Follows the replica. `first` is the place of the oldest kept change, `end` the place behind the newest."""

    def __init__(self, replica: Replica, kept: int = KEPT_CHANGES) -> None:
        self._replica = replica
        self._kept: deque[Change] = deque(maxlen=kept)
        self._ever = 0
        self._since: int | None = None  # everything after this index was seen
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self._readers: dict[asyncio.Future[None], None] = {}
        self.is_closed = False
        self._unsubscribe: Callable[[], None] = replica.subscribe(self._note)

    @property
    def first(self) -> int:
        return self._ever - len(self._kept)

    @property
    def end(self) -> int:
        return self._ever

    @property
    def waiting(self) -> int:
        """How many wait for something to happen."""
        return len(self._readers) + sum(map(len, self._waiters.values()))

    def close(self) -> None:
        """Ends every stream and every wait; for a server that stops."""
        self.is_closed = True
        self._unsubscribe()
        for number in list(self._waiters):
            self._wake(number)
        self._wake_readers()

    def place_after(self, index: int) -> tuple[int, bool]:
        """Where to read what came after log entry `index`, and whether all of that is still kept."""
        since = self._replica.applied_index if self._since is None else self._since
        complete = index >= (self._kept[0].index if self.first else since)
        place = self._ever
        for change in reversed(self._kept):
            if change.index <= index:
                break
            place -= 1
        return place, complete

    def read(self, place: int, most: int) -> list[Change]:
        """Up to `most` changes from `place` on, which must not lie before `first`."""
        skip = place - self.first
        return [self._kept[k] for k in range(skip, min(skip + most, len(self._kept)))]

    def is_last_of_entry(self, place: int) -> bool:
        """Whether no change of the same log entry follows the one at `place`."""
        k = place - self.first
        if k < 0:
            return True
        index = self._kept[k].index
        if k + 1 < len(self._kept):
            return self._kept[k + 1].index != index
        return self._replica.applied_index >= index

    async def more(self, place: int, timeout_s: float) -> bool:
        """Waits until there is something at `place`; False when nothing came in time or the feed was closed."""
        if place < self._ever or self.is_closed:
            return place < self._ever
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers[future] = None
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            # Also when the caller hung up: on a quiet cluster nothing else would take it away.
            self._readers.pop(future, None)
        return place < self._ever

    async def next_change_of(self, number: int, timeout_s: float) -> bool:
        """Waits until something happens to this allocation or group; False when nothing did in time."""
        if self.is_closed:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(number, []).append(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._forget(number, future)
        return not self.is_closed

    def _forget(self, number: int, future: asyncio.Future[None]) -> None:
        waiting = self._waiters.get(number)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiters[number]

    def _note(self, index: int, envelope: Envelope, events: tuple[ev.AnyEvent, ...]) -> None:
        before = self._ever
        if self._since is None:
            self._since = index - 1
        for event in events:
            kind = _KINDS.get(type(event))
            if kind is not None:
                self._note_allocation(index, envelope.at, event, kind)
            elif not isinstance(event, ev.PartChanged):
                self._note_other(index, envelope.at, event)
        if self._ever != before:
            self._wake_readers()

    def _note_allocation(
        self, index: int, at: int, event: ev.AnyEvent, kind: tuple[str, AllocationState | None]
    ) -> None:
        number: int = event.number  # type: ignore[union-attr]
        state = self._replica.state
        record = state.allocations.get(number)
        if record is None:
            group = state.groups.get(number)
            if group is not None:
                self._keep_group(index, at, kind[0], group)
            return
        self._keep(_change(index, at, kind[0], kind[1] or record.state, record))
        self._wake(number)
        if record.group:
            self._wake(record.group)

    def _note_other(self, index: int, at: int, event: ev.AnyEvent) -> None:
        state = self._replica.state
        match event:
            case ev.AllocationSubmitted():
                record = event.allocation
                self._keep(_change(index, at, "submitted", record.state, record))
            case ev.TaskGroupSubmitted():
                self._keep_group(index, at, "submitted", event.group)
            case ev.TasksCancelled():
                self._keep_group(index, at, "ended", state.groups[event.group])
            case ev.TaskGroupHeld():
                kind = "held" if event.hold else "released"
                self._keep_group(index, at, kind, state.groups[event.group])
            case ev.NodeMoved():
                self._keep(
                    Change(
                        index=index,
                        at=at,
                        kind="node",
                        state=event.state,
                        node=event.node,
                        reason=event.reason,
                    )
                )
            case _:
                pass

    def _keep_group(self, index: int, at: int, kind: str, group: TaskGroup) -> None:
        self._keep(_change(index, at, kind, group_state(group), group.template))
        # Pending tasks are no records of their own; whoever waits for one of them looks again.
        self._wake_all(range(group.number, group.number + group.size + 1))

    def _keep(self, change: Change) -> None:
        self._kept.append(change)
        self._ever += 1

    def _wake(self, number: int) -> None:
        for future in self._waiters.pop(number, ()):
            if not future.done():
                future.set_result(None)

    def _wake_all(self, numbers: range) -> None:
        waited: Iterable[int] = [number for number in self._waiters if number in numbers]
        for number in waited:
            self._wake(number)

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, {}
        for future in readers:
            if not future.done():
                future.set_result(None)


def _change(index: int, at: int, kind: str, state: AllocationState, record: Allocation) -> Change:
    return Change(
        index=index,
        at=at,
        kind=kind,
        state=state,
        number=record.number,
        name=record.name,
        user=record.user,
        tenant=record.tenant,
        cause=record.cause or "",
        exit_code=record.exit_code,
        run=record.run,
        nodes=record.nodes,
        group=record.group,
    )
