"""What a heartbeat changes: never the log, and nothing when it comes late, from another session or in a flood."""

from lattice.core.machine.commands import DegradeNode, RecoverNode
from lattice.core.model.nodes.nodes import DegradeCause, NodeState
from lattice.core.model.nodes.observations import Beat
from lattice.ports.nodes.agents import Registration
from lattice.testing import scenario
from tests.unit.control.sessions import Desk
from tests.unit.control.world import HARDWARE, World


@scenario
async def test_heartbeats_never_reach_the_log() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    before = len(world.replica.proposed)
    for seq in (1, 2, 3):
        service.sessions.beat("n1", greeting.session, Beat(seq=seq, load1=0.5))
    assert len(world.replica.proposed) == before
    observation = service.observations.get("n1")
    assert observation is not None
    assert (observation.seq, observation.load1) == (3, 0.5)


@scenario
async def test_a_heartbeat_whose_number_does_not_rise_is_counted_and_ignored() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    service.sessions.beat("n1", greeting.session, Beat(seq=5))
    world.clock.pass_s(10)
    service.sessions.beat("n1", greeting.session, Beat(seq=5))
    observation = service.observations.get("n1")
    assert observation is not None
    assert observation.last_heard == world.clock.s - 10
    assert service.sessions.counts["stale_heartbeats"] == 1


@scenario
async def test_a_restarted_agent_may_count_its_heartbeats_from_one_again() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    first = await service.connect("n1")
    service.sessions.beat("n1", first.session, Beat(seq=500))
    second = await service.connect("n1")
    service.sessions.beat("n1", second.session, Beat(seq=1, running=2))
    assert service.sessions.counts["stale_heartbeats"] == 0
    assert service.table.running_of("n1") == 2


@scenario
async def test_a_heartbeat_brings_a_degraded_node_back_once() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    await world.do(DegradeNode(node="n1"))
    for seq in (1, 2, 3):
        service.sessions.beat("n1", greeting.session, Beat(seq=seq))
    for task in list(service.table._recovering.values()):
        await task
    assert world.node("n1").state is NodeState.READY
    assert world.replica.proposed.count(RecoverNode(node="n1")) == 1


@scenario
async def test_heartbeats_of_a_node_whose_checks_fail_never_reach_the_log() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    await world.do(DegradeNode(node="n1", cause=DegradeCause.CHECK, reason="scratch is full"))
    before = len(world.replica.proposed)
    for seq in (1, 2, 3):
        service.sessions.beat("n1", greeting.session, Beat(seq=seq))
        for task in list(service.table._recovering.values()):
            await task
    assert world.replica.proposed[before:] == []
    assert world.node("n1").state is NodeState.DEGRADED


@scenario
async def test_nodes_that_are_told_to_beat_more_often_are_heard_as_often() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    world.state.settings["node.heartbeat_interval_s"] = "0.5"
    for seq in range(1, 101):
        world.clock.pass_s(0.5)
        service.sessions.beat("n1", greeting.session, Beat(seq=seq))
    assert service.sessions.counts["heartbeats"] >= 99


@scenario
async def test_a_degraded_node_is_not_brought_back_by_an_agent_that_has_not_confirmed() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    await world.do(DegradeNode(node="n1"))
    greeting = await service.register("n1")
    service.sessions.beat("n1", greeting.session, Beat(seq=1))
    assert service.table._recovering == {}
    assert world.node("n1").state is NodeState.DEGRADED
    assert await service.sessions.confirm("n1", greeting.session)
    assert world.node("n1").state is NodeState.READY


@scenario
async def test_a_heartbeat_of_another_session_is_counted_and_changes_nothing() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    former = await service.connect("n1")
    current = await service.connect("n1")
    assert service.sessions.beat("n1", current.session, Beat(seq=9, session=former.session))
    assert service.sessions.beat("n1", former.session, Beat(seq=9, session=former.session))
    assert service.sessions.beat("elsewhere", current.session, Beat(seq=9, session=current.session))
    observation = service.observations.get("n1")
    assert observation is not None
    assert observation.seq == 0
    assert (service.sessions.counts["stale_heartbeats"], service.sessions.counts["forged_heartbeats"]) == (2, 1)
    world.clock.pass_s(10)
    assert service.table.hear("n1", current.session, Beat(seq=9, session=current.session), age_s=4.0)
    observation = service.observations.get("n1")
    assert observation is not None
    assert observation.last_heard == world.clock.s - 4
    assert service.sessions.counts["heartbeats"] == 1


@scenario
async def test_the_same_agent_process_goes_on_counting_on_its_next_stream() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    registration = Registration(node_id="n1", hardware=HARDWARE, boot_id="b", process=77)
    first = await service.sessions.register(registration)
    service.sessions.beat("n1", first.session, Beat(seq=5, session=first.session))
    second = await service.sessions.register(registration)
    service.sessions.beat("n1", second.session, Beat(seq=5, session=second.session))
    assert service.sessions.counts["stale_heartbeats"] == 1
    service.sessions.beat("n1", second.session, Beat(seq=6, session=second.session))
    assert service.sessions.counts["heartbeats"] == 2


@scenario
async def test_a_flood_of_heartbeats_is_dropped_whatever_stream_it_comes_on() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    heard = [service.sessions.beat("n1", greeting.session, Beat(seq=seq)) for seq in range(1, 101)]
    assert heard == [True] * 20 + [False] * 80
    again = await service.connect("n1")
    assert not service.sessions.beat("n1", again.session, Beat(seq=1))
    assert service.sessions.counts["surplus_heartbeats"] == 81
    world.clock.pass_s(10)
    assert service.sessions.beat("n1", again.session, Beat(seq=2))
    assert service.sessions.counts["heartbeats"] == 21
