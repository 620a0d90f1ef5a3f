"""Carries to the nodes what the state wants of them: start, stop, new limit, new token.

The state is the only memory: an order is derived from it each time, and sent again until the state shows that it arrived.
Every order may be repeated without harm. Nothing is kept for a node that is not connected; when it is, all its orders are
derived again. A run that a node does not start however often it is asked is taken back. What fails for one allocation is
reported and tried again with that allocation; the orders of all others go out.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.loop import Alarm, Guard, Slices, keep_turning
from lattice.control.settings import seconds_setting
from lattice.control.work.orders import (
    adapted,
    finish_order,
    is_renewed,
    pause_order,
    start_order,
    stop_order,
    update_order,
)
from lattice.control.work.runs import LIVE, is_ordered, is_starting, open_parts, stopping_parts
from lattice.core.machine.commands import Envelope, LeaveNodes, ReportPart, RollbackRun
from lattice.core.machine.events import (
    AllocationPaused,
    AllocationPlaced,
    AllocationStopping,
    AllocationUpdated,
    AnyEvent,
    InstanceRenewed,
    NodeJoined,
    PartChanged,
    StepsRecorded,
)
from lattice.core.machine.rules.preparation import is_leavable
from lattice.core.machine.rules.work.runs import taken_for
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Part, PartPhase
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import AgentLinks, RunKey, StartOrder
from lattice.ports.nodes.checkpoints import READS, CheckpointSetup
from lattice.ports.nodes.data import BUCKET, ID, NODE, StageOutOrder
from lattice.ports.quorum.replica import Replica
from lattice.wire.slurm.variables import SlurmSettings
from lattice.wire.work.payloads import decode_work

_log = logging.getLogger(__name__)

ACTOR = "dispatch"
_HEARD = (
    AllocationPlaced,
    AllocationStopping,
    AllocationPaused,
    AllocationUpdated,
    StepsRecorded,
    NodeJoined,
    InstanceRenewed,
    PartChanged,
)

_ORDERING = (AllocationPlaced, AllocationStopping, NodeJoined, InstanceRenewed, PartChanged)


class DispatchSettings(Struct, frozen=True, kw_only=True):
    retry_s: float = 2.0
    start_timeout_s: float = 60.0
    grace_s: float = 30.0
    token_lifetime_s: float = 86400.0  # at the most; three renewals in that time
    api_url: str = ""
    slurm: SlurmSettings = SlurmSettings()


class Dispatch:
    """Sends orders; `mint` makes the token that an allocation gets for itself, `is_clear` says whether a node may start work,
    `grant` lets a node store the run's output."""

    def __init__(
        self,
        replica: Replica,
        links: AgentLinks,
        clock: Clock,
        settings: DispatchSettings,
        mint: Callable[[Allocation], str],
        is_clear: Callable[[str], bool] = lambda node: True,
        grant: Callable[[str, str], str] = lambda prefix, node: "",
    ) -> None:
        self._replica = replica
        self._links = links
        self._clock = clock
        self._settings = settings
        self._mint = mint
        self._is_clear = is_clear
        self._grant = grant
        self._alarm = Alarm()
        self._guard = Guard(ACTOR)
        self._fresh: dict[int, None] = {}  # in order of arrival
        self._again: list[tuple[float, int]] = []
        self._waiting: set[int] = set()  # numbers in `_again`
        self._opened: deque[str] = deque()
        self._updated: deque[int] = deque()
        self._tries: dict[int, tuple[int, int]] = {}  # number to run and how often its start was sent
        self._verdicts: list[ReportPart | RollbackRun | LeaveNodes] = []
        self._renew_at = clock.monotonic_s() + settings.token_lifetime_s / 3
        replica.subscribe(self._note, of=_HEARD)

    def node_opened(self, node: str) -> None:
        """The node takes orders from now on: derives all of them."""
        self._opened.append(node)
        self._alarm.ring()

    def node_cleared(self, node: str) -> None:
        """What lingered there has gone: work that waited for that is started."""
        record = self._replica.state.nodes.get(node)
        for number in record.holders() if record is not None else ():
            self._fresh[number] = None
        self._alarm.ring()

    def start_progressed(self, number: int, run: int) -> None:
        """The node is at it: it may take as long again."""
        if self._tries.get(number, (0, 0))[0] == run:
            self._tries[number] = (run, 0)

    def results_are_copied(self, node: str, key: RunKey) -> None:
        """The process of the run has ended on its node: the others are not kept until its results are copied."""
        record = self._replica.state.allocations.get(key.number)
        if record is not None and is_leavable(record, key.run, node):
            self._verdicts.append(LeaveNodes(number=key.number, run=key.run, node=node))
            self._alarm.ring()

    def reset(self) -> None:
        """Derive every order of every node again; for a new leader."""
        for node in sorted(self._links.connected()):
            self.node_opened(node)

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        due = min(self._again[0][0], self._renew_at) if self._again else self._renew_at
        await self._alarm.wait(due - self._clock.monotonic_s())
        await self.send_due()

    async def send_due(self) -> None:
        """Sends everything that is new or due again, letting others run in between."""
        slices = Slices()
        while self._opened:
            self._send_all(self._opened.popleft())
            await slices.pause()
        while self._fresh:
            number = next(iter(self._fresh))
            del self._fresh[number]
            self._guarded(number, self._send)
            await slices.pause()
        while self._updated:
            self._guarded(self._updated.popleft(), self._send_update)
            await slices.pause()
        now = self._clock.monotonic_s()
        while self._again and self._again[0][0] <= now:
            _, number = heapq.heappop(self._again)
            self._waiting.discard(number)
            self._guarded(number, self._send)
            await slices.pause()
        if now >= self._renew_at:
            self._renew_at = now + self._settings.token_lifetime_s / 3
            await self._renew_tokens(slices)
        if self._verdicts:
            verdicts, self._verdicts = self._verdicts, []
            await self._replica.propose_many(verdicts, ACTOR)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, _ORDERING):
                if not isinstance(event, PartChanged) or is_ordered(event.part) or self._opens_way(event):
                    self._fresh[event.number] = None
                    self._alarm.ring()
            elif isinstance(event, AllocationPaused):
                self._guarded(event.number, self._send_pause)
            elif isinstance(event, StepsRecorded):
                self._guarded(event.number, self._send_finish)
            elif isinstance(event, AllocationUpdated):
                self._updated.append(event.number)
                self._alarm.ring()

    def _opens_way(self, event: PartChanged) -> bool:
        """Whether the entrypoint may have waited for this node, which is prepared now."""
        record = self._replica.state.allocations.get(event.number)
        return record is not None and record.is_prepared_only(event.part.node) and event.part.phase in LIVE

    def _guarded(self, number: int, send: Callable[[int], None]) -> None:
        self._guard.attempt(allocation_id(number), lambda: send(number))

    def _send_all(self, node: str) -> None:
        for allocation, part in open_parts(self._replica.state, node):
            self._tries.pop(allocation.number, None)
            self._guarded(allocation.number, self._send)
            if part.phase in LIVE:
                self._guard.attempt(allocation_id(allocation.number), partial(self._remind, node, allocation))

    def _remind(self, node: str, allocation: Allocation) -> None:
        """Tells a node that was away what it may have missed of work that runs there."""
        self._links.send(node, update_order(allocation, self._mint(allocation), self._clock.now_ms(), node))
        self._send_finish(allocation.number)
        if allocation.paused_at or allocation.paused_ms:
            self._links.send(node, pause_order(allocation))

    async def _renew_tokens(self, slices: Slices) -> None:
        """Before they expire, for all work that outlives its token."""
        for node in sorted(self._links.connected()):
            for allocation, part in open_parts(self._replica.state, node):
                if part.phase in LIVE:
                    self._guard.attempt(allocation_id(allocation.number), partial(self._renew, node, allocation))
            await slices.pause()

    def _renew(self, node: str, allocation: Allocation) -> None:
        if self._is_renewed(allocation):
            order = update_order(allocation, self._mint(allocation), self._clock.now_ms(), node)
            self._links.send(node, order)

    def _is_renewed(self, allocation: Allocation) -> bool:
        return is_renewed(allocation, most_s=self._settings.token_lifetime_s, grace_s=self._grace_s())

    def _send(self, number: int) -> None:
        allocation = self._replica.state.allocations.get(number)
        if allocation is None or not allocation.is_holding:
            self._tries.pop(number, None)
            return
        is_open = True
        try:
            is_going = self._send_stop(allocation)
            if allocation.state is AllocationState.STARTING or is_starting(allocation):
                is_open = self._send_start(allocation) or is_going
            else:
                self._tries.pop(number, None)
                is_open = is_going
        finally:
            # Also after a failure: what is not tried again would wait for good, and those behind it with it.
            if is_open and number not in self._waiting:
                self._waiting.add(number)
                due = self._clock.monotonic_s() + self._settings.retry_s
                heapq.heappush(self._again, (due, number))

    def _send_stop(self, allocation: Allocation) -> bool:
        parts = [part for part in stopping_parts(allocation) if self._links.is_connected(part.node)]
        for part in parts:
            order = stop_order(allocation, self._grace_s(), part, taken_for=taken_for(self._replica.state, allocation))
            self._links.send(part.node, order)
        return bool(parts)

    def _send_start(self, allocation: Allocation) -> bool:
        parts = [
            part
            for part in allocation.parts
            if part.phase is PartPhase.ASSIGNED and self._links.is_connected(part.node)
        ]
        if not parts:
            return False
        if not all(
            map(self._is_clear, [part.node for part in parts] if allocation.has_instances else allocation.nodes)
        ):
            return True  # what ran there before has not gone yet
        state = self._replica.state
        try:
            work = {part.node: decode_work(state.payload_of_part(allocation, part)) for part in parts}
        except ValueError as error:
            self._give_up(allocation, parts, error)
            return True
        token, grace_s, api_url = self._mint(allocation), self._grace_s(), self._settings.api_url
        for part in parts:
            order = start_order(
                state,
                allocation,
                part,
                work[part.node],
                token=token,
                grace_s=grace_s,
                api_url=api_url,
                slurm=self._settings.slurm,
                now_ms=self._clock.now_ms(),
            )
            grant = self._grant(order.output_prefix, part.node)
            outs = tuple(self._granted(out, order.allocation_id, part.node) for out in order.stage_out)
            order = replace(order, upload_grant=grant, stage_out=outs, checkpoint=self._resuming(order, part.node))
            self._links.send(part.node, adapted(order, allocation, part))
        self._count_try(allocation, parts)
        return True

    def _granted(self, out: StageOutOrder, allocation_id: str, node: str) -> StageOutOrder:
        """What goes to a bucket is uploaded by requests that servers sign for this very place."""
        if not out.target.startswith(BUCKET):
            return out
        target = out.target.replace(ID, allocation_id).replace(NODE, node)
        return replace(out, target=target, grant=self._grant(target, node))

    def _resuming(self, order: StartOrder, node: str) -> CheckpointSetup | None:
        """What it continues from may be in the object store alone, from where this node may fetch it."""
        setup = order.checkpoint
        if setup is None or not setup.objects:
            return setup
        return replace(setup, grant=self._grant(READS + setup.objects, node))

    def _count_try(self, allocation: Allocation, parts: list[Part]) -> None:
        """Takes the run back when it was asked for often enough.

        Tries are counted, not time: a server that was itself held up has not asked in the meantime. Silent nodes are
        the business of the node watch.
        """
        nodes = self._replica.state.nodes
        # The last ones first: the entrypoint's node, the first of all, waits for the others.
        slow = next((part.node for part in reversed(parts) if nodes[part.node].state is not NodeState.DEGRADED), "")
        if not slow:
            return
        number, run = allocation.number, allocation.run
        before = self._tries.get(number, (run, 0))
        tries = before[1] + 1 if before[0] == run else 1
        self._tries[number] = (run, tries)
        if tries > max(1.0, self._settings.start_timeout_s / self._settings.retry_s):
            extra = {"allocation_id": allocation_id(number), "node_id": slow}
            _log.warning("node did not start run %d in time, rolling back", run, extra=extra)
            self._verdicts.append(RollbackRun(number=number, run=run, node=slow))

    def _give_up(self, allocation: Allocation, parts: list[Part], error: ValueError) -> None:
        _log.error("payload unreadable", extra={"allocation_id": allocation_id(allocation.number)})
        self._verdicts += [
            ReportPart(
                number=allocation.number,
                run=allocation.run,
                node=part.node,
                seq=part.seq + 1,
                phase=PartPhase.ENDED,
                cause=Cause.LAUNCH,
                message=f"what to run cannot be read: {error}",
            )
            for part in parts
        ]

    def _send_update(self, number: int) -> None:
        allocation = self._replica.state.allocations.get(number)
        if allocation is None or not allocation.is_holding:
            return
        token, now_ms = self._mint(allocation), self._clock.now_ms()
        for part in allocation.parts:
            if part.phase is not PartPhase.ENDED:
                self._links.send(part.node, update_order(allocation, token, now_ms, part.node))

    def _send_finish(self, number: int) -> None:
        allocation = self._replica.state.allocations.get(number)
        order = None if allocation is None else finish_order(allocation)
        if allocation is not None and order is not None:
            for part in allocation.launched:
                self._links.send(part.node, order)

    def _send_pause(self, number: int) -> None:
        """Send immediately; a disconnected node receives the order when it reconnects."""
        allocation = self._replica.state.allocations.get(number)
        if allocation is not None and allocation.is_holding:
            for node in allocation.nodes:
                self._links.send(node, pause_order(allocation))

    def _grace_s(self) -> float:
        return seconds_setting(self._replica.state, "agent.grace_s", self._settings.grace_s)
