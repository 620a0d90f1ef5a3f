"""Nodes are lent only by those who lend them, to whom and as many as they say; homes get them back; storms of reclaims end."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.cycle import commands
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.commands import (
    AnyCommand,
    EvictAllocations,
    PlaceAllocation,
    RaiseLevel,
    SetSetting,
    StopVictims,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.site.tenants import Demands, Lending, Lends, NodeSharing, Preemption
from lattice.core.model.work.allocations import Allocation, AllocationState, Request, TaskGroup
from lattice.core.model.work.evictions import EvictionReason, VictimPhase, limits_of
from lattice.core.scheduler.proposals import Plan
from tests.conftest import sized
from tests.properties.test_preemption import start_all
from tests.unit.core.scheduler.world import FirstCome, World

EXAMPLES = sized(100, 10_000, covered=200)
SEEDS = st.integers(min_value=0, max_value=2**32)
HOMES = ("a", "b", "c")


def draw_neighbours(dice: Random) -> World:
    """Up to three vClusters with nodes of their own, some of them in two lists, that lend and borrow in every way; work runs and waits."""
    world = FirstCome()
    world.do(RaiseLevel(level=2))
    names = [f"n{index}" for index in range(dice.randrange(3, 9))]
    sharing = dice.choice((NodeSharing.EXCLUSIVE, NodeSharing.EXCLUSIVE, NodeSharing.SHARED))
    for name in names:
        world.add_node(name, cpus=4, gpus=dice.choice((0, 2)))
    owner = {name: dice.choice(HOMES) for name in names}
    for home in HOMES:
        own = [name for name in names if owner[name] == home or dice.random() < 0.03]
        world.set_vcluster(home, nodes=tuple(own) or (dice.choice(names),), node_sharing=sharing)
    for home in HOMES:
        demands = Demands(lending=_draw_lending(dice, home), preemption=dice.choice((None, *Preemption)))
        listed = world.state.vclusters[home].nodes
        world.set_vcluster(
            home, nodes=listed, node_sharing=sharing, demands=demands, backfill_depth=dice.choice((1, 3))
        )
    world.do(SetSetting(key="preemption.max_victims", value=str(dice.choice((0, 1, 3)))))
    world.do(SetSetting(key="preemption.min_runtime_s", value=str(dice.choice((0, 300)))))
    for _ in range(dice.randrange(2, 5)):
        _draw_work(world, dice)
        world.run_cycle()
        for record in list(world.state.allocations.values()):
            if record.state is AllocationState.STARTING and dice.random() < 0.9:
                world.report_running(record.number)
        world.now += dice.choice((1_000, 400_000))
    _draw_work(world, dice)
    return world


def _draw_lending(dice: Random, home: str) -> Lending:
    others = tuple(each for each in HOMES if each != home)
    return Lending(
        lends=dice.choice((Lends.IDLE,) * 4 + (Lends.NEVER,)),
        lend_to=dice.choice(((), (), (), others[:1])),
        max_lent=dice.choice((0, 0, 1, 2)),
        lend_after_s=dice.choice((0, 0, 60)),
        borrows=dice.random() < 0.8,
        max_borrowed=dice.choice((0, 0, 1, 2)),
        borrow_priority=dice.randrange(3),
        max_borrow_s=dice.choice((0, 0, 3600)),
        return_grace_s=dice.choice((0, 60)),
    )


def _draw_work(world: World, dice: Random) -> None:
    for _ in range(dice.randrange(1, 7)):
        klass = dice.choice((0, 3, 5, 5, 5, 9))
        world.try_submit(
            Request(nodes=dice.choice((1, 1, 2, 3)), cpus=dice.choice((0, 1, 2))),
            vcluster=dice.choice(HOMES),
            walltime_s=dice.choice((0, 1800, 7200)),
            preemption_class=klass,
            no_preempt=klass >= 7 and dice.random() < 0.5,
            tasks=((0, dice.randrange(1, 4), 1),) if dice.random() < 0.2 else (),
        )
        world.now += dice.choice((0, 1000))


def _foreign(world: World, vcluster: str, nodes: tuple[str, ...]) -> list[str]:
    return [node for node in nodes if node not in world.state.vclusters[vcluster].nodes]


def _loans(world: World) -> list[tuple[str, str]]:
    """Each node that is lent, with the vCluster it works for."""
    state = world.state
    return [
        (node.id, node.vcluster)
        for node in state.nodes.values()
        if node.vcluster and _foreign(world, node.vcluster, (node.id,))
    ]


def check_loans(world: World) -> None:
    """By the settings alone, in words of its own."""
    vclusters = world.state.vclusters
    loans = _loans(world)
    for node, user in loans:
        settings_of = {
            name: each.demands.lending for name, each in vclusters.items() if each.demands and each.demands.lending
        }
        homes = [name for name, each in vclusters.items() if node in each.nodes]
        assert homes
        for home in homes:
            assert settings_of[home].lends is Lends.IDLE
            assert not settings_of[home].lend_to or user in settings_of[home].lend_to
        assert settings_of[user].borrows
    for name, each in vclusters.items():
        lending = each.demands.lending if each.demands else None
        if lending is not None and lending.max_borrowed:
            assert sum(user == name for _, user in loans) <= lending.max_borrowed
        if lending is not None and lending.max_lent:
            assert sum(node in each.nodes for node, _ in loans) <= lending.max_lent


def _do_all(world: World, plan: Plan) -> None:
    for command in commands(plan):
        _check_borrower(world, command)
        outcome = world.try_to(command)
        assert isinstance(outcome, Accepted), (command, outcome)
    assert check(world.state) == []
    check_loans(world)


def _check_borrower(world: World, command: AnyCommand) -> None:
    if isinstance(command, PlaceAllocation):
        record = world.state.find(command.number)
        assert record is not None
        if _foreign(world, record.vcluster, tuple(share.node for share in command.shares)):
            assert record.preemption_class < 7, "what cannot be taken again borrows nothing"
            assert not record.no_preempt


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_only_what_is_lent_is_borrowed_and_the_machine_accepts_it(seed: int) -> None:
    world = draw_neighbours(Random(seed))
    check_loans(world)
    _do_all(world, world.plan())


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_reclaim_takes_only_work_on_lent_nodes_of_the_home_and_all_of_it_is_needed(seed: int) -> None:
    world = draw_neighbours(Random(seed))
    most = limits_of(world.state.settings).max_victims
    for taking in world.plan().takings:
        preemptor = world.state.find(taking.number)
        assert preemptor is not None
        wanted = {share.node for share in taking.shares}
        own = set(world.state.vclusters[preemptor.vcluster].nodes)
        assert wanted <= own, "nothing is taken on nodes of others"
        for number, _ in taking.victims:
            victim = world.state.allocations[number]
            assert victim.is_running
            assert wanted & set(victim.nodes)
            if taking.reason is EvictionReason.RECLAIM:
                assert own & set(_foreign(world, victim.vcluster, victim.nodes))
            else:
                assert victim.preemption_class < preemptor.preemption_class
                assert len(taking.victims) <= most


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_lending_delays_no_promise(seed: int) -> None:
    """What was promised while nothing was lent stands when it may be, whatever is lent, borrowed and asked back then."""
    check_promises(draw_neighbours(Random(seed)))


def check_promises(world: World) -> int:
    """How many promises were looked at."""
    lending = {name: each for name, each in world.state.vclusters.items() if name in HOMES}
    for name, each in lending.items():
        world.set_vcluster(name, nodes=each.nodes, node_sharing=each.node_sharing)
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    before = world.run_cycle()
    assert not before.takings
    promised = {kept.number: kept.start_at for kept in before.reservations if kept.start_at > world.now}
    waiting = {number: world.state.groups.get(number) or world.state.find(number) for number in before.explanations}
    ages = {number: _age(record) for number, record in waiting.items()}
    passing = [ages[number] for number in waiting if number not in promised]
    if not promised or any(age <= max(ages[number] for number in promised) for age in passing):
        return 0  # what is older may pass them
    for name, each in lending.items():
        world.set_vcluster(name, nodes=each.nodes, node_sharing=each.node_sharing, demands=each.demands)
    plan = world.plan()
    starts = {kept.number: kept.start_at for kept in plan.reservations}
    started = {placement.number for placement in plan.placements}
    for number, start_at in promised.items():
        group = world.state.groups.get(number)
        numbers = range(number, number + 1 + (group.size if group is not None else 0))
        assert started.intersection(numbers) or starts[number] <= start_at
    return len(promised)


def _age(record: Allocation | TaskGroup | None) -> tuple[int, int]:
    """The smaller, the earlier it may pass others."""
    assert record is not None
    head = record.template if isinstance(record, TaskGroup) else record
    return -head.preemption_class, head.submitted_at


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(SEEDS)
def test_storms_of_reclaims_and_classes_end(seed: int) -> None:
    """Nobody ends by itself: what is taken, taken back and borrowed again comes to rest, and no warning stays behind."""
    dice = Random(seed)
    world = draw_neighbours(dice)
    world.do(SetSetting(key="preemption.min_runtime_s", value="0"))
    for _ in range(300):
        start_all(world)
        plan = world.plan()
        _do_all(world, plan)
        evictions = world.state.evictions.records
        stopping = [r.number for r in world.state.allocations.values() if r.state is AllocationState.STOPPING]
        if not (plan.placements or plan.takings or stopping or evictions):
            return
        for number in list(evictions):
            victims = evictions[number].victims
            if any(each.phase is VictimPhase.WARNED and each.due_at <= world.now for each in victims):
                world.do(StopVictims(number=number))
        dice.shuffle(stopping)
        for number in stopping[: dice.randrange(1, 4)]:
            world.stopped(number)
        world.now += 10_000
    raise AssertionError(f"it goes on: {plan.takings} {world.state.evictions.records}")


def test_the_generator_draws_loans_and_reclaims() -> None:
    """Else the properties above say nothing."""
    loans = reclaims = promises = 0
    for seed in range(200):
        world = draw_neighbours(Random(seed))
        loans += bool(_loans(world))
        evictions = [each for each in commands(world.plan()) if isinstance(each, EvictAllocations)]
        reclaims += any(each.reason is EvictionReason.RECLAIM for each in evictions)
        promises += check_promises(world)
    assert loans > 60
    assert reclaims > 10
    assert promises > 40
