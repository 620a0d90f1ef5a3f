"""Updates of services: revisions, one instance after the other, taken back when one fails."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.outcomes import Accepted, Rejected
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.readiness import ReadinessBoard, Standing
from lattice.core.model.services.rollouts import KEPT_REVISIONS, RolloutPhase
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import AllocationState, Cause, Lifecycle, PartPhase, Restart
from lattice.core.model.work.readiness import is_ready
from tests.unit.core.machine.test_instances import down, grow, part, restarting, service, shrink
from tests.unit.core.machine.world import World


def revise(number: int, payload: bytes = b"two", base: int = 0, **changes: object) -> cmd.ReviseService:
    return cmd.ReviseService(number=number, base=base, payload=payload, **changes)  # type: ignore[arg-type]


def renew(world: World, number: int, node: str, **changes: object) -> cmd.RenewInstance:
    fields = {"run": world[number].run, "revision": world[number].revision, **changes}
    return cmd.RenewInstance(number=number, node=node, **fields)  # type: ignore[arg-type]


def stopped(world: World, number: int, node: str) -> tuple[ev.AnyEvent, ...]:
    """Its node says that it ended as it was told to."""
    return world.must(
        cmd.ReportPart(
            number=number,
            run=world[number].run,
            node=node,
            seq=part(world, number, node).seq + 1,
            phase=PartPhase.ENDED,
            stopped=True,
            signal=15,
            cpu_s=1.0,
        )
    )


def failed(world: World, number: int, node: str, code: int = 3, **changes: object) -> tuple[ev.AnyEvent, ...]:
    fields = {"cause": Cause.EXIT, "exit_code": code, **changes}
    told = cmd.ReportPart(
        number=number,
        run=world[number].run,
        node=node,
        seq=part(world, number, node).seq + 1,
        phase=PartPhase.ENDED,
        **fields,  # type: ignore[arg-type]
    )
    return world.must(told)


def renewed(world: World, number: int, node: str) -> None:
    world.must(renew(world, number, node))
    stopped(world, number, node)
    world.started(number, node, seq=part(world, number, node).seq + 1)


def runs(world: World, number: int) -> dict[str, bytes]:
    record = world[number]
    return {each.node: world.state.payload_of_part(record, each) for each in record.parts}


def refused(world: World, command: cmd.AnyCommand) -> Rejected:
    outcome = world.do(command)
    assert isinstance(outcome, Rejected)
    return outcome


def test_instances_are_replaced_on_their_nodes_one_by_one() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number, note="v2", max_unavailable=2))
    assert runs(world, number) == {"n1": b"one", "n2": b"one"}, "nothing moves before the first step"
    world.must(renew(world, number, "n1"))
    assert (part(world, number, "n1").phase, world[number].is_renewed("n1")) == (PartPhase.LEAVING, True)
    stopped(world, number, "n1")
    there = part(world, number, "n1")
    assert (there.phase, there.instance, world[number].nodes) == (PartPhase.ASSIGNED, 1, ("n1", "n2"))
    assert runs(world, number) == {"n1": b"two", "n2": b"one"}
    world.started(number, "n1", seq=there.seq + 1)
    assert refused(world, cmd.EndRollout(number=number, revision=1)).code == "stale"
    renewed(world, number, "n2")
    world.must(cmd.EndRollout(number=number, revision=1))
    record = world[number]
    assert (record.revision, record.rollout and record.rollout.phase) == (1, RolloutPhase.DONE)
    assert (record.cpu_s, record.requeue_count, record.state) == (2.0, 0, AllocationState.RUNNING)
    assert world.state.payloads[number] == b"two"
    assert [(each.revision, each.note) for each in world.state.revisions.of(number).values()] == [
        (0, "submitted"),
        (1, "v2"),
    ]


def test_a_service_of_one_instance_is_updated_in_its_place() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    world.must(revise(number))
    renewed(world, number, "n1")
    world.must(cmd.EndRollout(number=number, revision=1))
    assert (world[number].state, world[number].run, runs(world, number)) == (
        AllocationState.RUNNING,
        1,
        {"n1": b"two"},
    )


def test_an_instance_that_fails_for_good_takes_the_update_back_without_a_requeue() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    world.must(revise(number))
    renewed(world, number, "n1")
    failed(world, number, "n1", message="no such model")
    record = world[number]
    assert record.rollout is not None
    assert (record.rollout.phase, record.revision, record.requeue_count) == (RolloutPhase.TAKING_BACK, 0, 0)
    assert "no such model" in record.rollout.reason
    assert (record.state, runs(world, number)) == (AllocationState.RUNNING, {"n1": b"one"})
    assert "no such model" in world.state.revisions.of(number)[1].taken_back
    world.started(number, "n1", seq=part(world, number, "n1").seq + 1)
    world.must(cmd.EndRollout(number=number, revision=0))
    assert world[number].rollout.phase is RolloutPhase.TAKEN_BACK  # type: ignore[union-attr]


def test_an_instance_that_is_done_does_not_take_the_update_back() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one", restart=Restart.ON_FAILURE)
    world.must(revise(number))
    renewed(world, number, "n1")
    failed(world, number, "n1", code=0)
    assert world[number].rollout.phase is RolloutPhase.ROLLING  # type: ignore[union-attr]
    assert world[number].nodes == ("n2",)


def test_a_late_instance_takes_the_update_back_everywhere() -> None:
    world = World()
    number = service(world, "n1", "n2", "n3", payload=b"one")
    world.must(revise(number))
    renewed(world, number, "n1")
    world.must(renew(world, number, "n2"))
    world.must(cmd.TurnRollout(number=number, revision=1, reason="n1 is late"))
    stopped(world, number, "n2")
    assert runs(world, number) == {"n1": b"two", "n2": b"one", "n3": b"one"}, "what was on its way goes back"
    renewed(world, number, "n1")
    world.must(cmd.EndRollout(number=number, revision=0))
    assert set(runs(world, number).values()) == {b"one"}
    assert refused(world, cmd.TurnRollout(number=number, revision=1, reason="again")).code == "stale"


def test_nodes_that_come_and_go_meanwhile_start_with_what_is_wanted() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number))
    renewed(world, number, "n2")
    down(world, "n2")
    assert runs(world, number) == {"n1": b"one"}
    world.must(grow(world, number, "n3"))
    assert runs(world, number) == {"n1": b"one", "n3": b"two"}
    world.must(cmd.TurnRollout(number=number, revision=1, reason="late"))
    world.must(shrink(world, number, "n3", replace=True))
    stopped(world, number, "n3")
    world.must(grow(world, number, "n3"))
    assert runs(world, number) == {"n1": b"one", "n3": b"one"}


def test_a_node_lost_while_its_instance_is_replaced_leaves_the_service() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number))
    world.must(renew(world, number, "n1"))
    down(world, "n1")
    assert (world[number].nodes, world[number].missing, world[number].requeue_count) == (("n2",), 1, 0)
    assert world[number].rollout.renewing == ()  # type: ignore[union-attr]


def test_an_urgent_drain_and_a_shrink_have_precedence_over_an_update() -> None:
    world = World()
    number = service(world, "n1", "n2", "n3", payload=b"one")
    world.must(revise(number))
    world.must(renew(world, number, "n1"))
    world.must(cmd.DrainNode(node="n1", urgent=True))
    stopped(world, number, "n1")
    assert world[number].nodes == ("n2", "n3")
    assert world.state.nodes["n1"].state is NodeState.DRAINED
    world.must(renew(world, number, "n2"))
    world.must(shrink(world, number, "n2"))
    assert world.must(shrink(world, number, "n2")) == (), "repeated"
    stopped(world, number, "n2")
    assert world[number].nodes == ("n3",)


def test_a_requeue_keeps_the_update_and_starts_with_what_is_wanted() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    world.must(revise(number))
    world.must(cmd.RequeueAllocation(number=number))
    stopped(world, number, "n1")
    assert world[number].state is AllocationState.PENDING
    world.must(cmd.PlaceAllocation(number=number, run=2, shares=(grow(world, number, "n2").share,)))
    assert runs(world, number) == {"n2": b"two"}
    failed(world, number, "n2", cause=Cause.LAUNCH)
    assert (world[number].state, runs(world, number)) == (AllocationState.STARTING, {"n2": b"one"})
    world.started(number, "n2", seq=part(world, number, "n2").seq + 1)
    assert world[number].state is AllocationState.RUNNING


def test_a_renewed_instance_that_its_node_does_not_start_leaves() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number))
    world.must(renew(world, number, "n1"))
    stopped(world, number, "n1")
    world.must(cmd.RollbackRun(number=number, run=1, node="n1"))
    assert part(world, number, "n1").phase is PartPhase.LEAVING
    assert not world[number].is_renewed("n1")


def test_rollback_takes_an_open_update_back_and_else_runs_an_earlier_revision_again() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    assert "no earlier revision" in refused(world, cmd.RollBackService(number=number)).message
    world.must(revise(number))
    world.must(cmd.RollBackService(number=number))
    assert world[number].rollout.phase is RolloutPhase.TAKING_BACK  # type: ignore[union-attr]
    again = refused(world, cmd.RollBackService(number=number))
    assert "taken back to revision 1" in again.message
    assert "rollback" not in again.hint
    world.must(cmd.EndRollout(number=number, revision=0))
    world.must(revise(number, b"three"))
    renewed(world, number, "n1")
    world.must(cmd.EndRollout(number=number, revision=2))
    world.must(cmd.RollBackService(number=number))
    record, kept = world[number], world.state.revisions.of(number)
    assert (record.revision, kept[3].payload, kept[3].note) == (3, b"one", "revision 1 again")
    renewed(world, number, "n1")
    world.must(cmd.EndRollout(number=number, revision=3))
    world.must(cmd.RollBackService(number=number, to=1))
    assert world.state.payloads[number] == b"two"


@pytest.mark.parametrize("to", [0, 7])
def test_rollback_to_what_runs_or_never_was_is_refused(to: int) -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    assert refused(world, cmd.RollBackService(number=number, to=to)).code == "conflict"


def test_what_cannot_be_updated_is_refused_and_nothing_changes() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    bounded = world.running("n2")
    assert "no service" in refused(world, revise(bounded)).message
    assert refused(world, revise(99)).code == "not_found"
    assert refused(world, cmd.RollBackService(number=99)).code == "not_found"
    assert "by now" in refused(world, revise(number, base=4)).message
    assert "exactly this" in refused(world, revise(number, b"one")).message
    world.must(revise(number))
    assert "is being updated" in refused(world, revise(number, b"three", base=1)).message
    world.must(cmd.CancelAllocation(number=number))
    assert "is Stopping" in refused(world, revise(number, b"three", base=1)).message
    stopped(world, number, "n1")
    assert "is Cancelled" in refused(world, revise(number, b"three", base=1)).message
    for command in (
        renew(world, number, "n1"),
        renew(world, bounded, "n2"),
        cmd.EndRollout(number=number, revision=1),
        cmd.TurnRollout(number=bounded, revision=1, reason=""),
    ):
        assert refused(world, command).code == "stale"


def test_sensitive_services_are_not_updated() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    world.state.put_vcluster(replace(world.state.vclusters[world[number].vcluster], scheduler=SENSITIVE))
    assert "sensitive" in refused(world, revise(number)).message


def test_tasks_of_a_group_are_not_updated() -> None:
    world = World()
    group = world.submit(lifecycle=Lifecycle.UNBOUNDED, restart=Restart.ALWAYS, tasks=((0, 1, 1),))
    world.place(group + 1, "n1")
    assert f"a task of a{group}" in refused(world, revise(group + 1)).message


def test_steps_for_another_revision_run_or_node_are_stale() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number))
    for changes in ({"run": 7}, {"revision": 0}):
        assert refused(world, renew(world, number, "n1", **changes)).code == "stale"
    assert refused(world, renew(world, number, "n9")).code == "stale"
    world.must(renew(world, number, "n1"))
    assert refused(world, renew(world, number, "n1")).code == "stale", "it is on its way"
    stopped(world, number, "n1")
    assert refused(world, renew(world, number, "n1")).code == "stale", "it has it"
    assert refused(world, cmd.TurnRollout(number=number, revision=4, reason="")).code == "stale"


def test_readiness_is_asked_of_probes_that_the_instances_own_revision_has() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number, probed=True))
    renewed(world, number, "n1")
    board = ReadinessBoard()
    ready = [is_ready(board, world[number], each) for each in world[number].parts]
    assert ready == [False, True], "the new one has probes, of which nothing is known yet"
    instance = part(world, number, "n1").instance
    board.note(number, "n1", Standing(run=1, instance=instance, ready=True))
    assert is_ready(board, world[number], part(world, number, "n1"))


def test_the_last_revisions_are_kept_and_those_in_use() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    for turn in range(KEPT_REVISIONS + 3):
        world.must(revise(number, b"bad %d" % turn))
        world.must(cmd.TurnRollout(number=number, revision=turn + 1, reason="bad"))
        world.must(cmd.EndRollout(number=number, revision=0))
    kept = world.state.revisions.of(number)
    assert (len(kept), 0 in kept, max(kept)) == (KEPT_REVISIONS + 1, True, KEPT_REVISIONS + 3)
    view = encode_state_chunks(world.state.frozen_view())
    assert decode_state_chunks(view).digest() == world.state.digest()


def test_an_archived_service_takes_its_revisions_along() -> None:
    world = World()
    number = service(world, "n1", payload=b"one")
    world.must(revise(number))
    world.must(cmd.CancelAllocation(number=number))
    stopped(world, number, "n1")
    world.must(cmd.ArchiveAllocations(numbers=(number,)))
    assert world.state.revisions.records == {}


def test_a_restart_by_its_node_does_not_end_an_update() -> None:
    world = World()
    number = service(world, "n1", "n2", payload=b"one")
    world.must(revise(number))
    renewed(world, number, "n1")
    restarting(world, number, "n1", seq=part(world, number, "n1").seq + 1)
    assert world[number].rollout.phase is RolloutPhase.ROLLING  # type: ignore[union-attr]


def test_servers_of_the_release_before_refuse_updates() -> None:
    world = World(level=OLDEST)
    assert "level 2" in refused(world, revise(1)).message


def test_an_update_that_is_repeated_is_answered_as_before() -> None:
    world = World()
    number = service(world, "n1", "n2")
    world.must(revise(number, note="command"), command_id="ada/1")
    again = world.do(revise(number, base=1), command_id="ada/1")
    assert isinstance(again, Accepted)
    assert again.repeated
    assert world[number].revision == 1
    other = world.do(revise(number, b"three", base=1), command_id="ada/1")
    assert isinstance(other, Rejected)
    assert "another request" in other.message
