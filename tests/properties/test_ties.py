"""Ties: whatever nodes have at hand, only the choice among equals changes, and it is the best of them."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lattice.core.model.nodes.gpus import GpuSet
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.tables.snapshot import id_order
from tests.conftest import sized
from tests.properties.machines import draw_machine
from tests.properties.plan_witness import PlanWitness
from tests.unit.core.scheduler.test_ties import told
from tests.unit.core.scheduler.world import World, nodes_of

EXAMPLES = sized(200, 20_000, covered=300)
SEEDS = st.integers(min_value=0, max_value=2**32)
KEYS = (1, 2, 3)
UNKNOWN = (2.0**31, 0, 0)


def draw_at_hand(world: World, dice: Random) -> None:
    names = [*sorted(world.state.nodes), "elsewhere"]
    numbers = [number for number, record in world.state.allocations.items() if record.is_waiting]
    world.cycle.signals = replace(
        world.cycle.signals,
        images={number: tuple(dice.sample(KEYS, dice.randrange(1, 4))) for number in [*numbers, *world.state.groups]},
        cached={key: frozenset(name for name in names if dice.random() < 0.5) for key in KEYS if dice.random() < 0.8},
        gpu_sets=told({name: draw_sets(dice, dice.randrange(1, 3)) for name in names if dice.random() < 0.8}),
    )


def draw_sets(dice: Random, gpus: int) -> tuple[GpuSet, ...]:
    def drawn(count: int) -> GpuSet:
        near = dice.randrange(count + 1)
        return GpuSet(gbps=dice.choice((0.0, 32.0, 450.0)) if count > 1 else 0.0, near=near, nics=min(near, 1))

    return tuple(drawn(count) for count in range(1, gpus + 1))


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_placements_satisfy_everything_that_was_asked_whatever_nodes_have_at_hand(seed: int) -> None:
    dice = Random(seed)
    world = draw_machine(dice)
    draw_at_hand(world, dice)
    nothing_promised = seed % 2 == 0
    if nothing_promised:
        world.cycle.load(world.state)
    plan = world.plan()
    assert world.observations is not None
    witness = PlanWitness(world.state, world.observations.connected(), world.now, world.cycle.signals.fingerprints)
    assert witness.judge(plan, nothing_promised=nothing_promised) == []
    world.carry_out(plan)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_what_comes_out_of_a_plan_is_the_same_where_no_work_has_images_or_gpus(seed: int) -> None:
    dice = Random(seed)
    world = draw_machine(dice)
    if any(record.request.gpus for record in world.state.allocations.values()):
        return
    if any(group.template.request.gpus for group in world.state.groups.values()):
        return
    promised = world.snapshot().promised
    before = world.plan()
    draw_at_hand(world, dice)
    world.cycle.signals = replace(world.cycle.signals, images={})
    world.cycle._promised = dict(promised)
    after = world.plan()
    assert (after.placements, after.reservations) == (before.placements, before.reservations)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_as_much_starts_and_no_start_is_later_where_nodes_can_stand_for_each_other(seed: int) -> None:
    dice = Random(seed)
    world = World(dice.choice(list(NodeSharing)))
    for index in range(dice.randrange(3, 9)):
        world.add_node(f"n{index}", cpus=8, gpus=2, gpu_type="H100", group=dice.choice(("a", "b")))
    for _ in range(dice.randrange(1, 8)):
        request = Request(nodes=dice.choice((1, 1, 2, 3)), cpus=dice.choice((0, 2, 4)), gpus=dice.choice((0, 1, 2)))
        world.submit(request, walltime_s=dice.choice((600, 3600)))
    before = world.plan()
    world.cycle.load(world.state)
    draw_at_hand(world, dice)
    after = world.plan()
    assert [each.number for each in after.placements] == [each.number for each in before.placements]
    starts = [(each.number, each.start_at) for each in before.reservations]
    assert [(each.number, each.start_at) for each in after.reservations] == starts


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_share_gets_the_best_of_all_nodes_with_least_to_spare(seed: int) -> None:
    dice = Random(seed)
    world = World(NodeSharing.SHARED)
    names = [f"n{index}" for index in range(1, dice.randrange(3, 12))]
    for name in names:
        world.add_node(name, cpus=8, gpus=2, gpu_type="H100")
    for name in names:
        if dice.random() < 0.4:
            world.submit(Request(cpus=dice.choice((1, 2)), gpus=dice.choice((0, 1)), node_list=(name,)))
    world.run_cycle()
    count = dice.choice((0, 1, 2))
    number = world.submit(Request(cpus=1, gpus=count))
    draw_at_hand(world, dice)
    signals = world.cycle.signals
    free = {name: world.state.nodes[name].free_share() for name in names}
    fitting = [name for name in names if free[name][0] >= 1 and free[name][2] >= count]

    def order(name: str) -> tuple[object, ...]:
        cpus, memory_mb, gpus = free[name]
        missing = sum(name not in signals.cached.get(key, ()) for key in signals.images[number])
        best = best_of(signals, name, count, gpus) if count else (0, 0, 0)
        return gpus, cpus, memory_mb, best, missing, id_order(name)

    assert nodes_of(world.plan()).get(number, ()) == tuple(sorted(fitting, key=order)[:1])


def best_of(signals: Signals, name: str, count: int, free: int) -> tuple[float, int, int]:
    """What the node said of so many GPUs, unless it has another number of free ones by now."""
    known = signals.gpu_sets
    sets = known.kinds[known.by_node[name]] if name in known.by_node else ()
    return sets[count - 1].order if len(sets) == free else UNKNOWN
