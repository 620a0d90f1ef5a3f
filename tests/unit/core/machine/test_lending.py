"""What the state machine refuses to lend or to borrow, whatever the scheduler thought."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.rules.lending import borrowed_by
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.site.tenants import SENSITIVE, Demands, Lending, Lends, Vcluster
from lattice.core.model.work.allocations import Lifecycle, Restart
from lattice.core.model.work.allocations import PartPhase as P
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointWay
from lattice.core.model.work.evictions import EvictionReason
from lattice.core.replacements import open_nodes, share_for
from tests.unit.core.machine.test_instances import grow, part
from tests.unit.core.machine.test_revisions import stopped
from tests.unit.core.machine.world import World

LENDS = Lending(lends=Lends.IDLE)
BORROWS = Lending(borrows=True)


def vcluster(name: str, nodes: tuple[str, ...], lending: Lending, **fields: object) -> Vcluster:
    return Vcluster(name=name, nodes=nodes, default_walltime_s=3600, demands=Demands(lending=lending), **fields)  # type: ignore[arg-type]


def two_homes(home: Lending = LENDS, guest: Lending = BORROWS) -> World:
    """Home lists n1 and n2, guest n3; no vCluster lists n4."""
    world = World(nodes=4)
    world.must(cmd.SetVcluster(vcluster=vcluster("home", ("n1", "n2"), home), create=True))
    world.must(cmd.SetVcluster(vcluster=vcluster("guest", ("n3",), guest), create=True))
    return world


def placed(number: int, *nodes: str) -> cmd.PlaceAllocation:
    return cmd.PlaceAllocation(number=number, run=1, shares=tuple(Share(node=node) for node in nodes))


def test_a_node_that_is_lent_may_be_used() -> None:
    world = two_homes()
    world.running("n1", vcluster="guest")
    assert world.node("n1").vcluster == "guest"


@pytest.mark.parametrize(
    ("home", "guest", "nodes", "said"),
    [
        (LENDS, Lending(borrows=True, max_borrow_s=60), ("n1",), "may not borrow it"),
        (LENDS, Lending(borrows=True, max_borrowed=1), ("n1", "n2"), "borrows 1 nodes at most"),
        (Lending(), BORROWS, ("n1",), "node n1 is not lent to vCluster guest"),
        (LENDS, BORROWS, ("n4",), "node n4 is not lent to vCluster guest"),
        (Lending(lends=Lends.IDLE, max_lent=1), BORROWS, ("n1", "n2"), "lends 1 nodes at most"),
    ],
)
def test_what_is_not_lent_is_not_given(home: Lending, guest: Lending, nodes: tuple[str, ...], said: str) -> None:
    world = two_homes(home, guest)
    number = world.submit(vcluster="guest", nodes=1 if len(nodes) == 1 else 2)
    refusal = world.refused(placed(number, *nodes))
    assert (refusal.code, said in refusal.message) == ("stale", True), refusal


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (vcluster("x", ("n1",), LENDS, scheduler=SENSITIVE), "invalid", "sensitive: it neither lends nor borrows"),
        (vcluster("x", (), LENDS), "invalid", "lists no nodes"),
        (vcluster("x", (), BORROWS), "invalid", "lists no nodes"),
        (vcluster("x", ("n1",), Lending(lends=Lends.IDLE, lend_to=("x",))), "invalid", "cannot lend to itself"),
        (vcluster("x", ("n1",), Lending(lends=Lends.IDLE, lend_to=("y",))), "not_found", 'unknown vCluster "y"'),
    ],
)
def test_settings_that_could_never_hold_are_refused(wrong: Vcluster, code: str, said: str) -> None:
    refusal = World().refused(cmd.SetVcluster(vcluster=wrong, create=True))
    assert (refusal.code, said in refusal.message) == (code, True), refusal


def reclaim(high: int, victim: int, node: str) -> cmd.EvictAllocations:
    return cmd.EvictAllocations(
        number=high, run=1, victims=((victim, 1),), shares=(Share(node=node),), reason=EvictionReason.RECLAIM
    )


def test_a_home_reclaims_nothing_that_is_not_its_own_or_does_not_run() -> None:
    world = two_homes()
    own = world.running("n1", vcluster="home")
    starting = world.submit(vcluster="guest")
    world.must(placed(starting, "n2"))
    high = world.submit(vcluster="home")
    assert "has borrowed no node" in world.refused(reclaim(high, own, "n1")).message
    assert "is Starting" in world.refused(reclaim(high, starting, "n2")).message


def test_one_allocation_is_reclaimed_once() -> None:
    world = two_homes()
    guest = world.running("n1", "n2", vcluster="guest")
    first, second = world.submit(vcluster="home"), world.submit(vcluster="home")
    world.must(reclaim(first, guest, "n1"))
    assert "is taken already" in world.refused(reclaim(second, guest, "n2")).message


def test_nodes_of_others_are_not_kept_for_a_preemptor() -> None:
    world = two_homes()
    guest = world.running("n1", vcluster="guest", preemption_class=1, walltime_s=86_400)
    world.at += 3_600_000
    high = world.submit(vcluster="guest", preemption_class=6, walltime_s=86_400)
    wrong = cmd.EvictAllocations(number=high, run=1, victims=((guest, 1),), shares=(Share(node="n1"),))
    assert 'not of vCluster "guest"' in world.refused(wrong).message


def test_a_vcluster_without_a_list_borrows_nothing() -> None:
    world = World()
    world.running("n1")
    assert borrowed_by(world.state, world.state.vclusters["batch"]) == []


REACTIVE = {
    "lifecycle": Lifecycle.REACTIVE,
    "restart": Restart.ALWAYS,
    "scaling": ScalePolicy(min_nodes=1, max_nodes=4, metric="in_flight", target=1.0),
    "walltime_s": 0,
}
SERVICE = {"lifecycle": Lifecycle.UNBOUNDED, "restart": Restart.ALWAYS, "walltime_s": 0}


@pytest.mark.parametrize(("fields", "left"), [(REACTIVE, (1, 0)), (SERVICE, (2, 1))], ids=["reactive", "service"])
def test_a_service_gives_back_what_is_reclaimed_and_keeps_its_other_instances(
    fields: dict[str, object], left: tuple[int, int]
) -> None:
    world = two_homes()
    first = ("n3",) if fields is REACTIVE else ("n3", "n1")
    web = world.running(*first, vcluster="guest", per_node=True, **fields)
    if fields is REACTIVE:
        world.must(grow(world, web, "n1", size=2))
        world.must(cmd.ReportPart(number=web, run=1, node="n1", seq=part(world, web, "n1").seq + 1, phase=P.RUNNING))
    home = world.submit(vcluster="home")
    world.must(reclaim(home, web, "n1"))
    assert part(world, web, "n1").phase is P.RUNNING, "it is warned first"
    world.at += 60_000
    world.must(cmd.StopVictims(number=home))
    assert (world[web].state, part(world, web, "n1").phase) == ("Running", P.LEAVING)
    stopped(world, web, "n1")
    assert (world[web].state, world[web].run, world[web].nodes) == ("Running", 1, ("n3",))
    assert (world[web].size, world[web].missing) == left
    assert world[web].preempted == 0
    world.must(placed(home, "n1"))
    assert not world.state.evictions.records


def test_a_service_with_nothing_else_is_reclaimed_as_a_whole() -> None:
    world = two_homes()
    web = world.running("n1", vcluster="guest", per_node=True, **SERVICE)
    home = world.submit(vcluster="home")
    world.must(reclaim(home, web, "n1"))
    world.at += 60_000
    world.must(cmd.StopVictims(number=home))
    assert world[web].state == "Stopping"


def test_a_checkpoint_before_instances_leave_stops_nothing() -> None:
    world = two_homes()
    world.must(cmd.SetSetting(key="checkpoint.root", value="/ck"))
    web = world.running("n3", "n1", vcluster="guest", per_node=True, checkpoint=CheckpointWay(), **SERVICE)
    world.must(reclaim(world.submit(vcluster="home"), web, "n1"))
    opened = world[web].checkpoints.open
    assert opened is not None
    assert not opened.stops
    for node in ("n3", "n1"):
        world.must(cmd.ReportCheckpoint(number=web, run=1, n=1, node=node, phase=CheckpointPhase.DONE))
    world.must(cmd.ReportCheckpoint(number=web, run=1, n=1, node="n3", phase=CheckpointPhase.SEALED))
    assert world[web].state == "Running"


@pytest.mark.parametrize(
    ("home", "fields", "found"),
    [
        (LENDS, {}, "n1"),
        (Lending(lends=Lends.IDLE, lend_after_s=60), {}, None),
        (Lending(), {}, None),
        (LENDS, {"preemption_class": 7}, None),
    ],
    ids=["lent", "lent later", "not lent", "cannot be taken back"],
)
def test_a_service_grows_onto_nodes_that_are_lent_at_once_when_none_of_its_own_is_free(
    home: Lending, fields: dict[str, object], found: str | None
) -> None:
    world = two_homes(home=home)
    web = world.running("n3", vcluster="guest", per_node=True, **{**REACTIVE, **fields})
    free = open_nodes(world.state, world.state.nodes)
    share = share_for(world.state, world[web], free, (), is_more=True)
    assert (None if share is None else share.node) == found
    assert share_for(world.state, world[web], free, ()) is None, "what replaces an instance is at home"
    if share is not None:
        world.must(cmd.GrowAllocation(number=web, run=1, share=share, size=2))
