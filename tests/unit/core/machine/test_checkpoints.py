"""Checkpoints of running work: requests, the answers of nodes, what is kept, and what a run's end leaves."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.levels import OLDEST
from lattice.core.model.work.allocations import AllocationState, RequeuePolicy, StopIntent
from lattice.core.model.work.checkpoints import (
    CheckpointPhase,
    CheckpointProtocol,
    CheckpointReason,
    CheckpointWay,
    ResumePoint,
)
from tests.unit.core.machine.world import World

P = CheckpointPhase
WAY = CheckpointWay()


def world_with_root(nodes: int = 3) -> World:
    world = World(nodes=nodes)
    world.must(cmd.SetSetting(key="checkpoint.root", value="/ck"))
    return world


def say(world: World, number: int, node: str, phase: CheckpointPhase, **more: object) -> tuple[ev.AnyEvent, ...]:
    record = world[number]
    fields = {"run": record.run, "n": record.checkpoints.last_n, **more}
    return world.must(cmd.ReportCheckpoint(number=number, node=node, phase=phase, **fields))  # type: ignore[arg-type]


def complete(world: World, number: int, node: str = "n1", size: int = 10) -> None:
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, node, P.DONE, bytes=size, elapsed_s=2.0)
    say(world, number, node, P.SEALED)


def test_a_request_is_answered_by_every_node_before_it_is_complete() -> None:
    world = world_with_root()
    number = world.running("n1", "n2", checkpoint=WAY, project="")
    world.must(cmd.RequestCheckpoint(number=number))
    opened = world[number].checkpoints.open
    assert opened is not None
    assert world[number].state is AllocationState.CHECKPOINTING
    assert opened.path == f"/ck/physics/-/a{number}/checkpoints/1"
    assert opened.deadline_at - opened.asked_at == 600_000
    say(world, number, "n1", P.DONE, bytes=7, elapsed_s=1.5)
    assert world[number].checkpoints.open.sealer == ""  # type: ignore[union-attr]
    say(world, number, "n2", P.DONE, bytes=5, elapsed_s=2.5)
    assert world[number].checkpoints.open.sealer == "n1"  # type: ignore[union-attr]
    assert world[number].state is AllocationState.CHECKPOINTING
    say(world, number, "n1", P.SEALED)
    done = world[number].checkpoints.newest
    assert done is not None
    assert (done.is_complete, done.bytes, done.elapsed_s, done.nodes) == (True, 12, 2.5, 2)
    assert world[number].state is AllocationState.RUNNING
    assert world[number].checkpoints.open is None


def test_a_node_without_work_does_not_hold_it_up() -> None:
    world = world_with_root()
    number = world.running("n1", "n2", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n2", P.NOTHING)
    say(world, number, "n1", P.DONE)
    say(world, number, "n1", P.SEALED)
    assert world[number].checkpoints.newest is not None


def test_work_that_cannot_answer_is_known_at_once_and_runs_on() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n1", P.NOTHING, message="none catches signal 10")
    known = world[number].checkpoints
    assert world[number].state is AllocationState.RUNNING
    assert (known.unheard, known.failures, known.newest) == ("none catches signal 10", 0, None)
    assert (known.last_n, known.failed) == (0, None)
    complete(world, number)
    assert (world[number].checkpoints.unheard, world[number].checkpoints.failures) == ("", 0)


def test_all_that_say_nothing_without_a_word_still_have_a_reason() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n1", P.NOTHING)
    assert world[number].checkpoints.unheard == "none of its processes could answer"


def test_one_node_that_fails_fails_it_and_the_last_complete_one_counts() -> None:
    world = world_with_root()
    number = world.running("n1", "n2", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n1", P.DONE)
    say(world, number, "n2", P.NOTHING)
    say(world, number, "n1", P.SEALED)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n1", P.FAILED, message="disk full")
    known = world[number].checkpoints
    assert known.failed is not None
    assert (known.failed.n, known.failed.message, known.failures) == (2, "node n1: disk full", 1)
    assert known.resume_path.endswith("/1")
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n2", P.FAILED)
    assert world[number].checkpoints.failed.message == "node n2: it failed"  # type: ignore[union-attr]


def test_late_repeated_and_foreign_reports_change_nothing() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    report = cmd.ReportCheckpoint(number=number, run=1, n=1, node="n1", phase=P.DONE)
    assert world.must(report) == ()  # nothing was asked
    world.must(cmd.RequestCheckpoint(number=number))
    for strange in ({"n": 2}, {"run": 7}, {"node": "n2"}, {"number": 99}):
        fields = {"number": number, "run": 1, "n": 1, "node": "n1", "phase": P.DONE, **strange}
        assert world.must(cmd.ReportCheckpoint(**fields)) == ()  # type: ignore[arg-type]
    assert say(world, number, "n1", P.DONE)
    assert say(world, number, "n1", P.DONE) == ()
    assert say(world, number, "n1", P.NOTHING) == ()
    say(world, number, "n1", P.SEALED)
    assert say(world, number, "n1", P.FAILED) == ()


def test_a_second_request_joins_the_open_one_and_a_report_must_be_of_the_run() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    assert world.must(cmd.RequestCheckpoint(number=number, reason=CheckpointReason.BROKER)) == ()
    assert world[number].checkpoints.last_n == 1
    assert world.refused(cmd.RequestCheckpoint(number=number, run=9)).code == "stale"


def test_requests_that_make_no_sense_are_refused_with_a_reason() -> None:
    world = world_with_root()
    plain = world.running("n1")
    assert "without --checkpoint" in world.refused(cmd.RequestCheckpoint(number=plain)).message
    waiting = world.submit(checkpoint=WAY)
    assert "is Pending" in world.refused(cmd.RequestCheckpoint(number=waiting)).message
    assert world.refused(cmd.RequestCheckpoint(number=99)).code == "not_found"
    group = world.submit(tasks=((0, 1, 1),), checkpoint=WAY)
    assert world.refused(cmd.RequestCheckpoint(number=group)).code == "invalid"
    paused = world.running("n2", checkpoint=WAY)
    world.must(cmd.PauseAllocation(number=paused, is_paused=True))
    assert "is suspended" in world.refused(cmd.RequestCheckpoint(number=paused)).message
    world.must(cmd.PauseAllocation(number=paused, is_paused=False))
    world.must(cmd.SetSetting(key="checkpoint.root", value=""))
    assert "checkpoint.root" in world.refused(cmd.RequestCheckpoint(number=paused)).message
    assert "checkpoint.root" in world.refused(world.submission(checkpoint=WAY)).message


def test_work_that_is_being_asked_cannot_be_paused() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    assert "is Checkpointing" in world.refused(cmd.PauseAllocation(number=number, is_paused=True)).message


def test_the_leader_gives_up_what_nothing_is_heard_of() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    assert world.refused(cmd.ExpireCheckpoint(number=number, n=2, message="x")).code == "stale"
    world.must(cmd.ExpireCheckpoint(number=number, n=1, message="nothing was heard"))
    assert world[number].checkpoints.failed.message == "nothing was heard"  # type: ignore[union-attr]
    assert world[number].state is AllocationState.RUNNING
    assert world.refused(cmd.ExpireCheckpoint(number=99, n=1, message="x")).code == "stale"


def test_the_newest_ones_are_kept_within_count_and_bytes() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    for _ in range(3):
        complete(world, number)
    assert [each.n for each in world[number].checkpoints.kept] == [2, 3]
    world.must(cmd.SetSetting(key="checkpoint.keep", value="5"))
    world.must(cmd.SetSetting(key="checkpoint.keep_bytes", value="25"))
    complete(world, number)
    assert [each.n for each in world[number].checkpoints.kept] == [3, 4]
    complete(world, number, size=100)
    assert [each.n for each in world[number].checkpoints.kept] == [5]


def test_another_run_continues_and_an_open_checkpoint_ends_with_its_run() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY, requeue=RequeuePolicy.ALWAYS)
    complete(world, number)
    world.must(cmd.RequestCheckpoint(number=number))
    world.must(cmd.RequeueAllocation(number=number))
    assert world[number].state is AllocationState.STOPPING
    world.ended(number, "n1", stopped=True)
    known = world[number].checkpoints
    assert world[number].state is AllocationState.PENDING
    assert (known.open, known.failures) == (None, 1)
    assert known.resume_path.endswith("/1")
    world.place(number, "n1")
    world.started(number, "n1")
    complete(world, number)
    assert [each.n for each in world[number].checkpoints.kept] == [1, 3]


def test_a_checkpoint_that_is_complete_within_the_grace_of_a_stop_counts() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    world.must(cmd.ExpireAllocation(number=number, run=1))
    assert world[number].intent is StopIntent.WALLTIME
    say(world, number, "n1", P.DONE)
    say(world, number, "n1", P.SEALED)
    assert world[number].state is AllocationState.STOPPING
    world.ended(number, "n1", stopped=True)
    assert world[number].state is AllocationState.FAILED
    assert world[number].checkpoints.newest is not None


def test_what_could_not_answer_in_one_run_may_in_the_next() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    world.must(cmd.RequestCheckpoint(number=number))
    say(world, number, "n1", P.NOTHING)
    world.must(cmd.RequeueAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert world[number].checkpoints.unheard == ""


def test_new_work_begins_with_a_checkpoint_of_its_users_own() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    complete(world, number)
    path = world[number].checkpoints.resume_path
    point = ResumePoint(number=number, n=1, path=path)
    second = world.submit(resume_from=point)
    assert world[second].checkpoints.resume_path == path
    strangers = world.submission(resume_from=point, user="bob", account="bob")
    assert world.refused(strangers).code == "not_found"
    gone = ResumePoint(number=number, n=7, path=path)
    assert "not there any more" in world.refused(world.submission(resume_from=gone)).message
    archived = ResumePoint(number=12345, n=7, path=path)
    world.submit(resume_from=archived)
    assert world.refused(world.submission(resume_from=point, tasks=((0, 1, 1),))).code == "invalid"
    assert world.refused(world.submission(resume_from=ResumePoint(number=12345, n=1, path=""))).code == "invalid"


def test_a_repeated_submission_is_recognised_whatever_the_newest_checkpoint_is_by_then() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    complete(world, number)
    first = ResumePoint(number=number, n=1, path=world[number].checkpoints.resume_path)
    made = world.do(world.submission(resume_from=first), command_id="ada/1")
    complete(world, number)
    second = ResumePoint(number=number, n=2, path=world[number].checkpoints.resume_path)
    again = world.do(world.submission(resume_from=second), command_id="ada/1")
    assert (again.number, again.repeated) == (made.number, True)  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [0, 9, 19, 65])
def test_a_signal_that_nothing_can_catch_is_refused(number: int) -> None:
    world = world_with_root()
    assert world.refused(world.submission(checkpoint=CheckpointWay(signal=number))).code == "invalid"


def test_a_project_whose_name_is_no_directory_is_refused() -> None:
    world = world_with_root()
    for project in ("../../etc", "a/b", "-"):
        assert world.refused(world.submission(checkpoint=WAY, project=project)).code == "invalid"
    world.submit(checkpoint=CheckpointWay(protocol=CheckpointProtocol.SHMEM), project="climate")


@pytest.mark.parametrize("value", ["relative", "/", "/a/../b", "/a/./b", "/" + "x" * 600, "/a\nb"])
def test_a_root_that_is_no_plain_directory_is_refused(value: str) -> None:
    assert World().refused(cmd.SetSetting(key="checkpoint.root", value=value)).code == "invalid"


def test_a_cluster_of_an_older_level_knows_no_checkpoints() -> None:
    world = World(level=OLDEST)
    for command in (
        cmd.SetSetting(key="checkpoint.root", value="/ck"),
        world.submission(checkpoint=WAY),
        cmd.RequestCheckpoint(number=1),
        cmd.ReportCheckpoint(number=1, run=1, n=1, node="n1", phase=P.DONE),
        cmd.ExpireCheckpoint(number=1, n=1, message="x"),
    ):
        assert "level 2" in world.refused(command).message


def test_a_copy_in_the_object_store_is_noted_once_and_only_of_what_is_kept() -> None:
    world = world_with_root()
    number = world.running("n1", checkpoint=WAY)
    complete(world, number)
    first = world[number].checkpoints.kept[0]
    assert (first.sealed_by, first.is_stored) == ("n1", False)
    assert world.must(cmd.NoteCheckpointStored(number=number, n=1)) == (ev.CheckpointStored(number=number, n=1),)
    assert world.must(cmd.NoteCheckpointStored(number=number, n=1)) == ()
    complete(world, number)
    assert [each.is_stored for each in world[number].checkpoints.kept] == [True, False]
    for n in (3, 0):
        refused = world.refused(cmd.NoteCheckpointStored(number=number, n=n))
        assert refused.code == "stale"
    assert world.refused(cmd.NoteCheckpointStored(number=99, n=1)).code == "stale"
