"""Node lifecycle: timers, operators, and who wins."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.model.nodes.nodes import DownCause, Hardware, NodeState, Share
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import AllocationState, Request
from tests.unit.core.machine.world import World


def register(name: str, cpus: int = 4) -> cmd.RegisterNode:
    return cmd.RegisterNode(node=name, hardware=Hardware(cpus=cpus, memory_mb=4096), boot_id="b2")


def test_a_new_node_boots_and_is_ready_once_confirmed() -> None:
    world = World(nodes=0)
    world.must(register("n1"))
    assert world.node("n1").state is NodeState.BOOTING
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.READY
    assert world.must(cmd.ConfirmNode(node="n1")) == ()
    assert world.refused(cmd.ConfirmNode(node="n9")).code == "not_found"


def test_silence_degrades_and_a_heartbeat_inside_the_grace_period_disturbs_nothing() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.DegradeNode(node="n1", reason="silent for 30 s"))
    assert world.node("n1").reason == "silent for 30 s"
    assert world.refused(cmd.DegradeNode(node="n1")).code == "stale"
    world.must(cmd.RecoverNode(node="n1"))
    assert world.must(cmd.RecoverNode(node="n1")) == ()
    assert world.node("n1").state is NodeState.READY
    assert world[number].state is AllocationState.RUNNING


def test_a_node_that_was_given_up_comes_back_through_registration() -> None:
    world = World()
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.DownNode(node="n1"))
    assert world.node("n1").down_cause is DownCause.SILENCE
    assert world.refused(cmd.DownNode(node="n1")).code == "stale"
    world.must(register("n1"))
    assert world.node("n1").state is NodeState.BOOTING
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.READY


def test_an_agent_that_restarts_while_degraded_is_ready_again() -> None:
    world = World()
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.READY


def test_registration_never_undoes_what_an_operator_set() -> None:
    world = World()
    world.must(cmd.DrainNode(node="n1", reason="fan"))
    world.must(cmd.DisableNode(node="n2", reason="broken"))
    world.must(cmd.DownNode(node="n3", cause=DownCause.HARDWARE, reason="psu"))
    for name in ("n1", "n2", "n3"):
        world.must(register(name))
        world.must(cmd.ConfirmNode(node=name))
    assert world.node("n1").state is NodeState.DRAINED
    assert (world.node("n2").state, world.node("n2").down_cause) == (NodeState.DOWN, DownCause.OPERATOR)
    assert (world.node("n3").state, world.node("n3").down_cause) == (NodeState.DOWN, DownCause.HARDWARE)


def test_a_drain_survives_silence() -> None:
    world = World()
    world.running("n1", max_requeue=0)
    world.must(cmd.DrainNode(node="n1", reason="fan"), actor="op")
    world.must(cmd.DownNode(node="n1"))
    assert world.node("n1").state is NodeState.DOWN
    world.must(register("n1"))
    world.must(cmd.ConfirmNode(node="n1"))
    node = world.node("n1")
    assert (node.state, node.reason, node.reason_by) == (NodeState.DRAINED, "fan", "op")


def test_a_drain_of_a_node_that_is_down_is_remembered() -> None:
    world = World()
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.DownNode(node="n1"))
    world.must(cmd.DrainNode(node="n1", reason="fan"))
    assert (world.node("n1").state, world.node("n1").down_cause) == (NodeState.DOWN, DownCause.SILENCE)
    world.must(register("n1"))
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.DRAINED


def test_undrain_only_from_drained_and_says_what_still_runs() -> None:
    world = World()
    number = world.running("n1")
    assert world.refused(cmd.UndrainNode(node="n1", is_heard=True)).message == "node n1 is Ready, not Drained"
    world.must(cmd.DrainNode(node="n1"))
    assert world.must(cmd.DrainNode(node="n1")) == ()
    refusal = world.refused(cmd.UndrainNode(node="n1", is_heard=True))
    assert f"a{number}" in refusal.current
    world.ended(number, "n1")
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.READY, "")


def test_undrain_of_a_silent_node_does_not_make_it_ready() -> None:
    world = World()
    world.must(cmd.DrainNode(node="n1"))
    world.must(cmd.UndrainNode(node="n1", is_heard=False))
    assert (world.node("n1").state, world.node("n1").down_cause) == (NodeState.DOWN, DownCause.SILENCE)


def test_undrain_is_the_way_back_from_drift() -> None:
    world = World()
    world.must(cmd.DownNode(node="n1", cause=DownCause.DRIFT, reason="driver"))
    assert world.refused(cmd.DrainNode(node="n9")).code == "not_found"
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.BOOTING


def test_disable_takes_the_work_away_and_enable_brings_the_node_back_through_a_check() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.DisableNode(node="n1", reason="broken"), actor="op")
    assert world[number].state is AllocationState.PENDING
    assert world.must(cmd.DisableNode(node="n1")) == ()
    world.must(cmd.EnableNode(node="n1"))
    assert world.node("n1").state is NodeState.BOOTING
    assert world.must(cmd.EnableNode(node="n1")) == ()
    world.must(cmd.ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.READY


def test_enable_is_no_cure_for_silence_or_a_drain() -> None:
    world = World()
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.DownNode(node="n1"))
    assert "returns by itself" in world.refused(cmd.EnableNode(node="n1")).hint
    world.must(cmd.DrainNode(node="n2"))
    assert "undrain" in world.refused(cmd.EnableNode(node="n2")).hint


@pytest.mark.parametrize("command", [cmd.DownNode, cmd.DisableNode, cmd.EnableNode, cmd.DrainNode])
def test_unknown_nodes_are_refused_with_the_known_ones(command: type[cmd.DownNode]) -> None:
    refusal = World().refused(command(node="n9"))
    assert (refusal.code, refusal.hint) == ("not_found", "Known: n1, n2, n3.")


def test_a_held_node_keeps_the_figures_it_was_given_out_on() -> None:
    world = World(node_sharing=NodeSharing.SHARED)
    number = world.submit(request=Request(cpus=3))
    share = Share(node="n1", whole=False, cpus=3, memory_mb=3072)
    world.must(cmd.PlaceAllocation(number=number, run=1, shares=(share,)))
    world.must(register("n1", cpus=2))
    assert world.node("n1").hardware.cpus == 4
    world.ended(number, "n1", seq=1)
    world.must(register("n1", cpus=2))
    assert world.node("n1").hardware.cpus == 2
    assert world.must(register("n1", cpus=2)) == ()


def test_a_lost_node_with_several_tenures_frees_draining_neighbours() -> None:
    world = World(node_sharing=NodeSharing.SHARED)
    number = world.submit(nodes=2, max_requeue=0, per_node=False)
    shares = tuple(Share(node=n, whole=False, cpus=1, memory_mb=1024) for n in ("n1", "n2"))
    world.must(cmd.PlaceAllocation(number=number, run=1, shares=shares))
    world.must(cmd.DrainNode(node="n2"))
    world.must(cmd.DownNode(node="n1", cause=DownCause.HARDWARE))
    assert world[number].state is AllocationState.FAILED
    assert world.node("n2").state is NodeState.DRAINED
