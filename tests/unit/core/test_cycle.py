"""State to columns to plan to commands."""

import pytest
from msgspec.structs import asdict, replace

from lattice.core.cycle import Cycle, commands
from lattice.core.machine.apply import apply
from lattice.core.machine.commands import ArchiveAllocations, CancelAllocation, PlaceAllocation
from lattice.core.machine.events import AnyEvent
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.score.profiles import Profile
from tests.properties.commands_generator import CommandGenerator
from tests.unit.core.scheduler.world import FirstCome, nodes_of


def test_a_plan_becomes_one_command_per_placement_in_its_order() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    first, second = world.submit(Request(nodes=2)), world.submit()
    assert commands(world.plan()) == [
        PlaceAllocation(number=first, run=1, shares=(Share(node="n1"), Share(node="n2"))),
        PlaceAllocation(number=second, run=1, shares=(Share(node="n3"),)),
    ]


def test_a_cycle_loaded_from_a_state_plans_like_one_that_followed_it() -> None:
    world = FirstCome()
    world.add_nodes(["n2", "n10", "n1"])
    for size in (1, 2, 3, 1):
        world.submit(Request(nodes=size))
    world.submit(tasks=((0, 4, 1),))
    world.run_cycle()
    loaded = Cycle()
    loaded.load(world.state)
    assert asdict(loaded.plan(None, world.now)) == asdict(world.plan())


def test_loading_forgets_what_was_known_before() -> None:
    world, other = FirstCome(), FirstCome()
    world.add_node("n1")
    world.submit()
    world.cycle.load(other.state)
    plan = world.plan()
    assert plan.placements == ()
    assert dict(plan.explanations) == {}


def test_events_of_several_commands_may_be_noted_together_afterwards() -> None:
    world = FirstCome()
    world.add_node("n1")
    follower = Cycle()
    follower.load(world.state)
    events: list[AnyEvent] = []
    gone = world.submit(seen=events)
    other = world.submit(seen=events)
    events += world.do(CancelAllocation(number=gone)).events
    events += world.do(ArchiveAllocations(numbers=(gone,))).events
    follower.note(world.state, events)
    assert list(nodes_of(follower.plan(None, world.now))) == [other]


def test_a_profile_goes_by_the_name_of_its_vcluster() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    numbers = [world.submit(), world.submit()]
    narrow = Cycle({"default": Profile(window=1)})
    narrow.load(world.state)
    assert list(nodes_of(narrow.plan(None, world.now))) == numbers[:1]


def test_only_connected_nodes_are_planned_on() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    observations = Observations()
    observations.join("n1", 5.0)
    observations.join("n2", 5.0)
    observations.leave("n1")
    number = world.submit()
    assert nodes_of(world.cycle.plan(observations, world.now)) == {number: ("n2",)}


def test_a_snapshot_does_not_move_with_the_state() -> None:
    world = FirstCome()
    world.add_node("n1")
    number = world.submit()
    snapshot = world.snapshot()
    world.run_cycle()
    world.add_node("n0")
    world.submit()
    assert snapshot.queue.number.tolist() == [number]
    assert snapshot.nodes.is_free.tolist() == [True]
    assert snapshot.nodes.ids == ("n1",)


def told(plan: Plan) -> dict[str, object]:
    """What a plan says; sums of fractions differ in their last bit with the order of the rows."""
    explanations = {
        number: replace(each, scores={factor: round(score, 9) for factor, score in each.scores.items()})
        for number, each in plan.explanations.items()
    }
    return {**asdict(plan), "explanations": explanations}


@pytest.mark.parametrize("seed", range(4))
def test_no_command_leaves_the_columns_behind_the_state(seed: int) -> None:
    state, followed = State.empty(), Cycle()
    generator = CommandGenerator(seed, state)
    for envelope in generator.founding():
        apply(state, envelope)
    followed.load(state)
    for _ in range(1_000):
        outcome = apply(state, generator.next())
        if isinstance(outcome, Accepted):
            followed.note(state, outcome.events)
    loaded = Cycle()
    loaded.load(state)
    assert told(followed.plan(None, generator.at)) == told(loaded.plan(None, generator.at))
