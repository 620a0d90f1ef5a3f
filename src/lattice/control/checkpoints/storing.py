"""Has complete checkpoints copied to the object store, while `checkpoint.upload` says so, and removes copies that are not kept.

The state is the only memory: what it keeps and does not call stored is ordered of the node that sealed it, again until the node says that it is
done. Only the newest is copied; those before it are copied already, or will never be needed. See docs/architecture/checkpoints.md.
"""

import logging
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.checkpoints.orders import is_on, storing_order
from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope, NoteCheckpointStored
from lattice.core.machine.events import AnyEvent, CheckpointEnded, CheckpointStored, SettingSet
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.checkpoints import Checkpoint, objects_of
from lattice.ports.clock import Clock
from lattice.ports.nodes.checkpoints import STORED, WRITES, CheckpointLinks, CheckpointReport
from lattice.ports.quorum.object_store import ObjectStore
from lattice.ports.quorum.replica import Replica

ACTOR = "checkpoint"
LOOP = "checkpoint copies"
AGAIN_S = 15.0  # an order that a node may not have got
PAUSE_S = 10.0  # after the first failure, doubled by each further one
LONGEST_PAUSE_S = 600.0
_HEARD = (CheckpointEnded, CheckpointStored, SettingSet)

_log = logging.getLogger(__name__)


class _Try(Struct, kw_only=True):
    """How far the copy of one checkpoint is, as far as this leader knows."""

    n: int
    next_s: float = 0.0
    failures: int = 0
    asked: tuple[str, ...] = ()  # nodes, the last one last


class CheckpointStoring:
    """`grant` lets a node write below a prefix; `nodes` are those that can be asked."""

    def __init__(
        self,
        replica: Replica,
        links: CheckpointLinks,
        clock: Clock,
        objects: ObjectStore,
        grant: Callable[[str, str], str],
        nodes: Callable[[], Iterable[str]],
    ) -> None:
        self._replica, self._links, self._clock, self._objects = replica, links, clock, objects
        self._grant, self._nodes = grant, nodes
        self._alarm, self._guard = Alarm(), Guard(LOOP)
        self._tries: dict[int, _Try] = {}
        self._stored: list[NoteCheckpointStored] = []
        self._swept: dict[int, None] = {}  # work of which copies may be left that are not kept any more
        self.on_failed: Callable[[], None] = lambda: None
        replica.subscribe(self._note, of=_HEARD)
        self._look_at_all()

    def _look_at_all(self) -> None:
        for record in self._replica.state.allocations.values():
            self._want(record)
        self._alarm.ring()

    def _want(self, record: Allocation) -> None:
        newest = record.checkpoints.newest
        if newest is not None and not newest.is_stored:
            known = self._tries.get(record.number)
            if known is None or known.n != newest.n:
                self._tries[record.number] = _Try(n=newest.n)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, SettingSet):
                self._look_at_all()
            elif isinstance(event, CheckpointEnded | CheckpointStored):
                record = self._replica.state.allocations.get(event.number)
                if record is not None:
                    self._want(record)
                if isinstance(event, CheckpointStored):
                    self._swept[event.number] = None
                self._alarm.ring()

    def report(self, node: str, report: CheckpointReport) -> None:
        """What a node says of a copy; it counts if the node was asked."""
        known = self._tries.get(report.key.number)
        if known is None or known.n != report.n or node not in known.asked:
            return
        if report.phase == STORED:
            self._stored.append(NoteCheckpointStored(number=report.key.number, n=report.n))
        else:
            pause_s = min(LONGEST_PAUSE_S, PAUSE_S * 2**known.failures)
            known.failures, known.next_s = known.failures + 1, self._clock.monotonic_s() + pause_s
            self.on_failed()
            label = allocation_id(report.key.number)
            _log.warning("checkpoint %d of %s is not in the object store: %s", report.n, label, report.message)
        self._alarm.ring()

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        due_s = min((each.next_s for each in self._tries.values()), default=None) if self._is_on() else None
        await self._alarm.wait(None if due_s is None else max(0.0, due_s - self._clock.monotonic_s()))
        await self.turn()

    def _is_on(self) -> bool:
        return is_on(self._replica.state)

    async def turn(self) -> None:
        """Records what was said, orders what is due, removes what is not kept."""
        stored, self._stored = self._stored, []
        if stored:
            await self._replica.propose_many(stored, ACTOR)
        if self._is_on():
            nodes = sorted(self._nodes())
            for number in list(self._tries):
                with self._guard.item(allocation_id(number)):
                    self._care_for(number, nodes)
        for number in list(self._swept):
            with self._guard.item(allocation_id(number)):
                await self._sweep(number)
                self._swept.pop(number, None)

    def _care_for(self, number: int, nodes: list[str]) -> None:
        record, known = self._replica.state.allocations.get(number), self._tries[number]
        newest = None if record is None else record.checkpoints.newest
        if record is None or newest is None or newest.n != known.n or newest.is_stored:
            del self._tries[number]
            return
        if self._clock.monotonic_s() < known.next_s:
            return
        known.next_s = self._clock.monotonic_s() + AGAIN_S
        order = storing_order(record, newest)
        for node in _turns(newest, known, nodes):
            granted = replace(order, grant=self._grant(WRITES + order.objects, node))
            if self._links.ask_checkpoint(node, granted):
                known.asked = (*(each for each in known.asked if each != node), node)
                return

    async def _sweep(self, number: int) -> None:
        """Copies of checkpoints that are gone from the disk, too."""
        record = self._replica.state.allocations.get(number)
        if record is None or not record.checkpoints.kept:
            return
        kept = {str(each.n) for each in record.checkpoints.kept}
        above = objects_of(record.checkpoints.kept[-1].path).rpartition("/")[0]
        async for name in self._objects.names(f"{above}/"):
            if name.removeprefix(f"{above}/").partition("/")[0] not in kept:
                await self._objects.delete(name)


def _turns(newest: Checkpoint, known: _Try, nodes: list[str]) -> list[str]:
    """The node that sealed it first, as long as it does not fail; then all others, which find it where they share the directory."""
    others = [node for node in nodes if node not in known.asked and node != newest.sealed_by]
    again = [node for node in known.asked if node in nodes]
    first = [newest.sealed_by] if newest.sealed_by in nodes else []
    return [*first, *others, *again] if not known.failures else [*others[:1], *first, *again]
