"""Silence: who is given how much time, and what happens to the stream of a node that was given up."""

import pytest
from msgspec.structs import replace

from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.reading import settings_of
from lattice.config.machine_status.slurm_conf import read_slurm_conf
from lattice.control.nodes.timers import NodeTimers, TimerSettings
from lattice.control.nodes.watch import NodeWatch
from lattice.core.machine.commands import (
    ConfirmNode,
    DisableNode,
    DrainNode,
    EnableNode,
    RebootNode,
    RecoverNode,
    RegisterNode,
    SetSetting,
    SetVcluster,
)
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.tenants import SENSITIVE, Fencing, Vcluster
from lattice.core.model.work.allocations import AllocationState
from lattice.ports.quorum.log import LogFull
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World


class Watch:
    def __init__(self, world: World, moving_s: float = 0) -> None:
        self.world = world
        self.observations = Observations()
        self.trouble: dict[str, str] = {}
        self.is_crowded = False
        self.timers = NodeTimers(world.replica, TimerSettings(timeout_s=30, grace_s=60))
        self.loop = NodeWatch(
            world.replica,
            world.links,
            self.observations,
            world.clock,
            self.timers,
            moving_s=moving_s,
            why_not_ready=lambda node: self.trouble.get(node, ""),
            is_crowded=lambda: self.is_crowded,
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
async def test_draining_nodes_are_given_up_too() -> None:
    world = World()
    await world.prepare("n1")
    await world.running("n1")
    await world.do(DrainNode(node="n1"))
    watch = Watch(world)
    await watch.pass_s(89)
    assert world.node("n1").state is NodeState.DRAINING
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_a_node_has_ten_minutes_to_boot_and_three_tries() -> None:
    world = World()
    await world.prepare()
    watch = Watch(world)
    for tries, after in ((1, NodeState.DOWN), (2, NodeState.DOWN), (3, NodeState.FAILED)):
        await world.do(RegisterNode(node="n1", hardware=HARDWARE))
        await watch.pass_s(599)
        assert world.node("n1").state is NodeState.BOOTING
        await watch.pass_s(1)
        assert world.node("n1").state is after
        assert world.node("n1").reason == f"boot {tries} of 3 failed: its agent was not there within 600 s"
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    assert world.node("n1").state is NodeState.FAILED


@scenario
async def test_a_failed_boot_says_which_check_kept_the_node_from_being_ready() -> None:
    world = World()
    await world.prepare()
    watch = Watch(world)
    watch.trouble["n2"] = "check gpu_count: 3 of 4 GPUs found"
    for name in ("n1", "n2"):
        await world.do(RegisterNode(node=name, hardware=HARDWARE))
        watch.observations.join(name, world.clock.s)
    await watch.pass_s(600, "n1", "n2")
    assert world.node("n1").reason == "boot 1 of 3 failed: its agent confirmed nothing within 600 s"
    assert world.node("n2").reason.endswith("not ready within 600 s: check gpu_count: 3 of 4 GPUs found")


@scenario
async def test_a_reboot_gives_a_node_the_whole_boot_time_again() -> None:
    world = World()
    await world.prepare()
    watch = Watch(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    await watch.pass_s(500)
    await world.do(RebootNode(node="n1"))
    await watch.pass_s(599)
    assert world.node("n1").state is NodeState.BOOTING
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_a_node_that_is_not_rebooted_as_ordered_has_failed_to_boot() -> None:
    world = World()
    await world.prepare()
    watch = Watch(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE, boot_id="b1"))
    await world.do(ConfirmNode(node="n1"))
    await world.do(DrainNode(node="n1", reason="fan"))
    await world.do(RebootNode(node="n1"))
    await world.do(ConfirmNode(node="n1"))
    await watch.pass_s(600, "n1")
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DOWN, "fan")
    assert world.state.node_history("n1")[-1].why == "boot 1 of 3 failed: it was not rebooted within 600 s"
    await world.do(RegisterNode(node="n1", hardware=HARDWARE, boot_id="b1"))
    await world.do(ConfirmNode(node="n1"))
    assert world.node("n1").state is NodeState.DRAINED


async def sensitive(world: World, **changes: object) -> None:
    vcluster = world.state.vclusters["default"]
    await world.do(SetVcluster(vcluster=replace(vcluster, scheduler=SENSITIVE, **changes)))


@scenario
async def test_a_node_with_sensitive_work_has_longer_timers() -> None:
    world = World()
    await world.prepare("n1")
    await sensitive(world)
    await world.running("n1")
    watch = Watch(world)
    await watch.pass_s(119)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(299)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_a_node_that_works_for_another_vcluster_has_a_shorter_grace() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3")
    for name in ("n1", "n2"):
        await world.running(name)
    await world.do(SetVcluster(vcluster=Vcluster(name="own", nodes=("n1", "n3")), create=True))
    watch = Watch(world)
    await watch.pass_s(59)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(1)
    assert [world.node(name).state for name in ("n1", "n2", "n3")] == [
        NodeState.DOWN,
        NodeState.DEGRADED,
        NodeState.DEGRADED,
    ]


@scenario
async def test_fenced_work_is_never_given_up_before_the_agent_was_told_it_would_be() -> None:
    world = World()
    await world.prepare("n1")
    await world.running("n1")
    vcluster = world.state.vclusters["default"]
    await world.do(SetVcluster(vcluster=replace(vcluster, fencing=Fencing.STRICT)))
    await world.do(SetVcluster(vcluster=Vcluster(name="own", nodes=("n1",)), create=True))
    watch = Watch(world)
    assert watch.timers.promise_s("n1") == 90
    await watch.pass_s(89)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_agents_are_told_the_timer_of_their_node() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    assert (watch.timers.promise_s("n1"), watch.timers.promise_s("n9")) == (90, 90)
    await sensitive(world)
    await world.running("n1")
    assert watch.timers.promise_s("n1") == 420


@scenario
async def test_timers_that_are_changed_while_the_cluster_runs_hold_at_once() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    await watch.pass_s(5)
    await world.do(SetSetting(key="node.heartbeat_timeout_s", value="8"))
    await world.do(SetSetting(key="node.grace_s", value="4"))
    await watch.pass_s(3)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(4)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_without_a_grace_a_node_is_down_when_its_timeout_is_over() -> None:
    """What a SlurmConf comes to whose time-out is hardly longer than its interval."""
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    conf = read_slurm_conf("HeartBeatInterval = 10\nHeartBeatTimeout = 12\n", "SlurmConf", Findings())
    for key, value in settings_of(conf).items():
        await world.do(SetSetting(key=key, value=value))
    await watch.pass_s(11)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(2)  # one look makes it Degraded, the next one Down
    assert world.node("n1").state is NodeState.DOWN
    assert watch.timers.shortest_s == 12


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


@scenario
async def test_nobody_is_blamed_while_agents_stand_in_line_but_not_for_ever() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    watch.is_crowded = True
    await watch.pass_s(200)
    watch.is_crowded = False
    await watch.pass_s(29)
    assert world.node("n1").state is NodeState.READY
    await watch.pass_s(2)
    assert world.node("n1").state is NodeState.DEGRADED
    watch.is_crowded = True
    await watch.pass_s(300)
    assert world.node("n1").state is NodeState.DEGRADED
    await watch.pass_s(92)
    assert world.node("n1").state is NodeState.DOWN


@scenario
async def test_agents_that_come_in_crowds_for_ever_keep_nobody_from_being_called_silent() -> None:
    world = World()
    await world.prepare("n1")
    watch = Watch(world)
    for second in range(350):
        watch.is_crowded = second % 5 == 0
        await watch.pass_s(1)
    assert world.node("n1").state is NodeState.DEGRADED
