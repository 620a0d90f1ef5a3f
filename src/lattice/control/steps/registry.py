"""The leader's registry of steps: launched inside running allocations, followed to their end, recorded in batches.

What holds: a node gets a step's order until it is known to have it; a step's tasks on a node are over when the node said so, or
when the node itself is lost; a step is over when all its nodes are; and its nodes are ordered to forget it only after its record was
committed. So the next leader finds unrecorded steps on the nodes. A node gets no work while a step of a gone allocation lingers there.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.control.settings import seconds_setting
from lattice.control.steps.admission import MAX_LIVE, admitted, count_terminals, not_connected
from lattice.control.steps.containers import KeptContainers
from lattice.control.steps.leaving import Leavers
from lattice.control.steps.live import LiveStep, LiveSteps, cpus_left, note_use, record_of, task_failure, view_of
from lattice.control.steps.orders import BaseFacts, base_orders, launch_orders
from lattice.control.steps.plan import StepPlan, shown_name, step_name, unknown_step
from lattice.control.steps.trust import MAX_STEPS, ForeignWords, PlanReader, concerns, is_settled, news
from lattice.control.steps.wireup import WireUp, choose_port
from lattice.control.work.runs import holding_runs
from lattice.core.machine.commands import Envelope, RecordSteps
from lattice.core.machine.events import AllocationEnded, AllocationRequeued, AllocationStopping, AnyEvent, NodeMoved
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.layout import Misfit, lay_out
from lattice.core.model.work.steps import StepRecord, step_id
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import (
    EndCause,
    KnownStep,
    OutputPiece,
    RunKey,
    StepKey,
    StepReport,
    TaskEnd,
)
from lattice.ports.nodes.steps import (
    AckOrder,
    InputPiece,
    LaunchOrder,
    LaunchRequest,
    ResizeOrder,
    SignalOrder,
    StepLinks,
    StepOrder,
    StepRefused,
    StepView,
)
from lattice.ports.quorum.replica import Replica
from lattice.wire.slurm.variables import SlurmSettings
from lattice.wire.work.steps import recorded_view

ACTOR = "steps"
GATHER_S = 1.0
MAX_GATHER = 100
NODES_WITHIN_S = 5.0
NODES_EVERY_S = 0.05
# A node that has not got its part of a step from the last leader gets it from the repeated request, or never.
ADOPT_WITHIN_S = 15.0
# No step that a node has and this leader has not heard of is further ahead of what is recorded; nor are there more of an allocation.
UNHEARD = 2 * MAX_LIVE


class StepSettings(Struct, frozen=True, kw_only=True):
    grace_s: float = 30.0
    api_url: str = ""
    slurm: SlurmSettings = SlurmSettings()
    terminals: int = 5  # of one user, unless the settings of the cluster say it; 0 = no limit


class StepRegistry:
    """Implements `StepService`; `mint` makes the token that an allocation gets for itself, `on_cleared` hears of nodes that are free
    of steps that lingered."""

    def __init__(
        self,
        replica: Replica,
        links: StepLinks,
        clock: Clock,
        settings: StepSettings,
        mint: Callable[[Allocation], str],
        on_cleared: Callable[[str], None],
        wire_up: WireUp,
        grant: Callable[[str, str], str] = lambda prefix, node: "",
    ) -> None:
        self._replica = replica
        self._links = links
        self._clock = clock
        self._settings = settings
        self._mint = mint
        self._on_cleared = on_cleared
        self._wire_up = wire_up
        self._grant = grant
        self._steps = LiveSteps()  # every step that is not recorded
        # (node, step), and until when: nodes of an adopted step that have not reported it. Each leaves when its node reports, when the
        # client repeats the request and the node gets its order, or when the time is over and its tasks count as lost.
        self._missing: dict[tuple[str, tuple[int, int]], float] = {}
        self._over: list[LiveStep] = []  # wait to be recorded; still in `_live`, where a repeated report finds them
        self._told: set[str] = set()  # nodes that have said since this leader began which steps they have
        self._leavers = Leavers()  # steps that are over on some of their nodes, and when the others learn it
        self._containers = KeptContainers(
            links.order_step
        )  # what steps left under names, and who is to hear when it goes
        self._alarm = (
            Alarm()
        )  # wakes the loop: something is to be recorded, or may have become due earlier than it looks
        self._guard = Guard(ACTOR)  # a step that cannot be recorded stays in `_over`, and the others are
        self.counts: Counter[str] = Counter()  # for metrics; nothing is decided by them
        self._foreign = ForeignWords()  # what nodes said of steps that are not theirs: counted, never believed
        replica.subscribe(self._note, of=(AllocationStopping, AllocationEnded, AllocationRequeued, NodeMoved))

    # What users ask.

    async def launch(self, allocation: Allocation, request: LaunchRequest) -> StepView:
        known = self._repeated(allocation, request)
        if known is not None:
            return known
        allocation = await self._reachable(allocation, request)
        known = self._repeated(allocation, request)
        if known is not None:
            return known
        total = admitted(
            self._replica.state, allocation, request, self._steps.by_allocation, self._wire_up, self._settings.terminals
        )
        live = self._enter(allocation, request, total.size)
        if not self._start(live, allocation, request):
            if request.immediate:
                self._forget(live)
                raise StepRefused(
                    "conflict",
                    f"other steps of {allocation_id(allocation.number)} have its CPUs",
                    hint="wait for them to end, or let the step --overlap",
                )
            live.request = request
        return view_of(live)

    def live(self, number: int) -> tuple[StepView, ...]:
        return tuple(view_of(live) for _, live in sorted(self._steps.of(number).items()))

    def open_terminals(self) -> int:
        return count_terminals(self._steps.by_allocation)

    def find(self, number: int, step: int) -> StepView | None:
        live = self._steps.get((number, step))
        return None if live is None else view_of(live)

    async def changed(self, number: int, step: int) -> None:
        live = self._steps.get((number, step))
        if live is None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        live.watchers.add(future)
        try:
            await future
        finally:
            live.watchers.discard(future)

    def signal(self, number: int, step: int, signal: int) -> None:
        live = self._running(number, step)
        for node in sorted(live.open_nodes):
            self._links.order_step(node, SignalOrder(key=live.step_key, signal=signal))

    def end(self, number: int, step: int, why: str) -> None:
        live = self._steps.get((number, step))
        if live is None:
            raise unknown_step(number, step)
        self._end(live, self._grace_s(), why)

    def resize(self, number: int, step: int, rows: int, columns: int, client: str = "") -> None:
        live = self._running(number, step)
        order = ResizeOrder(key=live.step_key, rows=rows, columns=columns, client=client)
        for node in sorted(live.open_nodes):
            self._links.order_step(node, order)

    async def feed(self, number: int, step: int, piece: InputPiece) -> int | None:
        live = self._steps.get((number, step))
        if live is None:
            raise unknown_step(number, step)
        if live.plan is None:
            return None
        takers = live.plan.input_nodes(piece.task)
        if piece.task is not None and not takers:
            raise StepRefused("invalid", f"task {piece.task} takes no input", current=live.plan.stdin)
        live.fed_at = self._clock.now_ms() if piece.data else live.fed_at
        nodes = [node for node in takers if node in live.open_nodes]
        if not nodes:
            return piece.offset + len(piece.data)
        missing = {node for node in nodes if (node, live.key) in self._missing}
        if (live.unsent | missing).intersection(nodes):
            return None
        return min(await asyncio.gather(*(self._links.feed_step(node, live.about(), piece) for node in nodes)))

    def read(
        self, node: str, number: int, run: int, step: int, *, offset: int, follow: bool = True
    ) -> AsyncIterator[OutputPiece]:
        about = StepOrder(key=StepKey(number, run, step))
        return self._links.read_journal(node, about, offset=offset, follow=follow)

    def _running(self, number: int, step: int) -> LiveStep:
        live = self._steps.get((number, step))
        if live is None:
            raise unknown_step(number, step)
        if live.plan is None:
            raise StepRefused("conflict", f"{step_id(allocation_id(number), step)} waits for room and has no tasks yet")
        return live

    # Launching.

    def _repeated(self, allocation: Allocation, request: LaunchRequest) -> StepView | None:
        for live in self._steps.of(allocation.number).values():
            if live.launch_id == request.launch_id:
                self._complete(live, allocation, request)
                return view_of(live)
        for record in allocation.steps:
            if record.launch_id == request.launch_id:
                return recorded_view(allocation.number, record)
        return None

    def _complete(self, live: LiveStep, allocation: Allocation, request: LaunchRequest) -> None:
        """Gives nodes their part that the last leader did not reach."""
        if live.plan is None or live.is_ending or allocation.run != live.run:
            return
        waiting = {node for node in live.plan.layout.nodes if self._missing.pop((node, live.key), 0.0)}
        if waiting:
            orders = self._orders(allocation, request, live.plan)
            live.orders |= {node: orders[node] for node in waiting if node in live.open_nodes}
            live.unsent |= set(live.orders)
            self._send_orders(live)

    async def _reachable(self, allocation: Allocation, request: LaunchRequest) -> Allocation:
        """The allocation as it is when all its nodes take orders: then their steps are known, and numbers are not given twice.
        A terminal needs its own node alone."""
        own = request.task_request.node_list if request.terminal is not None else ()
        deadline = self._clock.monotonic_s() + NODES_WITHIN_S
        while True:
            current = self._replica.state.allocations.get(allocation.number)
            is_late = self._clock.monotonic_s() >= deadline
            is_starting = current is not None and current.state is AllocationState.STARTING and not is_late
            if current is None or (not current.is_running and not is_starting):
                state = "gone" if current is None else str(current.state)
                raise StepRefused("conflict", f"{allocation_id(allocation.number)} is not running", current=state)
            away = [node for node in current.nodes if not self._links.is_connected(node)]
            is_free = bool(own) and not set(own).intersection(away) and (is_late or self._told.issuperset(away))
            if (not away or is_free) and not is_starting:
                return current
            if is_late:
                raise not_connected(next((node for node in away if node in own), away[0]), allocation)
            await asyncio.sleep(NODES_EVERY_S)

    def _enter(self, allocation: Allocation, request: LaunchRequest, tasks: int) -> LiveStep:
        number = allocation.number
        step = max(allocation.next_step, self._steps.free_number(number))
        if not all(node in self._told or self._links.is_connected(node) for node in allocation.nodes):
            step = max(step, allocation.next_step + UNHEARD)
        if step >= MAX_STEPS:
            raise StepRefused("conflict", f"{allocation_id(number)} has no numbers left for further steps")
        self._steps.note_number(number, step)
        live = LiveStep(
            number=number,
            run=allocation.run,
            step=step,
            launch_id=request.launch_id,
            name=step_name(request.argv or (request.programs[0].argv if request.programs else ())),
            tasks=tasks,
            started_at=self._clock.now_ms(),
        )
        self._steps.keep(live)
        return live

    def _start(self, live: LiveStep, allocation: Allocation, request: LaunchRequest) -> bool:
        """Sends the step to its nodes, if there is room and no other step waits before it."""
        ahead = any(other.plan is None and other.step < live.step for other in self._steps.of(live.number).values())
        if ahead and not request.overlap:
            return False
        others = () if request.overlap else self._steps.of(live.number).values()
        layout = lay_out(request.task_request, cpus_left(self._replica.state, allocation, others))
        if isinstance(layout, Misfit):
            return False
        live.tasks = layout.size
        live.started_at = self._clock.now_ms()
        live.plan = StepPlan(
            number=live.number,
            run=live.run,
            step=live.step,
            launch_id=live.launch_id,
            name=live.name,
            layout=layout,
            started_at=live.started_at,
            cpus_per_task=request.task_request.cpus_per_task,
            stdin=request.stdin,
            no_kill=request.no_kill,
            overlap=request.overlap,
            port=choose_port(live.launch_id, (other.plan.port for other in self._steps.by_key.values() if other.plan)),
        )
        live.request = None
        live.open_nodes = set(layout.nodes)
        live.orders = self._orders(allocation, request, live.plan)
        live.unsent = set(live.orders)
        self._containers.launched(live.step_key.of_run, layout.nodes, request)
        self.counts["launched"] += 1
        self._send_orders(live)
        return True

    def _send_orders(self, live: LiveStep) -> None:
        for node in sorted(live.unsent):
            self._send_order(live, node)
        self._tell(live)

    def _send_order(self, live: LiveStep, node: str) -> None:
        order = live.orders.get(node)
        if order is not None and self._links.order_step(node, order):
            live.unsent.discard(node)

    def _orders(self, allocation: Allocation, request: LaunchRequest, plan: StepPlan) -> dict[str, LaunchOrder]:
        state = self._replica.state
        facts = BaseFacts(
            token=self._mint(allocation),
            grace_s=self._grace_s(),
            api_url=self._settings.api_url,
            slurm=self._settings.slurm,
            grant=self._grant,
        )
        bases = base_orders(state, allocation, request, plan, facts)
        return launch_orders(plan, request, bases, self._wire_up.meeting(state, plan, request))

    def _grace_s(self) -> float:
        return seconds_setting(self._replica.state, "agent.grace_s", self._settings.grace_s)

    # What nodes say.

    def registered(self, node: str, known: tuple[KnownStep, ...], containers: tuple[RunKey, ...] = ()) -> None:
        """The node has these steps and no others, and keeps containers of these runs."""
        self._told.add(node)
        self._containers.registered(node, containers, self.held_by(node) if containers else ())
        has = {(step.key.number, step.key.step): step for step in known}
        plans = PlanReader(self._replica.state, node)
        for step in known:
            self._adopt(node, step, plans)
        for live in list(self._steps.by_key.values()):
            if live.plan is None or node not in live.open_nodes or live.key in has:
                continue
            if node in live.orders:
                live.unsent.add(node)  # lost on the way
                continue
            # The last leader has not sent it: only a repeated request has the order.
            self._missing.setdefault((node, live.key), self._clock.monotonic_s() + ADOPT_WITHIN_S)
            self._alarm.ring()

    def node_opened(self, node: str) -> None:
        """Orders reach the node from now on."""
        for live in list(self._steps.by_key.values()):
            with self._guard.item(live.id):
                if node in live.unsent:
                    self._send_order(live, node)
                if live.is_ending and node in live.open_nodes:
                    self._links.order_step(node, live.end_order(self._grace_s(), live.message))

    def _adopt(self, node: str, known: KnownStep, plans: PlanReader) -> None:
        number = known.key.number
        live = self._steps.get((number, known.key.step))
        is_full = live is None and len(self._steps.of(number)) >= UNHEARD
        plan = None if is_full else plans.trusted(known)
        if plan is None:
            self._distrust(node, known.key.of_run)
            return
        self._steps.note_number(number, known.key.step)
        if live is None:
            live = LiveStep(
                number=number,
                run=plan.run,
                step=plan.step,
                launch_id=plan.launch_id,
                name=shown_name(plan.name),
                tasks=plan.layout.size,
                started_at=plan.started_at,
                plan=plan,
                open_nodes=set(plan.layout.nodes),
            )
            self._steps.keep(live)
            late_s = self._clock.monotonic_s() + ADOPT_WITHIN_S
            self._missing |= {(other, live.key): late_s for other in plan.layout.nodes if other != node}
            self._alarm.ring()
        elif live.launch_id != plan.launch_id or live.plan is None or node not in live.plan.layout.nodes:
            self._distrust(node, known.key.of_run)
            return
        self._has_it(live, node)
        self._missing.pop((node, live.key), None)
        if not self._is_wanted(live):
            self._end(live, 0.0, "the allocation has ended")

    def report(self, node: str, report: StepReport) -> None:
        live = self._steps.get((report.key.number, report.key.step))
        if live is None or live.launch_id != report.launch_id:
            if report.ended and is_settled(self._replica.state, node, report):
                self._links.order_step(node, AckOrder(key=report.key))
            return
        if not concerns(live, node, report):
            self._distrust(node, report.key.of_run)
            return
        self._has_it(live, node)
        note_use(live, node, report)
        fresh = news(live, node, report.tasks)
        for end in fresh:
            live.ends[end.rank] = end
        if report.ended and node in live.open_nodes:
            live.add_use(report)
            self._node_over(live, node)
        failed = next((end for end in fresh if end.status), None)
        if report.was_ended and live.open_nodes:
            self._end(live, 0.0, report.message)
        elif failed is not None and live.plan is not None and not live.plan.no_kill and live.open_nodes:
            self._end(live, self._grace_s(), task_failure(node, failed))
        self._tell(live)

    def _has_it(self, live: LiveStep, node: str) -> None:
        live.orders.pop(node, None)
        live.unsent.discard(node)

    def _distrust(self, node: str, key: RunKey) -> None:
        """The node speaks of a step that it cannot have."""
        self.counts["foreign_steps"] += 1
        self._foreign.note(node, key)

    def _lose(self, live: LiveStep, node: str, why: str) -> None:
        if live.plan is None or node not in live.open_nodes:
            return
        self._has_it(live, node)
        for rank, home in live.plan.node_of().items():
            if home == node and rank not in live.ends:
                live.ends[rank] = TaskEnd(rank=rank, message=why, cause=EndCause.NODE)
        self._node_over(live, node)
        if live.open_nodes:
            self._end(live, self._grace_s(), f"node {node} was lost")
        self._tell(live)

    def _node_over(self, live: LiveStep, node: str) -> None:
        live.open_nodes.discard(node)
        if self._leavers.note(live, self._clock.monotonic_s()):
            self._alarm.ring()
        if not live.open_nodes and not live.ended_at:
            live.ended_at = self._clock.now_ms()
            self._over.append(live)
            if len(self._over) == 1 or len(self._over) >= MAX_GATHER:
                self._alarm.ring()
        if not self.lingering(node):
            self._on_cleared(node)
        self._start_waiting(live.number)

    def _start_waiting(self, number: int) -> None:
        allocation = self._replica.state.allocations.get(number)
        for _, live in sorted(self._steps.of(number).items()):
            if live.request is None or live.ended_at:
                continue
            if allocation is None or not allocation.is_running:
                return
            if not self._start(live, allocation, live.request):
                return

    # What becomes of steps whose allocation changes.

    def lingering(self, node: str) -> bool:
        """Whether tasks may still live there whose allocation does not hold the node any more."""
        return any(
            node in live.open_nodes and node not in live.unsent and not self._is_wanted(live)
            for live in self._steps.by_key.values()
        )

    def held_by(self, node: str) -> tuple[RunKey, ...]:
        """The runs that hold the node: steps of these may live there."""
        return holding_runs(self._replica.state, node)

    def _is_wanted(self, live: LiveStep) -> bool:
        allocation = self._replica.state.allocations.get(live.number)
        return allocation is not None and allocation.is_holding and allocation.run == live.run

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, AllocationStopping):
                self._end_all(event.number, self._grace_s(), "the allocation is being stopped")
            elif isinstance(event, AllocationEnded | AllocationRequeued):
                self._end_all(event.number, 0.0, "the allocation has ended")
                self._containers.ended(event.number)
            elif isinstance(event, NodeMoved) and event.state is NodeState.DOWN:
                for live in list(self._steps.by_key.values()):
                    with self._guard.item(live.id):
                        self._lose(live, event.node, f"node {event.node} was lost")

    def _end_all(self, number: int, grace_s: float, why: str) -> None:
        for live in list(self._steps.of(number).values()):
            with self._guard.item(live.id):
                self._end(live, grace_s, why)

    def _end(self, live: LiveStep, grace_s: float, why: str) -> None:
        if live.ended_at:
            return
        if live.plan is None:
            self._give_up(live, why)
            return
        if not live.is_ending:
            live.is_ending = True
            live.message = live.message or why
        for node in sorted(live.open_nodes):
            if node in live.unsent:
                self._lose(live, node, "ended before it was started")
            else:
                self._links.order_step(node, live.end_order(grace_s, why))

    def _give_up(self, live: LiveStep, why: str) -> None:
        """A step that never got room."""
        live.request = None
        live.message = why
        live.is_ending = True
        live.ends = {rank: TaskEnd(rank=rank, signal=15) for rank in range(1)}
        live.ended_at = self._clock.now_ms()
        self._over.append(live)
        self._alarm.ring()
        self._tell(live)
        self._start_waiting(live.number)

    # The loop: records what is over, gives up what never arrived.

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    def reset(self) -> None:
        """Forgets everything; for a new leader, to whom the nodes tell what they have."""
        self._steps.clear()
        self._missing.clear()
        self._leavers.clear()
        self._containers.clear()
        self._over.clear()

    async def _turn(self) -> None:
        due = min((when for when in (*self._missing.values(), self._leavers.next_s) if when), default=None)
        pause_s = None if due is None else due - self._clock.monotonic_s()
        await self._alarm.wait(0.0 if self._over else pause_s)
        self._give_up_missing()
        self._leavers.tell(self._clock.monotonic_s(), self._steps.get, self._links.order_step)
        if self._over:
            if len(self._over) < MAX_GATHER or self._guard:
                await asyncio.sleep(GATHER_S)
            await self.record()

    def _give_up_missing(self) -> None:
        now = self._clock.monotonic_s()
        late = [entry for entry, until_s in self._missing.items() if until_s <= now]
        for node, key in late:
            del self._missing[node, key]
            live = self._steps.get(key)
            if live is not None:
                with self._guard.item(live.id):
                    self._lose(live, node, f"node {node} does not know the step")

    async def record(self) -> None:
        """Commits what is over, then lets the nodes forget it. What cannot be committed now is tried again."""
        taken, self._over = self._over[:MAX_GATHER], self._over[MAX_GATHER:]
        over: list[LiveStep] = []
        by_number: dict[int, list[StepRecord]] = {}
        for live in taken:
            with self._guard.item(live.id):
                record = record_of(live, self._replica.state.level)
                by_number.setdefault(live.number, []).append(record)
                over.append(live)
                continue
            self._over.append(live)  # behind all others
        commands = [RecordSteps(number=number, steps=tuple(records)) for number, records in by_number.items()]
        try:
            await self._replica.propose_many(commands, ACTOR)
        except BaseException:
            self._over = [*over, *self._over]
            raise
        self.counts["recorded"] += len(over)
        for live in over:
            self._forget(live)
            with self._guard.item(live.id):
                for node in live.plan.layout.nodes if live.plan else ():
                    self._links.order_step(node, AckOrder(key=live.step_key))

    def _forget(self, live: LiveStep) -> None:
        self._steps.forget(live, is_last_word=live.number not in self._replica.state.allocations)
        self._tell(live)

    def _tell(self, live: LiveStep) -> None:
        for watcher in live.watchers:
            if not watcher.done():
                watcher.set_result(None)
