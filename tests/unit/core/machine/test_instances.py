"""Instances of a service: they restart, leave, move and are replaced each for itself."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.rules.instances import HEALTHY_MS
from lattice.core.model.nodes.nodes import DownCause, NodeState, Share
from lattice.core.model.site.tenants import SENSITIVE, Project, Tenant, Vcluster
from lattice.core.model.work.allocations import (
    INSTANCE_SHIFT,
    AllocationState,
    Cause,
    Lifecycle,
    Part,
    PartPhase,
    Request,
    RequeuePolicy,
    Restart,
)
from lattice.core.model.work.notifications import Notify, Occasion
from lattice.core.model.work.usage import Usage
from lattice.core.replacements import replacements
from tests.unit.core.machine.world import World


def service(world: World, *nodes: str, **changes: object) -> int:
    """A service that runs on these nodes."""
    return world.running(*nodes, **{"lifecycle": Lifecycle.UNBOUNDED, "restart": Restart.ALWAYS, **changes})


def restarting(world: World, number: int, node: str, seq: int = 2, **report: object) -> tuple[ev.AnyEvent, ...]:
    fields = {"exit_code": 1, "cause": Cause.EXIT, "run": world[number].run, **report}
    usage = fields.pop("usage", None)
    told = cmd.ReportPart(number=number, node=node, seq=seq, phase=PartPhase.RESTARTING, **fields)  # type: ignore[arg-type]
    return world.must(cmd.EndPart(report=told, usage=usage) if isinstance(usage, Usage) else told)


def grow(world: World, number: int, node: str, **changes: int) -> cmd.GrowAllocation:
    return cmd.GrowAllocation(number=number, run=world[number].run, share=Share(node=node), **changes)


def shrink(world: World, number: int, node: str, **changes: object) -> cmd.ShrinkAllocation:
    return cmd.ShrinkAllocation(number=number, run=world[number].run, node=node, **changes)  # type: ignore[arg-type]


def part(world: World, number: int, node: str) -> Part:
    return next(each for each in world[number].parts if each.node == node)


def down(world: World, node: str) -> tuple[ev.AnyEvent, ...]:
    world.must(cmd.DegradeNode(node=node))
    return world.must(cmd.DownNode(node=node, cause=DownCause.SILENCE))


def test_a_restart_by_the_node_keeps_the_service_running_and_is_counted() -> None:
    world = World()
    number = service(world, "n1", "n2")
    restarting(world, number, "n1", cpu_s=1.0, usage=Usage(read_bytes=5, peak_pids=2))
    there = part(world, number, "n1")
    assert (there.phase, there.cause, there.exit_code, there.running_since) == (
        PartPhase.RESTARTING,
        Cause.EXIT,
        1,
        0,
    )
    world.started(number, "n1", seq=3)
    there = part(world, number, "n1")
    assert (there.phase, there.restarts, there.running_since) == (PartPhase.RUNNING, 1, world.at)
    assert (there.cause, there.cpu_s, there.usage) == (Cause.EXIT, 1.0, Usage(read_bytes=5, peak_pids=2))
    assert (world[number].state, world[number].restarts, world[number].requeue_count) == (AllocationState.RUNNING, 1, 0)


def test_restarts_that_no_server_heard_of_are_right_afterwards() -> None:
    world = World()
    number = service(world, "n1", "n2")
    told = cmd.ReportPart(
        number=number,
        run=1,
        node="n2",
        seq=11,
        phase=PartPhase.RUNNING,
        cause=Cause.SIGNAL,
        signal=9,
        cpu_s=4.0,
        peak_memory_mb=7,
    )
    world.must(told)
    there = part(world, number, "n2")
    assert (there.restarts, there.cause, there.signal, there.cpu_s, there.peak_memory_mb) == (
        5,
        Cause.SIGNAL,
        9,
        4.0,
        7,
    )
    assert world.must(told) == (), "repeated"


def test_what_an_attempt_used_is_counted_once_when_both_reports_tell_it() -> None:
    world = World()
    number = service(world, "n1", "n2")
    restarting(world, number, "n1", cpu_s=1.0)
    world.must(
        cmd.ReportPart(
            number=number, run=1, node="n1", seq=3, phase=PartPhase.RUNNING, cause=Cause.EXIT, exit_code=1, cpu_s=1.0
        )
    )
    assert part(world, number, "n1").cpu_s == 1.0


def test_a_failed_instance_leaves_alone_and_waits_for_another_node() -> None:
    world = World()
    number = service(world, "n1", "n2")
    restarting(world, number, "n2")
    world.started(number, "n2", seq=3)
    world.ended(number, "n2", seq=4, exit_code=1, cpu_s=2.0, peak_memory_mb=9, message="it failed 5 times in a row")
    record = world[number]
    assert (record.state, record.nodes, record.size, record.missing) == (AllocationState.RUNNING, ("n1",), 2, 1)
    assert (record.requeue_count, record.restart_count, record.restarts) == (1, 1, 1)
    assert (record.cpu_s, record.peak_memory_mb, record.left) == (2.0, 9, ("n2",))
    assert "n2 moves to another node: it failed 5 times" in record.message
    assert world.node("n2").is_free


def test_the_place_of_an_instance_is_filled_and_its_reports_count_from_there() -> None:
    world = World(nodes=4)
    number = service(world, "n1", "n2")
    down(world, "n2")
    assert world[number].missing == 1
    (proposal,) = replacements(world.state, [number, 99], frozenset({"n1", "n3", "n4"}))
    assert proposal.share.node == "n3"
    world.must(proposal)
    fresh = part(world, number, "n3")
    assert (fresh.phase, fresh.instance, fresh.joined_at) == (PartPhase.ASSIGNED, 1, world.at)
    assert world[number].missing == 0
    assert world.started(number, "n3", seq=1) == (), "of no instance that is here"
    assert world.started(number, "n3", seq=(9 << INSTANCE_SHIFT) + 1) == ()
    world.started(number, "n3", seq=(1 << INSTANCE_SHIFT) + 1)
    assert (part(world, number, "n3").phase, part(world, number, "n3").restarts) == (PartPhase.RUNNING, 0)
    world.refused(grow(world, number, "n4"))


def test_replacements_prefer_nodes_that_no_instance_left_and_the_group_of_the_others() -> None:
    world = World(nodes=2)
    for name, group in (("n3", "b"), ("n4", "a"), ("n5", "a"), ("n6", "a")):
        world.add_node(name, group=group)
    number = service(world, "n4", "n5")
    world.ended(number, "n5", exit_code=1)
    everybody = frozenset(world.state.nodes)
    (proposal,) = replacements(world.state, [number], everybody)
    assert proposal.share.node == "n6"
    (proposal,) = replacements(world.state, [number], everybody - {"n6", "n1", "n2", "n3"})
    assert proposal.share.node == "n5", "better there than nowhere"
    assert replacements(world.state, [number], frozenset()) == []
    (proposal,) = replacements(world.state, [number], everybody, {"batch": frozenset({"n6"})})
    assert proposal.share.node == "n1"


def test_replacements_keep_to_the_vcluster_and_to_what_is_free() -> None:
    world = World(nodes=4)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="small", nodes=("n1", "n2", "n3")), create=True))
    number = service(world, "n1", "n2", vcluster="small")
    world.running("n3")
    world.ended(number, "n2", exit_code=1)
    (proposal,) = replacements(world.state, [number], frozenset(world.state.nodes))
    assert proposal.share.node == "n2", "n3 is held, n4 is not of the vCluster"
    world.must(cmd.DrainNode(node="n2"))
    assert replacements(world.state, [number], frozenset(world.state.nodes)) == []


def test_an_instance_that_may_not_be_requeued_any_more_is_given_up_and_the_last_one_ends_the_service() -> None:
    world = World()
    number = service(world, "n1", "n2", max_requeue=0)
    world.ended(number, "n1", exit_code=1)
    record = world[number]
    assert (record.state, record.nodes, record.size, record.missing) == (AllocationState.RUNNING, ("n2",), 1, 0)
    assert "given up" in record.message
    world.ended(number, "n2", exit_code=3)
    assert (world[number].state, world[number].exit_code) == (AllocationState.FAILED, 3)


def test_a_service_that_is_never_requeued_gives_a_lost_instance_up() -> None:
    world = World()
    number = service(world, "n1", "n2", requeue=RequeuePolicy.NEVER)
    down(world, "n1")
    assert (world[number].nodes, world[number].size) == (("n2",), 1)
    assert "is not replaced" in world[number].message
    world.ended(number, "n2", exit_code=1)
    assert world[number].state is AllocationState.FAILED


def test_the_last_instance_takes_the_service_back_into_the_queue() -> None:
    world = World()
    number = service(world, "n1")
    world.ended(number, "n1", exit_code=1)
    record = world[number]
    assert (record.state, record.requeue_count, record.wanted) == (AllocationState.PENDING, 1, 0)


def test_after_ten_minutes_of_health_the_count_of_requeues_begins_anew() -> None:
    world = World()
    number = service(world, "n1", max_requeue=1)
    world.ended(number, "n1", exit_code=1)
    world.at += 60_000
    world.place(number, "n1")
    world.started(number, "n1")
    world.at += HEALTHY_MS
    world.ended(number, "n1", exit_code=1)
    assert (world[number].state, world[number].requeue_count) == (AllocationState.PENDING, 1)
    world.at += 60_000
    world.place(number, "n1")
    world.started(number, "n1")
    world.ended(number, "n1", exit_code=1)
    assert world[number].state is AllocationState.FAILED


def test_a_healthy_instance_moves_although_the_count_is_used_up() -> None:
    world = World(nodes=4)
    number = service(world, "n1", "n2", max_requeue=1)
    world.ended(number, "n2", exit_code=1)
    world.must(grow(world, number, "n3"))
    world.started(number, "n3", seq=(1 << INSTANCE_SHIFT) + 1)
    world.at += HEALTHY_MS
    world.ended(number, "n3", seq=(1 << INSTANCE_SHIFT) + 2, exit_code=1)
    assert (world[number].missing, world[number].requeue_count, world[number].restart_count) == (1, 1, 2)


@pytest.mark.parametrize(("restart", "exit_code"), [(Restart.NEVER, 1), (Restart.NEVER, 0), (Restart.ON_FAILURE, 0)])
def test_an_instance_that_is_done_leaves_for_good(restart: Restart, exit_code: int) -> None:
    world = World()
    number = service(world, "n1", "n2", restart=restart)
    world.ended(number, "n1", exit_code=exit_code)
    assert (world[number].nodes, world[number].size, world[number].requeue_count) == (("n2",), 1, 0)
    world.ended(number, "n2", exit_code=0)
    assert world[number].state is AllocationState.COMPLETED


def test_a_service_that_is_never_restarted_fails_with_its_last_instance_and_moves_with_its_node() -> None:
    world = World()
    number = service(world, "n1", restart=Restart.NEVER)
    world.ended(number, "n1", exit_code=4)
    assert world[number].state is AllocationState.FAILED
    number = service(world, "n1", "n2", restart=Restart.NEVER)
    down(world, "n2")
    assert world[number].missing == 1


def test_the_walltime_ends_all_instances() -> None:
    world = World()
    number = service(world, "n1", "n2", walltime_s=60)
    world.ended(number, "n1", cause=Cause.WALLTIME)
    assert world[number].state is AllocationState.STOPPING
    world.ended(number, "n2", cause=Cause.WALLTIME)
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.WALLTIME)


def test_a_service_starts_although_one_of_its_nodes_is_lost_on_the_way() -> None:
    world = World()
    number = world.submit(nodes=2, lifecycle=Lifecycle.UNBOUNDED, restart=Restart.ALWAYS)
    world.place(number, "n1", "n2")
    world.started(number, "n1")
    assert world[number].state is AllocationState.STARTING
    down(world, "n2")
    assert (world[number].state, world[number].missing) == (AllocationState.RUNNING, 1)


def test_a_node_that_forgot_its_instance_loses_it_alone() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(cmd.LosePart(number=number, run=1, node="n1"))
    assert (world[number].nodes, world[number].missing) == (("n2",), 1)
    assert world.node("n1").is_free


def test_a_node_leaves_when_its_instance_has_ended_and_never_before() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(shrink(world, number, "n2", reason="scaled down"))
    assert part(world, number, "n2").phase is PartPhase.LEAVING
    assert world.node("n2").holder == number
    assert world.must(shrink(world, number, "n2")) == (), "repeated"
    world.started(number, "n2", seq=3)
    assert part(world, number, "n2").phase is PartPhase.LEAVING, "the order is on its way"
    world.ended(number, "n2", seq=4, stopped=True)
    record = world[number]
    assert (record.nodes, record.size, record.missing, record.requeue_count) == (("n1",), 1, 0, 0)
    assert (record.message, world.node("n2").is_free) == ("scaled down", True)


def test_a_replaced_instance_is_missed_when_it_has_left() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(shrink(world, number, "n1", replace=True))
    world.ended(number, "n1", stopped=True)
    assert (world[number].nodes, world[number].missing, world[number].requeue_count) == (("n2",), 1, 0)


def test_what_cannot_leave_is_refused() -> None:
    world = World()
    number = service(world, "n1", "n2")
    assert world.refused(shrink(world, number, "n3")).code == "stale"
    world.must(shrink(world, number, "n1"))
    assert world.refused(shrink(world, number, "n2")).code == "conflict"
    assert world.refused(cmd.ShrinkAllocation(number=number, run=7, node="n2")).code == "stale"
    plain = world.running("n3")
    assert world.refused(shrink(world, plain, "n3")).code == "stale"
    assert world.refused(cmd.ShrinkAllocation(number=99, run=1, node="n2")).code == "stale"
    assert world.refused(grow(world, plain, "n3")).code == "stale"


def test_an_allocation_grows_within_what_it_asked_for() -> None:
    world = World(nodes=5)
    request = Request(nodes=2, max_nodes=3)
    number = world.submit(request=request, lifecycle=Lifecycle.UNBOUNDED, restart=Restart.ALWAYS)
    world.place(number, "n1", "n2")
    for node in ("n1", "n2"):
        world.started(number, node)
    assert world.refused(grow(world, number, "n3")).code == "stale", "it has what it wants"
    assert world.refused(grow(world, number, "n1", size=3)).code == "stale", "it has the node"
    world.must(grow(world, number, "n3", size=3))
    assert (world[number].size, world[number].nodes) == (3, ("n1", "n2", "n3"))
    assert world.refused(grow(world, number, "n4", size=4)).code == "stale"
    world.running("n4")
    world.must(shrink(world, number, "n3", replace=True))
    world.ended(number, "n3", seq=(1 << INSTANCE_SHIFT) + 2, stopped=True)
    assert world.refused(grow(world, number, "n4")).code == "stale", "it is held"


def test_growth_keeps_quotas() -> None:
    world = World(nodes=4)
    world.must(cmd.SetProject(project=Project(tenant="physics", name="p", max_nodes=2), create=True))
    number = service(world, "n1", "n2", project="p")
    down(world, "n2")
    assert world.state.project_nodes == {("physics", "p"): 1}
    other = world.running("n3", project="p")
    assert world.refused(grow(world, number, "n4")).code == "quota"
    world.ended(other, "n3")
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=1)))
    assert world.refused(grow(world, number, "n4")).code == "quota"
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=2)))
    world.must(grow(world, number, "n4"))
    assert world.state.project_nodes == {("physics", "p"): 2}


def test_an_urgent_drain_takes_one_instance_and_leaves_the_others() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(cmd.DrainNode(node="n2", urgent=True))
    assert part(world, number, "n2").phase is PartPhase.LEAVING
    assert world.node("n2").state is NodeState.DRAINING
    world.must(cmd.DrainNode(node="n2", urgent=True))
    world.ended(number, "n2", stopped=True)
    assert (world.node("n2").state, world[number].state) == (NodeState.DRAINED, AllocationState.RUNNING)
    assert (world[number].missing, world[number].requeue_count) == (1, 0)
    world.must(cmd.DrainNode(node="n1", urgent=True))
    assert world[number].state is AllocationState.STOPPING, "the last one takes the service along"


def test_an_instance_that_is_not_started_in_time_leaves_again() -> None:
    world = World(nodes=3)
    number = service(world, "n1", "n2")
    down(world, "n2")
    world.must(grow(world, number, "n3"))
    world.must(cmd.RollbackRun(number=number, run=1, node="n3"))
    assert part(world, number, "n3").phase is PartPhase.LEAVING
    world.ended(number, "n3", seq=(1 << INSTANCE_SHIFT) + 2, stopped=True)
    assert (world[number].nodes, world[number].missing) == (("n1",), 1)
    assert world.refused(cmd.RollbackRun(number=number, run=1, node="n1")).code == "stale"


def test_a_cancelled_service_ends_instances_that_leave_as_well() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(shrink(world, number, "n1"))
    world.must(cmd.CancelAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    world.ended(number, "n2", stopped=True)
    assert world[number].state is AllocationState.CANCELLED


def test_time_is_entered_for_each_node_as_long_as_the_service_had_it() -> None:
    world = World()
    number = service(world, "n1", "n2")
    start = world[number].started_at
    world.at = start + 9_999
    down(world, "n2")
    left = world.at - start
    world.must(grow(world, number, "n3"))
    joined = world.at
    world.at += 5_000
    world.must(cmd.CancelAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    world.ended(number, "n3", seq=(1 << INSTANCE_SHIFT) + 2, stopped=True)
    (ledger,) = world.state.ledger.values()
    assert ledger.since(0)[0] == left + (world.at - start) + (world.at - joined)


def test_a_moved_instance_is_told_as_a_requeue_and_one_that_was_taken_is_not() -> None:
    world = World(nodes=4)
    notify = Notify(on=(Occasion.REQUEUE,), to=("mail:a@b.c",))
    number = service(world, "n1", "n2", "n3", notify=notify)
    world.ended(number, "n2", exit_code=1)
    (told,) = world.state.notifications.waiting.values()
    assert (told.occasion, "n2 moves to another node" in told.message) == (Occasion.REQUEUE, True)
    world.must(shrink(world, number, "n3"))
    world.ended(number, "n3", stopped=True)
    assert len(world.state.notifications.waiting) == 1


def test_a_node_with_sensitive_work_is_wiped_when_its_instance_leaves() -> None:
    world = World(scheduler=SENSITIVE)
    world.must(cmd.SetSetting(key="sensitive.require_wipe", value="true"))
    number = service(world, "n1", "n2")
    world.must(shrink(world, number, "n2"))
    world.ended(number, "n2", stopped=True)
    assert world.node("n2").wipe is not None
    assert world[number].state is AllocationState.RUNNING


def test_work_that_ends_is_not_started_again() -> None:
    world = World()
    refused = world.refused(world.submission(restart=Restart.ALWAYS))
    assert (refused.code, refused.requested) == ("invalid", "restart always")


def test_time_is_entered_when_every_node_came_later() -> None:
    world = World(nodes=4)
    number = service(world, "n1", "n2")
    for old, new in (("n1", "n3"), ("n2", "n4")):
        down(world, old)
        world.must(grow(world, number, new))
    world.must(cmd.CancelAllocation(number=number))
    for place, node in enumerate(("n3", "n4"), start=1):
        world.ended(number, node, seq=(place << INSTANCE_SHIFT) + 2, stopped=True)
    assert world[number].state is AllocationState.CANCELLED


def test_work_that_is_no_service_is_judged_as_before() -> None:
    world = World(level=OLDEST)
    number = world.running("n1", "n2", lifecycle=Lifecycle.UNBOUNDED)
    world.ended(number, "n1", exit_code=1)
    assert world[number].state is AllocationState.STOPPING
    refused = world.do(world.submission(lifecycle=Lifecycle.UNBOUNDED, restart=Restart.ALWAYS))
    assert "level 2" in getattr(refused, "message", "")


def test_a_service_on_one_of_several_nodes_restarts_there_and_is_lost_as_a_whole() -> None:
    world = World()
    number = service(world, "n1", "n2", per_node=False)
    restarting(world, number, "n1")
    world.started(number, "n1", seq=3)
    assert (world[number].restarts, world[number].state) == (1, AllocationState.RUNNING)
    down(world, "n2")
    assert world[number].state is AllocationState.STOPPING
