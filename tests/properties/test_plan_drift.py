"""Plans beside nodes that differ from their baseline: never a barred node, never a mix of what must be alike, and work goes on."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.conftest import IS_TRACED, SOAK, sized
from tests.properties.machines import VCLUSTERS, draw_machine
from tests.properties.plan_witness import PlanWitness
from tests.unit.core.scheduler.world import World

EXAMPLES = sized(100, 20_000, covered=200)


def draw_drift(world: World, dice: Random) -> None:
    names = sorted(world.state.nodes)
    barred = {name: frozenset(node for node in names if dice.random() < 0.3) for name in VCLUSTERS}
    world.cycle.signals = replace(
        world.cycle.signals,
        drifted=frozenset(name for name in names if dice.random() < 0.4),
        excluded={name: nodes for name, nodes in barred.items() if nodes and dice.random() < 0.5},
    )


@pytest.mark.timeout(1800 if SOAK or IS_TRACED else 300)
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_placements_beside_drift_satisfy_everything_that_was_asked(seed: int) -> None:
    dice = Random(seed)
    world = draw_machine(dice)
    draw_drift(world, dice)
    world.cycle.load(world.state)
    plan = world.plan()
    assert world.observations is not None
    witness = PlanWitness(world.state, world.observations.connected(), world.now, world.cycle.signals.fingerprints)
    queue = witness.queue()
    records = {record.number: record for record in queue}
    for placement in plan.placements:
        record = records[placement.number]
        used = {share.node for share in placement.shares}
        assert not used & world.cycle.signals.excluded.get(record.vcluster, frozenset())
        is_first = record is queue[0]  # nothing is kept for others before
        if is_first and not world.state.reservations and not record.request.require_conformance:
            assert not used & world.cycle.signals.drifted or spare(world, witness, record.number) < record.request.nodes
        assert witness.start(record, placement) == []


def spare(world: World, witness: PlanWitness, number: int) -> int:
    """How many nodes that are as they should be the first of the queue could have had."""
    record = next(each for each in witness.queue() if each.number == number)
    signals = world.cycle.signals
    out = signals.drifted | signals.excluded.get(record.vcluster, frozenset())
    limit = world.state.tenants[record.tenant].max_nodes
    if limit is not None and not witness._wants_whole(record):
        return 0  # only some of them may be new to the tenant: which, is not looked into here
    return sum(
        name not in out and witness.suits(record, name) and witness.has_room(record, name, world.now)
        for name in world.state.nodes
    )
