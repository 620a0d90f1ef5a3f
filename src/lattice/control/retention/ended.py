"""Checkpoints go some days after the end of their work, and recorded traces some days after their last line.

Checkpoints lie where only nodes can reach them: when work ends, an object notes where, and when its time is over a node is asked to
remove them. The object goes when a node says that they are gone, so nothing is forgotten by a change of leader. What its owner wants
to keep stays, and so does what live work is to continue from. See docs/architecture/data.md.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import AllocationEnded, AnyEvent
from lattice.core.model.work.allocations import Allocation
from lattice.ports.clock import Clock
from lattice.ports.nodes.checkpoints import CheckpointLinks, CheckpointOrder
from lattice.ports.nodes.run_keys import RunKey
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStore
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.retention import LogRetention
from lattice.wire.files import retained
from lattice.wire.files.retained import Retained

ACTOR = "retention"
EVERY_S = 600.0
MAX_ASKED = 100  # removals that a turn asks for: a node removes millions of files for each
_BELOW_ROOT = 4  # TENANT/PROJECT/ID/checkpoints

_log = logging.getLogger(__name__)


class EndedRetention:
    """`nodes` are those that can be asked, `traces` the folder of recordings."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        objects: ObjectStore,
        links: CheckpointLinks,
        retention: LogRetention,
        nodes: Callable[[], Iterable[str]],
        traces: Path,
    ) -> None:
        self._replica, self._clock, self._objects, self._links = replica, clock, objects, links
        self._retention, self._nodes, self._traces = retention, nodes, traces
        self._guard = Guard(ACTOR)
        self._alarm = Alarm()
        self._gone: dict[int, None] = {}
        self._asked: dict[int, dict[str, None]] = {}  # by allocation: nodes that were asked, the last one last
        self._ended_at: dict[str, int] = {}  # by object: it is read again only when it is due
        self._last = ""  # the object that was asked for last; the next turn continues behind it
        self._look_s = clock.monotonic_s()
        replica.subscribe(self._note, of=(AllocationEnded,))
        # For a new leader: what ended before and may not be noted yet.
        self._ended = {number: None for number, record in replica.state.allocations.items() if record.is_terminal}

    def removed(self, node: str, number: int) -> None:
        """A node says that the checkpoints of this work are gone; it counts if the node was asked."""
        if node in self._asked.get(number, ()):
            self._gone[number] = None
            self._alarm.ring()

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(max(0.0, self._look_s - self._clock.monotonic_s()))
        await self.note_ended()
        if self._clock.monotonic_s() >= self._look_s:
            self._look_s = self._clock.monotonic_s() + EVERY_S
            await self.expire()

    async def note_ended(self) -> None:
        """Writes down what ended, and forgets what is gone."""
        for number in list(self._ended):
            with self._guard.item(str(number)):
                record = self._replica.state.allocations.get(number)
                found = None if record is None else _retained(record)
                if found is not None:
                    await self._objects.put(retained.ended_name(number), retained.write(found))
                del self._ended[number]  # what failed stays for the next turn
        for number in list(self._gone):
            with self._guard.item(str(number)):
                await self._remove_copies(number)
                await self._objects.delete(retained.ended_name(number))
                del self._gone[number]
                self._asked.pop(number, None)

    async def _remove_copies(self, number: int) -> None:
        """Of its checkpoints in this store."""
        name = retained.ended_name(number)
        try:
            record = retained.read_retained(await self._objects.get(name))
        except ObjectMissing:
            return
        below = record.directory.removeprefix(record.root.rstrip("/")).strip("/")
        async for copy in self._objects.names(f"{below}/"):
            await self._objects.delete(copy)

    async def expire(self) -> int:
        """Asks for the removal of what is over; returns how often."""
        await asyncio.to_thread(self._remove_traces)
        if not self._retention.checkpoints_s:
            return 0
        kept = {name.removeprefix(retained.KEPT) async for name in self._objects.names(retained.KEPT)}
        needed, nodes = self._needed(), sorted(self._nodes())
        limit = self._clock.now_ms() - self._retention.checkpoints_s * 1000
        asked = 0
        for name in await self._names():
            if asked >= MAX_ASKED:
                break
            if name.removeprefix(retained.ENDED) in kept or self._ended_at.get(name, 0) > limit:
                continue
            with self._guard.item(name):
                record = retained.read_retained(await self._objects.get(name))
                self._ended_at[name] = record.ended_at
                if record.ended_at <= limit and record.number not in needed and self._ask(record, nodes):
                    asked += 1
                    self._last = name
        return asked

    async def _names(self) -> list[str]:
        """What is noted, from behind the last that was asked for: those that cannot be removed do not keep the others waiting."""
        names = [name async for name in self._objects.names(retained.ENDED)]
        self._ended_at = {name: self._ended_at[name] for name in names if name in self._ended_at}
        return [name for name in names if name > self._last] + [name for name in names if name <= self._last]

    def _needed(self) -> set[int]:
        """Work whose checkpoints live work is to continue from."""
        resumed = (
            record.checkpoints.resume_from
            for record in self._replica.state.allocations.values()
            if not record.is_terminal
        )
        return {point.number for point in resumed if point is not None}

    def _ask(self, record: Retained, nodes: list[str]) -> bool:
        """Asks another node each time: one that does not reach the storage says nothing."""
        order = CheckpointOrder(
            key=RunKey(record.number, 0), n=0, root=record.root, path=record.directory, user=record.user, remove=True
        )
        before = self._asked.get(record.number, {})
        turns = (*(node for node in nodes if node not in before), *before)
        found = next((node for node in turns if self._links.ask_checkpoint(node, order)), None)
        if found is None:
            return False
        before.pop(found, None)
        self._asked[record.number] = {**before, found: None}
        return True

    def _remove_traces(self) -> None:
        if not self._retention.traces_s or not self._traces.is_dir():
            return
        limit_s = self._clock.now_ms() / 1000 - self._retention.traces_s
        for path in sorted(self._traces.iterdir()):
            with self._guard.item(path.name):
                if path.is_file() and path.stat().st_mtime <= limit_s:
                    path.unlink()
                    _log.info("the recording %s was older than kept: deleted", path.name)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, AllocationEnded) and self._may_have_kept(event.number):
                self._ended[event.number] = None
                self._alarm.ring()

    def _may_have_kept(self, number: int) -> bool:
        """Most work has no checkpoints; it does not wake the loop."""
        record = self._replica.state.allocations.get(number)
        return record is not None and (record.checkpoints.newest or record.checkpoints.failed) is not None


def _retained(record: Allocation) -> Retained | None:
    """None for work that left no checkpoint."""
    known = record.checkpoints
    newest = known.newest or known.failed
    if newest is None or not record.ended_at:
        return None
    directory = PurePosixPath(newest.path).parent
    return Retained(
        number=record.number,
        user=record.user,
        tenant=record.tenant,
        ended_at=record.ended_at,
        root=str(directory.parents[_BELOW_ROOT - 1]),
        directory=str(directory),
        count=len(known.kept),
        bytes=sum(each.bytes for each in known.kept),
    )
