"""A step in the leader's registry, from its launch to its record: what is known of it, how it is shown, what is kept."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from lattice.control.steps.plan import StepPlan, counted_status, failure_lines, how_it_ended
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.layout import Layout
from lattice.core.model.work.steps import StepRecord, is_terminal, step_id
from lattice.core.model.work.usage import NO_USAGE, SINCE_LEVEL, Usage, total_usage
from lattice.ports.nodes.agents import EndCause, PmiUse, StepKey, StepReport, TaskEnd
from lattice.ports.nodes.steps import EndOrder, LaunchOrder, LaunchRequest, StepOrder, StepRefused, StepView

KEPT_MESSAGE = 2000
OPEN_MPI = ("libmpi.so.20", "libmpi.so.40")
OPEN_MPI_CAUSE = "Open MPI needs PMIx: use --pmi=pmix, or mpirun in the script"
NO_SPAWN = (
    "warning: a rank called MPI_Comm_spawn, which is not supported: a step has the ranks that it was launched with"
)
OTHER_CAUSE = "was it built for another process manager, or did it not call MPI_Init?"


@dataclass
class LiveStep:
    """A step that is not recorded yet. `StepRegistry` alone changes it, except for `watchers`.

    It is in one of three states. Waiting for room: `plan` is None and `request` is not. Running: `plan` is set and `open_nodes` is
    not empty. Over: `ended_at` is set; from then on only its record is made, and nothing else changes.
    """

    # Who it is; fixed.
    number: int  # of the allocation
    run: int  # of the allocation; a step never outlives its run
    step: int  # its own number, which no other step of the allocation ever had
    launch_id: (
        str  # chosen by the client: a repeated request finds the step by it, and a node's word counts only with it
    )
    name: str  # for people; two may have the same
    tasks: int  # of all its nodes together
    started_at: int  # when it was launched, then when it got room
    plan: StepPlan | None = None  # set once, when there is room or when a node reported it, and never changed
    request: LaunchRequest | None = None  # what waits for room; a leader that took over does not have it
    orders: dict[str, LaunchOrder] = field(default_factory=dict)  # of nodes not known to have theirs
    unsent: set[str] = field(
        default_factory=set
    )  # of these, the ones whose stream has not taken it: nothing runs there
    open_nodes: set[str] = field(
        default_factory=set
    )  # where tasks may live; only shrinks, and the step is over when it is empty
    ends: dict[int, TaskEnd] = field(default_factory=dict)  # by rank; what was noted of a rank is never overwritten
    cpu_s: float = 0.0  # added up once per node, when the node leaves `open_nodes`
    peak_memory_mb: int = 0  # the highest of a node
    usage: Usage = NO_USAGE  # likewise added up once per node
    message: str = ""  # the first reason that anybody gave
    pmi: dict[str, PmiUse] = field(default_factory=dict)  # by node, what it said last
    is_ending: bool = False  # its nodes were ordered to end it; never False again
    ended_at: int = 0  # 0 = not over
    fed_at: int = 0  # when input came last
    watchers: set["asyncio.Future[None]"] = field(
        default_factory=set
    )  # each belongs to the call that waits, and is removed by it
    _ranks: dict[str, frozenset[int]] = field(default_factory=dict)  # computed from the plan on first use

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.step

    @property
    def id(self) -> str:
        """As users write it."""
        return step_id(allocation_id(self.number), self.step)

    @property
    def step_key(self) -> StepKey:
        return StepKey(self.number, self.run, self.step)

    def ranks_on(self, node: str) -> frozenset[int]:
        """The ranks of its tasks on the node."""
        if not self._ranks and self.plan is not None:
            layout = self.plan.layout
            self._ranks = {name: frozenset(ranks) for name, ranks in zip(layout.nodes, layout.ranks(), strict=True)}
        return self._ranks.get(node, frozenset())

    def add_use(self, report: StepReport) -> None:
        """What its tasks on one more node used, and why they ended."""
        self.cpu_s += report.cpu_s
        self.peak_memory_mb = max(self.peak_memory_mb, report.peak_memory_mb)
        used = replace(report.usage, is_oom=True) if report.cause is EndCause.OOM else report.usage
        self.usage = total_usage((self.usage, used))
        self.message = self.message or report.message

    def about(self) -> StepOrder:
        return StepOrder(key=self.step_key)

    def end_order(self, grace_s: float, why: str) -> EndOrder:
        return EndOrder(key=self.step_key, grace_s=grace_s, why=why)


class LiveSteps:
    """All steps that are not recorded yet. `StepRegistry` alone changes it, by these methods; others read the tables."""

    def __init__(self) -> None:
        # The same steps twice; an allocation without any has no entry.
        self.by_key: dict[tuple[int, int], LiveStep] = {}
        self.by_allocation: dict[int, dict[int, LiveStep]] = {}
        # The next free number of each allocation, kept as long as the allocation, so that no number is given twice.
        self._next: dict[int, int] = {}

    def get(self, key: tuple[int, int]) -> LiveStep | None:
        return self.by_key.get(key)

    def of(self, number: int) -> Mapping[int, LiveStep]:
        return self.by_allocation.get(number, {})

    def keep(self, live: LiveStep) -> None:
        self.by_key[live.key] = live
        self.by_allocation.setdefault(live.number, {})[live.step] = live

    def free_number(self, number: int) -> int:
        return self._next.get(number, 0)

    def note_number(self, number: int, step: int) -> None:
        """A step of the allocation has this number: those that come have higher ones."""
        self._next[number] = max(self.free_number(number), step + 1)

    def forget(self, live: LiveStep, *, is_last_word: bool) -> None:
        """`is_last_word`: the allocation is gone, and has no further steps when this was its last one here."""
        self.by_key.pop(live.key, None)
        steps = self.by_allocation.get(live.number, {})
        steps.pop(live.step, None)
        if not steps:
            self.by_allocation.pop(live.number, None)
            if is_last_word:
                self._next.pop(live.number, None)

    def clear(self) -> None:
        for table in (self.by_key, self.by_allocation, self._next):
            table.clear()


def note_use(live: LiveStep, node: str, report: StepReport) -> None:
    """What the node says of its PMI service; a step that its service ended has not failed by the tasks that died of it."""
    if report.pmi is not None:
        live.pmi[node] = report.pmi
    if report.was_ended:
        live.message = live.message or report.message
        live.is_ending = True


def singleton_warning(live: LiveStep) -> str:
    """For an MPI program whose ranks never met; empty where there is nothing to warn of."""
    libraries = [use.library for use in live.pmi.values() if use.library]
    is_failed = any(end.status for end in live.ends.values())
    if not live.ended_at or live.tasks < 2 or is_failed or not libraries or any(use.met for use in live.pmi.values()):
        return ""
    cause = OPEN_MPI_CAUSE if libraries[0].startswith(OPEN_MPI) else OTHER_CAUSE
    return (
        f"warning: {live.tasks} tasks ran as {live.tasks} programs of one rank each: they loaded {libraries[0]} and did "
        f"not use the step's PMI; {cause}"
    )


def task_failure(node: str, end: TaskEnd) -> str:
    return f"task {end.rank} on {node}: {how_it_ended(end)}"


def pmi_summary(live: LiveStep) -> str:
    """What the ranks did to find each other; empty for a step that is no MPI program."""
    uses = [use for use in live.pmi.values() if use.met]
    if not uses:
        return ""
    ranks, fences, slowest_s = (
        sum(use.met for use in uses),
        max(use.fences for use in uses),
        max(use.slowest_s for use in uses),
    )
    return (
        f"{uses[0].kind}: {ranks} {'rank' if ranks == 1 else 'ranks'}, {fences} {'fence' if fences == 1 else 'fences'}, "
        f"{sum(use.bytes for use in uses):,} bytes exchanged, slowest fence {slowest_s * 1000:.1f} ms"
    )


def view_of(live: LiveStep) -> StepView:
    ends = live.ends.values()
    plan = live.plan
    warnings = (singleton_warning(live), NO_SPAWN if any(use.wanted_spawn for use in live.pmi.values()) else "")
    node_of = plan.node_of() if plan and any(end.status for end in ends) else {}
    return StepView(
        number=live.number,
        run=live.run,
        step=live.step,
        launch_id=live.launch_id,
        name=live.name,
        layout=plan.layout if plan else None,
        tasks=live.tasks,
        started_at=live.started_at,
        input_nodes=plan.input_nodes() if plan else (),
        closed_nodes=tuple(node for node in plan.layout.nodes if node not in live.open_nodes) if plan else (),
        has_ended=bool(live.ended_at),
        ended_at=live.ended_at,
        exit_code=counted_status(ends, was_ended=live.is_ending),
        lost=sum(end.is_lost for end in ends),
        message=live.message,
        failures=failure_lines(ends, node_of, was_ended=live.is_ending) + tuple(filter(None, warnings)),
        is_terminal=is_terminal(live.launch_id),
        pmi=pmi_summary(live),
        fed_at=live.fed_at,
        stdin=plan.stdin if plan else "",
    )


def record_of(live: LiveStep, level: int) -> StepRecord:
    """As a log of this level takes it."""
    statuses = Counter(end.status for end in live.ends.values())
    view = view_of(live)
    return StepRecord(
        step=live.step,
        run=live.run,
        name=live.name,
        nodes=live.plan.layout.nodes if live.plan else (),
        tasks=live.tasks,
        started_at=live.started_at,
        ended_at=live.ended_at,
        exit_code=view.exit_code,
        lost=view.lost,
        message="; ".join(filter(None, ("; ".join(view.failures)[:KEPT_MESSAGE] or live.message, pmi_summary(live)))),
        cpu_s=round(live.cpu_s, 3),
        peak_memory_mb=live.peak_memory_mb,
        usage=live.usage if level >= SINCE_LEVEL else NO_USAGE,
        codes=tuple(sorted(statuses.items())),
        launch_id=live.launch_id,
    )


def cpus_left(state: State, allocation: Allocation, steps: Iterable[LiveStep] = ()) -> list[tuple[str, int]]:
    """CPUs that the allocation holds of each of its nodes, less those of the steps that live there."""
    nodes = state.nodes
    cpus = {share.node: nodes[share.node].hardware.cpus if share.whole else share.cpus for share in allocation.shares}
    for live in steps:
        for place, node in enumerate(live.plan.layout.nodes if live.plan else ()):
            if node in live.open_nodes and node in cpus and live.plan is not None:
                cpus[node] = max(0, cpus[node] - live.plan.cpus_on(place))
    return list(cpus.items())


def check_gpus(state: State, allocation: Allocation, layout: Layout, per_task: int) -> None:
    """Raises StepRefused where the tasks of a node would have more GPUs than the allocation holds there."""
    if not per_task:
        return
    nodes = state.nodes
    held = {share.node: nodes[share.node].hardware.gpus if share.whole else share.gpus for share in allocation.shares}
    for node, tasks in zip(layout.nodes, layout.counts, strict=True):
        if tasks * per_task > held.get(node, 0):
            raise StepRefused(
                "infeasible",
                "more GPUs than the allocation holds",
                requested=f"{tasks} tasks with {per_task} GPUs each on {node}",
                limit=f"{held.get(node, 0)} GPUs on {node}",
                hint="ask for fewer tasks on each node, or submit with more --gpus",
            )
