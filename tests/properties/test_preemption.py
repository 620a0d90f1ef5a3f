"""No plan takes what is protected, delays what was promised to a higher rank or gives kept nodes away; storms end."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lattice.core.cycle import commands
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.commands import (
    PlaceAllocation,
    RaiseLevel,
    ReportCheckpoint,
    RequestCheckpoint,
    SetSetting,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.checkpoints import CheckpointPhase
from lattice.core.model.work.evictions import Limits, cost_of, limits_of, protection
from lattice.core.scheduler.placement.explain import Explanations
from lattice.core.scheduler.placement.victims import costs
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.tables.snapshot import NEVER
from tests.conftest import sized
from tests.properties.machines import draw_machine, draw_work
from tests.unit.core.scheduler.world import World

EXAMPLES = sized(150, 10_000, covered=300)
SEEDS = st.integers(min_value=0, max_value=2**32)


def draw_busy_machine(dice: Random) -> World:
    """A machine on which work of all classes runs and waits, with settings that let much of it be taken."""
    world = draw_machine(dice, tight_limits=dice.random() < 0.3)
    world.do(RaiseLevel(level=2))
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    world.do(SetSetting(key="checkpoint.root", value="/ck"))
    draw_work(world, dice)
    world.run_cycle()
    start_all(world)
    for record in list(world.state.allocations.values()):
        if record.checkpoints.way is not None and record.is_running and dice.random() < 0.3:
            world.do(RequestCheckpoint(number=record.number))
            answer_one(world, record.number, dice)
    for name, value in (
        ("min_runtime_s", dice.choice((0, 300))),
        ("near_completion_s", dice.choice((0, 300))),
        ("max_victims", dice.choice((1, 2, 3))),
        ("patience_s", dice.choice((0, 30))),
    ):
        world.do(SetSetting(key=f"preemption.{name}", value=str(value)))
    world.now += dice.choice((0, 400_000, 3_000_000))
    draw_work(world, dice)
    return world


def start_all(world: World) -> None:
    for record in list(world.state.allocations.values()):
        if record.state is AllocationState.STARTING:
            world.report_running(record.number)


def answer_one(world: World, number: int, dice: Random) -> None:
    """Its nodes answer the open checkpoint, most of them well."""
    opened = world.state.allocations[number].checkpoints.open
    while opened is not None:
        node = dice.choice([each.node for each in opened.nodes])
        phases = (CheckpointPhase.DONE, CheckpointPhase.DONE, CheckpointPhase.SEALED, *CheckpointPhase)
        world.do(
            ReportCheckpoint(
                number=number, run=opened.run, n=opened.n, node=node, phase=dice.choice(phases), elapsed_s=5.0
            )
        )
        opened = world.state.allocations[number].checkpoints.open


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_no_plan_takes_the_protected(seed: int) -> None:
    """Judged by the records of the state, which the plan never looks at."""
    world = draw_busy_machine(Random(seed))
    limits = limits_of(world.state.settings)
    plan = world.plan()
    taken = [number for taking in plan.takings for number, _ in taking.victims]
    assert len(set(taken)) == len(taken), "nobody is taken twice"
    for taking in plan.takings:
        preemptor = world.state.find(taking.number)
        assert preemptor is not None
        assert 0 < len(taking.victims) <= limits.max_victims
        for number, run in taking.victims:
            victim = world.state.allocations[number]
            assert victim.run == run
            assert victim.preemption_class < preemptor.preemption_class
            assert protection(victim, world.state.vclusters[victim.vcluster], limits, world.now) is None
        _check_all_are_needed(world, taking.victims, {share.node for share in taking.shares})


def _check_all_are_needed(world: World, victims: tuple[tuple[int, int], ...], nodes: set[str]) -> None:
    for number, _ in victims:
        assert nodes & set(world.state.allocations[number].nodes), "whoever frees none of the nodes is not taken"


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_the_machine_accepts_every_eviction_of_a_fresh_plan(seed: int) -> None:
    world = draw_busy_machine(Random(seed))
    plan = world.plan()
    for command in commands(plan):
        outcome = world.try_to(command)
        assert isinstance(outcome, Accepted), (command, outcome)
        assert check(world.state) == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
@example(10084)  # it was promised a start sooner than victims must be gone
@example(107226)  # the nodes that were promised are free now, but the taking leaves too little power to start on them
def test_no_plan_delays_what_was_promised_to_work_of_the_same_or_a_higher_class(seed: int) -> None:
    """Promises are made while nothing may be taken; then it may.

    Two promises may move all the same, with takings or without: one that other work may overtake, and one whose tenant has no quota
    left for it, since promises keep nodes and no quota (docs/architecture/scheduler.md, "Promises").
    """
    world = draw_busy_machine(Random(seed))
    wanted = world.state.settings["preemption.max_victims"]
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    before = world.run_cycle()
    assert not before.takings
    world.do(SetSetting(key="preemption.max_victims", value=wanted))
    plan = world.plan()
    if not plan.takings:
        return
    highest = max(_record_of(world, taking.number).preemption_class for taking in plan.takings)
    starts = {kept.number: kept.start_at for kept in plan.reservations}
    started = {placement.number for placement in plan.placements}
    promised = {kept.number for kept in before.reservations}
    for kept in before.reservations:
        if kept.start_at <= world.now or _record_of(world, kept.number).preemption_class < highest:
            continue
        if kept.number not in started and starts.get(kept.number, NEVER) > kept.start_at:
            is_overtaken = _may_be_overtaken(world, plan, kept.number, promised)
            assert is_overtaken or _lacks_quota(world, plan, kept.number), (kept, starts.get(kept.number))


def _may_be_overtaken(world: World, plan: Plan, number: int, promised: set[int]) -> bool:
    """Whether work without a promise goes before it that is older, or of a higher class."""
    said = plan.explanations
    assert isinstance(said, Explanations)
    order = said.snapshot.queue.number[said.order].tolist()
    own = _record_of(world, number)
    ahead = [_record_of(world, other) for other in order[: order.index(number)] if other not in promised]
    return any(
        other.submitted_at <= own.submitted_at or other.preemption_class > own.preemption_class for other in ahead
    )


def _lacks_quota(world: World, plan: Plan, number: int) -> bool:
    """Whether it waits for quota of its tenant, which preemptors and work that holds nodes use."""
    explanation = plan.explain(number)
    assert explanation is not None
    tenants = {_record_of(world, taking.number).tenant for taking in plan.takings}
    tenants |= {record.tenant for record in world.state.allocations.values() if record.is_holding}
    return explanation.reason.startswith("waiting for quota headroom") and _record_of(world, number).tenant in tenants


def _record_of(world: World, number: int) -> Allocation:
    group = world.state.groups.get(number)
    record = group.template if group is not None else world.state.find(number)
    assert record is not None
    return record


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(SEEDS)
def test_storms_of_classes_end(seed: int) -> None:
    """However victims end and whoever waits: each preemptor starts on what was kept, and nothing is taken for ever."""
    dice = Random(seed)
    world = draw_busy_machine(dice)
    world.do(SetSetting(key="preemption.min_runtime_s", value="0"))
    for _ in range(400):
        plan = world.plan()
        kept = {number: each.nodes for number, each in world.state.evictions.records.items()}
        for command in commands(plan):
            outcome = world.try_to(command)
            assert isinstance(outcome, Accepted), (command, outcome)
            if isinstance(command, PlaceAllocation) and command.number in kept:
                assert sorted(share.node for share in command.shares) == sorted(kept[command.number])
        for record in list(world.state.allocations.values()):
            if record.checkpoints.open is not None and dice.random() < 0.5:
                answer_one(world, record.number, dice)
        stopping = [r.number for r in world.state.allocations.values() if r.state is AllocationState.STOPPING]
        if not stopping and not world.state.evictions.records:
            break
        dice.shuffle(stopping)
        for number in stopping[: dice.randrange(1, 4)]:
            world.stopped(number)
        start_all(world)
        world.now += 1000
    assert check(world.state) == []
    assert not stopping
    assert not world.state.evictions.records
    for record in world.state.allocations.values():
        assert record.state is not AllocationState.SUSPENDED or record.checkpoints.newest is not None
    assert all(record.preempted <= Limits().max_per_allocation for record in world.state.allocations.values())


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(SEEDS)
def test_costs_in_columns_are_those_of_the_records(seed: int) -> None:
    world = draw_busy_machine(Random(seed))
    table = world.snapshot().takeable
    if table is None:
        return
    nodes = world.state.nodes
    expected = [cost_of(world.state.allocations[int(number)], nodes, world.now) for number in table["number"]]
    assert costs(table, world.now).tolist() == expected
