"""Services that follow their load: they begin with their least number of nodes, and stay between it and the most."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.work.allocations import Lifecycle, Request, Restart
from lattice.core.model.work.checkpoints import CheckpointWay
from tests.unit.core.machine.test_instances import grow, shrink
from tests.unit.core.machine.test_revisions import refused, stopped
from tests.unit.core.machine.world import World

POLICY = ScalePolicy(min_nodes=1, max_nodes=2, metric="in_flight", target=1.0)
REACTIVE = {"lifecycle": Lifecycle.REACTIVE, "restart": Restart.ALWAYS, "scaling": POLICY}


def test_it_gets_one_more_up_to_its_most_and_gives_back_down_to_its_least() -> None:
    world = World()
    number = world.running("n1", **REACTIVE)
    assert world[number].scaled_at == 0
    world.must(grow(world, number, "n2", size=2))
    assert (world[number].size, world[number].scaled_at) == (2, world.at)
    assert refused(world, grow(world, number, "n3", size=3)).code == "stale"
    world.must(shrink(world, number, "n2"))
    stopped(world, number, "n2")
    assert (world[number].size, world[number].nodes, world[number].missing) == (1, ("n1",), 0)
    world.must(grow(world, number, "n2", size=2))
    world.must(shrink(world, number, "n2", replace=True))
    assert world[number].size == 2, "moved, not given up"


def test_it_never_has_fewer_than_its_least() -> None:
    world = World()
    number = world.running(
        "n1", "n2", **{**REACTIVE, "scaling": ScalePolicy(min_nodes=2, max_nodes=3, metric="m", target=1.0)}
    )
    assert "minimum of 2 nodes" in refused(world, shrink(world, number, "n2")).message
    assert world.must(shrink(world, number, "n2", replace=True))


def test_it_begins_anew_with_its_least_after_a_requeue() -> None:
    world = World()
    number = world.running("n1", **REACTIVE)
    world.must(grow(world, number, "n2", size=2))
    world.must(cmd.RequeueAllocation(number=number))
    for node in ("n1", "n2"):
        stopped(world, number, node)
    assert (world[number].wanted, world[number].scaled_at) == (0, 0)
    one, two = Share(node="n1"), Share(node="n2")
    assert refused(world, cmd.PlaceAllocation(number=number, run=2, shares=(one, two))).code == "stale"
    world.must(cmd.PlaceAllocation(number=number, run=2, shares=(one,)))


def test_it_is_not_scaled_while_it_writes_a_checkpoint() -> None:
    world = World()
    world.must(cmd.SetSetting(key="checkpoint.root", value="/ck"))
    number = world.running("n1", **REACTIVE, checkpoint=CheckpointWay())
    world.must(cmd.RequestCheckpoint(number=number))
    assert "writes a checkpoint" in refused(world, grow(world, number, "n2", size=2)).message


@pytest.mark.parametrize(
    "changes",
    [
        {"lifecycle": Lifecycle.UNBOUNDED},
        {"per_node": False},
        {"tasks": ((0, 1, 1),)},
        {"request": Request(nodes=2)},
        {"scaling": ScalePolicy(min_nodes=2, max_nodes=1, metric="m", target=1.0), "request": Request(nodes=2)},
    ],
)
def test_policies_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    world = World()
    fields = {
        "name": "web",
        "user": "ada",
        "account": "ada",
        "tenant": "physics",
        "vcluster": "batch",
        "request": Request(),
        **REACTIVE,
        **changes,
    }
    outcome = world.do(cmd.SubmitAllocation(**fields))  # type: ignore[arg-type]
    assert isinstance(outcome, Rejected)
    assert outcome.code == "invalid"
