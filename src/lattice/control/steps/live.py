"""A step in the leader's registry, from its launch to its record: what is known of it, how it is shown, what is kept."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from lattice.control.steps.plan import StepPlan, counted_status, failure_lines
from lattice.core.model.work.steps import StepRecord
from lattice.ports.nodes.agents import StepKey, TaskEnd
from lattice.ports.nodes.steps import LaunchOrder, LaunchRequest, StepOrder, StepView

KEPT_MESSAGE = 2000


@dataclass
class LiveStep:
    """A step that is not recorded yet. `plan` is None while it waits for room."""

    number: int
    run: int
    step: int
    launch_id: str
    name: str
    tasks: int
    started_at: int
    plan: StepPlan | None = None
    request: LaunchRequest | None = None
    orders: dict[str, LaunchOrder] = field(default_factory=dict)  # of nodes not known to have theirs
    unsent: set[str] = field(default_factory=set)
    open_nodes: set[str] = field(default_factory=set)
    ends: dict[int, TaskEnd] = field(default_factory=dict)
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    message: str = ""
    is_ending: bool = False
    ended_at: int = 0
    watchers: set["asyncio.Future[None]"] = field(default_factory=set)
    _ranks: dict[str, frozenset[int]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.step

    @property
    def step_key(self) -> StepKey:
        return StepKey(self.number, self.run, self.step)

    def ranks_on(self, node: str) -> frozenset[int]:
        """The ranks of its tasks on the node."""
        if not self._ranks and self.plan is not None:
            layout = self.plan.layout
            self._ranks = {name: frozenset(ranks) for name, ranks in zip(layout.nodes, layout.ranks(), strict=True)}
        return self._ranks.get(node, frozenset())

    def about(self) -> StepOrder:
        return StepOrder(key=self.step_key)


def view_of(live: LiveStep) -> StepView:
    ends = live.ends.values()
    plan = live.plan
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
        failures=failure_lines(ends, node_of, was_ended=live.is_ending),
    )


def record_of(live: LiveStep) -> StepRecord:
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
        message="; ".join(view.failures)[:KEPT_MESSAGE] or live.message,
        cpu_s=round(live.cpu_s, 3),
        peak_memory_mb=live.peak_memory_mb,
        codes=tuple(sorted(statuses.items())),
        launch_id=live.launch_id,
    )
