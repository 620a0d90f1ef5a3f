"""How far a node is believed about steps: for the steps of runs that it has or had last, and there for its own tasks."""

import logging
from collections import Counter
from collections.abc import Iterable

from lattice.control.steps.live import LiveStep
from lattice.control.steps.plan import StepPlan, decode_plan
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.steps import MAX_TASKS
from lattice.ports.nodes.agents import KnownStep, RunKey, StepKey, StepReport, TaskEnd

# Numbers of steps that were refused for want of room are skipped, so gaps are possible; not such gaps.
MAX_AHEAD = 65_536
MAX_STEPS = (1 << 32) - 1  # of one allocation
MAX_PLAN_BYTES = 4 << 20
MAX_REFUSED = 200  # plans of one message that are read and turn out to be none; the others are not read
MAX_TEXT = 4096
MAX_MOMENT_MS = 253_402_300_799_000  # the last second that can be written with four digits of the year

_log = logging.getLogger(__name__)


class ForeignWords:
    """What nodes say of steps that they cannot have. One message may hold thousands: each doubling of a node's count is logged."""

    def __init__(self) -> None:
        # By node; never reset, so that a node cannot fill the log by registering again.
        self._counts: Counter[str] = Counter()

    def note(self, node: str, key: RunKey) -> None:
        self._counts[node] += 1
        count = self._counts[node]
        if count & (count - 1) == 0:
            about = "word of a foreign step of %s is ignored; %d from this node so far"
            _log.warning(about, allocation_id(key.number), count, extra={"node_id": node})


def has_run(state: State, node: str, key: RunKey) -> bool:
    """Whether the run is the allocation's present or last one, and the node belongs to it."""
    allocation = state.allocations.get(key.number)
    return allocation is not None and allocation.run == key.run and node in allocation.run_nodes


class PlanReader:
    """The plans in one message of a node. To read one takes time by its size, so few of a node that makes them up are read."""

    def __init__(self, state: State, node: str) -> None:
        self._state = state
        self._node = node
        self._left = MAX_REFUSED

    def trusted(self, known: KnownStep) -> StepPlan | None:
        """The plan of a step that the node says it has; None when it cannot be a step of a run of this node."""
        if len(known.plan) > MAX_PLAN_BYTES or not has_run(self._state, self._node, known.key.of_run) or not self._left:
            return None
        plan = _read(self._state, self._node, known)
        if plan is None:
            self._left -= 1
        return plan


def _read(state: State, node: str, known: KnownStep) -> StepPlan | None:
    allocation = state.allocations[known.key.number]
    plan = decode_plan(known.plan)
    if plan is None or known.key.step >= min(allocation.next_step + MAX_AHEAD, MAX_STEPS):
        return None
    is_same = StepKey(plan.number, plan.run, plan.step) == known.key
    return plan if is_same and _fits(plan, node, frozenset(allocation.run_nodes)) else None


def is_settled(state: State, node: str, report: StepReport) -> bool:
    """Whether a step that is not followed needs no more reports: it is recorded, or there is nothing to record it with."""
    if not has_run(state, node, report.key.of_run):
        return True
    return any(record.launch_id == report.launch_id for record in state.allocations[report.key.number].steps)


def _fits(plan: StepPlan, node: str, nodes: frozenset[str]) -> bool:
    """Whether the layout is one of the allocation's nodes, of a size that a step may have."""
    layout = plan.layout
    if max(len(plan.name), len(plan.launch_id), len(plan.stdin)) > MAX_TEXT:
        return False
    if not (0 < plan.cpus_per_task <= MAX_TASKS and 0 <= plan.started_at <= MAX_MOMENT_MS):
        return False
    if len(layout.nodes) != len(layout.counts) or len(set(layout.nodes)) != len(layout.nodes):
        return False
    if node not in layout.nodes or not nodes.issuperset(layout.nodes):
        return False
    return all(0 < count <= MAX_TASKS for count in layout.counts) and layout.size <= MAX_TASKS


def concerns(live: LiveStep, node: str, report: StepReport) -> bool:
    """Whether the node has tasks of the step, and means this run of it."""
    return live.plan is not None and report.key.run == live.run and node in live.plan.layout.nodes


def news(live: LiveStep, node: str, ends: Iterable[TaskEnd]) -> list[TaskEnd]:
    """Ends that are not known yet, of tasks that the node has."""
    own = live.ranks_on(node)
    return [end for end in ends if end.rank in own and end.rank not in live.ends]
