"""Silence: who is given how much time, and what happens to the stream of a node that was given up."""

import pytest

from lattice.control.node_watch import NodeWatch, WatchSettings
from lattice.core.machine.commands import (
    ConfirmNode,
    DisableNode,
    DrainNode,
    EnableNode,
    RecoverNode,
    RegisterNode,
)
from lattice.core.model.allocations import AllocationState
from lattice.core.model.nodes import DownCause, NodeState
from lattice.core.model.observations import Observations
from lattice.ports.log import LogFull
from tests.unit.control.world import HARDWARE, World, scenario


class Watch:
    def __init__(self, world: World, moving_s: float = 0) -> None:
        self.world = world
        self.observations = Observations()
        self.loop = NodeWatch(
            world.replica,
            world.links,
            self.observations,
            world.clock,
            WatchSettings(timeout_s=30, grace_s=60, moving_s=moving_s),
        )

    async def pass_s(self, seconds: int, *heard: str) -> None:
        """Lets time pass second by second; `heard` nodes are heard in each of them."""
        for _ in range(seconds):
            self.world.clock.pass_s(1)
            for node in heard:
                self.observations.touch(node, self.world.clock.s)
            await self.loop.look()


@scenario
async def test_a_silent_node_is_degraded_after_the_timeout_and_down_after_the_grace() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED
    assert world.node("n1").reason == "no heartbeat for 30 s"
    await watch.pass_s(59)
    assert world.node("n1").state is NodeState.DEGRADED
    assert world.links.closed == []
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN
    assert world.node("n1").down_cause is DownCause.SILENCE
    assert [node for node, _ in world.links.closed] == ["n1"]


@scenario
async def test_agents_have_time_to_find_a_new_leader_before_their_silence_counts() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world, moving_s=15)
    await watch.pass_s(44)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_a_node_that_is_heard_stays_ready() -> None:
    world = World()
    await world.prepare("n1", "n2")
    watch = Watch(world)
    await watch.pass_s(200, "n1")
    assert world.node("n1").state is NodeState.READY
    assert world.node("n2").state is NodeState.DOWN


@scenario
async def test_a_node_that_returns_in_its_grace_gets_the_whole_timeout_again() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    await watch.pass_s(40)
    watch.observations.touch("n1", world.clock.s)
    await world.do(RecoverNode(node="n1"))
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_a_node_that_became_ready_lately_is_watched_from_then_on() -> None:
    world = World()
    await world.prepare()
    watch = Watch(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    watch.observations.touch("n1", world.clock.s)
    await watch.pass_s(1)
    await world.do(ConfirmNode(node="n1"))
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_booting_and_draining_nodes_are_given_up_too() -> None:
    world = World()
    await world.prepare("n1")
    await world.running("n1")
    await world.do(DrainNode(node="n1"))
    await world.do(RegisterNode(node="n2", hardware=HARDWARE))
    watch = Watch(world)
    await watch.pass_s(89)
    assert world.node("n1").state is NodeState.DRAINING
    assert world.node("n2").state is NodeState.BOOTING
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN
    assert world.node("n2").state is NodeState.DOWN


@scenario
async def test_drained_and_down_nodes_are_left_alone() -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(DrainNode(node="n1"))
    await world.do(DisableNode(node="n2"))
    watch = Watch(world)
    before = len(world.replica.proposed)
    await watch.pass_s(300)
    assert len(world.replica.proposed) == before
    assert world.node("n1").state is NodeState.DRAINED


@scenario
async def test_work_of_a_node_that_was_given_up_runs_again_elsewhere() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    watch = Watch(world)
    await watch.pass_s(90)
    assert world.allocation(number).state is AllocationState.PENDING
    assert world.allocation(number).requeue_count == 1


@scenario
async def test_a_new_leader_gives_everybody_a_fresh_timeout() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    await watch.pass_s(29)
    watch.loop.reset()
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_nobody_is_blamed_when_the_server_itself_was_held_up() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    world.clock.pass_s(500)
    await watch.loop.look()
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(30)
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_a_disabled_node_has_to_register_again_and_so_has_one_that_was_enabled() -> None:
    world = World()
    await world.prepare("n1")
    Watch(world)
    await world.do(DisableNode(node="n1", reason="fan"))
    assert world.links.closed == [("n1", "the node is Down: fan")]
    await world.do(EnableNode(node="n1"))
    assert len(world.links.closed) == 2
    assert world.node("n1").state is NodeState.BOOTING


@scenario
async def test_a_registration_does_not_close_its_own_stream() -> None:
    world = World()
    await world.prepare()
    Watch(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    assert world.links.closed == []


@scenario
async def test_nobody_is_blamed_while_the_server_cannot_record_anything() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    await watch.pass_s(29)
    world.replica.failure = LogFull("no room")
    with pytest.raises(LogFull):
        await watch.pass_s(1)
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED
