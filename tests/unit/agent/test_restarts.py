"""When a node starts an instance of a service again, and what it tells of it."""

import pytest
from msgspec.structs import replace

from lattice.agent.machine.decide import step
from lattice.agent.machine.restarts import HEALTHY_S, MAX_FAILURES, again, given_up
from lattice.agent.machine.state import (
    Acknowledged,
    AgentState,
    ClearRun,
    Disconnected,
    End,
    ForgetRun,
    LaunchRun,
    LeaveInstance,
    OutputSettled,
    ProbeFailed,
    RunCleared,
    RunEnded,
    RunRefused,
    RunStarted,
    SendReport,
    SettleOutput,
    StopRun,
    WatchInstance,
)
from lattice.core.model.work.allocations import MAX_ATTEMPT
from lattice.core.model.work.usage import Usage
from lattice.ports.nodes.agents import EndCause, Phase, RunKey, StartOrder, StopOrder
from tests.unit.agent.test_step import KEY, ready_state, reports, shim_ready, tick, welcome

SERVICE = StartOrder(key=KEY, argv=("serve",), restart="always", grace_s=3.0)
FAILED = End(cause=EndCause.EXIT, exit_code=1, cpu_s=1.0, elapsed_s=2.0)
GOOD = End(cause=EndCause.EXIT, elapsed_s=2.0)


def serving(order: StartOrder = SERVICE) -> AgentState:
    state = ready_state()
    step(state, order)
    step(state, RunStarted(key=KEY, started_boot_s=5.0))
    return state


def ended(state: AgentState, end: End = FAILED) -> list[object]:
    """The attempt ends, and what is left of it is cleared."""
    return [*step(state, RunEnded(key=KEY, end=end)), *step(state, RunCleared(key=KEY))]


def test_delays_double_up_to_a_minute_and_begin_anew_after_long_health() -> None:
    order, delays = SERVICE, []
    for _ in range(9):
        following = again(order, GOOD)
        assert following is not None
        order = following.order
        delays.append(following.delay_s)
    assert delays == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    following = again(order, replace(GOOD, elapsed_s=HEALTHY_S))
    assert following is not None
    assert (following.delay_s, following.order.streak, following.order.attempt) == (0, 1, 11)


def test_five_failures_in_a_row_are_too_many_and_a_good_end_or_long_health_interrupts_them() -> None:
    order = SERVICE
    for _ in range(MAX_FAILURES - 1):
        following = again(order, FAILED)
        assert following is not None
        order = following.order
    assert again(order, FAILED) is None
    assert given_up(order, FAILED).message == "it failed 5 times in a row: exit code 1"
    assert given_up(order, replace(FAILED, message="no such file")).message.endswith("no such file")
    assert given_up(order, End(cause=EndCause.SIGNAL, signal=9)).message.endswith("signal 9")
    good = again(order, GOOD)
    assert good is not None
    assert good.order.failures == 0
    healthy = again(order, replace(FAILED, elapsed_s=HEALTHY_S))
    assert healthy is not None
    assert healthy.order.failures == 1


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"restart": "never"}, FAILED),
        ({"restart": ""}, FAILED),
        ({"restart": "on_failure"}, GOOD),
        ({"attempt": MAX_ATTEMPT}, GOOD),
        *(({}, End(cause=cause)) for cause in (EndCause.STOPPED, EndCause.WALLTIME, EndCause.NODE, EndCause.PROLOGUE)),
    ],
)
def test_what_is_over_is_not_started_again(changes: dict[str, object], end: End) -> None:
    order = replace(SERVICE, **changes)
    assert again(order, end) is None
    assert given_up(order, end) == end


def test_on_failure_restarts_what_failed_and_the_walltime_counts_from_the_first_attempt() -> None:
    following = again(replace(SERVICE, restart="on_failure", walltime_s=60.0), FAILED)
    assert following is not None
    assert following.order.walltime_s == 58.0
    late = again(replace(SERVICE, walltime_s=1.5), FAILED)
    assert late is not None
    assert late.order.walltime_s == 1.0


def test_an_attempt_that_ends_is_reported_and_followed_by_the_next() -> None:
    state = serving()
    instructions = step(state, RunEnded(key=KEY, end=FAILED))
    assert instructions[:2] == [LeaveInstance(key=KEY), ClearRun(key=KEY, has_started=True)]
    (told,) = reports(instructions)
    assert (told.phase, told.seq, told.cause, told.exit_code, told.cpu_s) == (
        Phase.RESTARTING,
        2,
        EndCause.EXIT,
        1,
        1.0,
    )
    (launch,) = step(state, RunCleared(key=KEY))
    assert isinstance(launch, LaunchRun)
    assert (launch.order.attempt, launch.order.failures, launch.order.streak) == (2, 1, 1)
    assert step(state, RunCleared(key=KEY)) == [], "repeated"
    started = step(state, RunStarted(key=KEY, started_boot_s=9.0))
    assert isinstance(started[1], WatchInstance)
    (told,) = reports(started)
    assert (told.phase, told.seq, told.cause) == (Phase.RUNNING, 3, EndCause.EXIT)


def test_the_next_attempt_waits_for_its_time() -> None:
    state = serving()
    ended(state)
    step(state, RunStarted(key=KEY, started_boot_s=9.0))
    step(state, tick(100.0))
    assert not any(isinstance(each, LaunchRun) for each in ended(state))
    assert not any(isinstance(each, LaunchRun) for each in step(state, tick(100.5)))
    assert any(isinstance(each, LaunchRun) for each in step(state, tick(101.0)))


def test_a_report_of_the_end_before_is_repeated_until_it_is_known() -> None:
    state = serving()
    step(state, RunEnded(key=KEY, end=FAILED))
    assert [each.phase for each in reports(step(state, welcome(KEY)))] == [Phase.RESTARTING]
    step(state, Acknowledged(key=KEY, seq=2))
    assert reports(step(state, welcome(KEY))) == []


def test_what_attempts_used_that_no_server_knows_of_is_added_up() -> None:
    state = serving()
    step(state, Acknowledged(key=KEY, seq=1))
    step(state, Disconnected())
    use = replace(FAILED, usage=Usage(read_bytes=3))
    for _ in range(2):
        ended(state, use)
        step(state, tick(1000.0))
        step(state, RunStarted(key=KEY, started_boot_s=9.0))
    (told,) = reports(step(state, welcome(KEY)))
    assert (told.seq, told.cpu_s, told.usage.read_bytes) == (5, 2.0, 6)
    step(state, Acknowledged(key=KEY, seq=5))
    (told,) = reports(step(state, RunEnded(key=KEY, end=use)))
    assert (told.seq, told.cpu_s) == (6, 1.0)


def test_a_stop_between_two_attempts_ends_the_instance_and_settles_its_output() -> None:
    state = serving()
    step(state, RunEnded(key=KEY, end=FAILED))
    instructions = step(state, StopOrder(key=KEY, grace_s=5.0, why="cancelled"))
    assert SettleOutput(key=KEY) in instructions
    (told,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=1)))
    assert (told.phase, told.seq, told.cause, told.message) == (Phase.ENDED, 4, EndCause.STOPPED, "stopped: cancelled")
    assert step(state, RunCleared(key=KEY)) == []
    assert step(state, Acknowledged(key=KEY, seq=4)) == [ForgetRun(key=KEY, launched=True)]


def test_a_stop_while_it_runs_is_final_however_it_then_ends() -> None:
    state = serving()
    step(state, StopOrder(key=KEY, grace_s=5.0, why="cancelled"))
    assert SettleOutput(key=KEY) in step(state, RunEnded(key=KEY, end=FAILED))


def test_a_launch_that_is_refused_counts_as_a_failure() -> None:
    state = serving()
    ended(state)
    instructions = step(state, RunRefused(key=KEY, message="no such directory"))
    (told,) = reports(instructions)
    assert (told.phase, told.seq, told.cause, told.message) == (
        Phase.RESTARTING,
        4,
        EndCause.LAUNCH,
        "no such directory",
    )


def test_a_failed_probe_ends_the_attempt_with_its_own_cause() -> None:
    state = serving()
    failed = ProbeFailed(key=KEY, attempt=1, message="liveness probe failed 3 times in a row: no answer")
    assert step(state, failed) == [StopRun(key=KEY, grace_s=3.0, why=f"probe: {failed.message}")]
    (told,) = reports(step(state, RunEnded(key=KEY, end=End(cause=EndCause.STOPPED, signal=15))))
    assert (told.phase, told.cause, told.message) == (Phase.RESTARTING, EndCause.PROBE, failed.message)
    assert step(state, failed) == [], "of the attempt before"
    assert step(state, ProbeFailed(key=RunKey(9, 9), attempt=1, message="x")) == []


def test_another_instance_begins_where_an_earlier_one_ended() -> None:
    state = serving(replace(SERVICE, restart="never"))
    following = replace(SERVICE, instance=3)
    assert step(state, following) == [StopRun(key=KEY, grace_s=0.0, why="superseded")]
    step(state, RunEnded(key=KEY, end=End(cause=EndCause.STOPPED)))
    assert step(state, following) == [], "its output is on its way; the server asks again"
    step(state, OutputSettled(key=KEY, stored_bytes=7))
    assert step(state, following) == [ClearRun(key=KEY, has_started=False)]
    (launch,) = step(state, RunCleared(key=KEY))
    assert isinstance(launch, LaunchRun)
    (told,) = reports(step(state, RunStarted(key=KEY, started_boot_s=9.0)))
    assert (told.seq, told.instance) == (1, 3)
    assert step(state, Acknowledged(key=KEY, seq=1, instance=0)) == []
    assert state.runs[KEY].acknowledged_seq == 0, "that was of the instance before"


def test_another_instance_begins_after_one_that_is_only_kept() -> None:
    state = serving(replace(SERVICE, restart="never"))
    step(state, RunEnded(key=KEY, end=FAILED))
    step(state, OutputSettled(key=KEY, stored_bytes=7))
    step(state, Acknowledged(key=KEY, seq=2))
    assert state.kept_bytes == 7
    assert step(state, replace(SERVICE, instance=1)) == [ClearRun(key=KEY, has_started=False)]
    assert (state.kept, state.kept_bytes) == ({}, 0)


def test_a_stop_of_an_instance_that_never_came_is_answered_for_that_instance() -> None:
    state = serving()
    (told,) = reports(step(state, StopOrder(key=KEY, grace_s=1.0, why="moved", instance=4)))
    assert (told.phase, told.cause, told.instance, told.seq) == (Phase.ENDED, EndCause.STOPPED, 4, 2)
    other = RunKey(8, 1)
    (told,) = reports(step(state, StopOrder(key=other, grace_s=1.0, why="moved", instance=4)))
    assert told.instance == 4
    assert [each for each in step(state, replace(SERVICE, key=other, instance=5)) if isinstance(each, LaunchRun)]


def test_a_shim_that_still_knows_the_attempt_before_does_not_end_the_next() -> None:
    state = serving()
    step(state, RunEnded(key=KEY, end=FAILED))
    assert not any(isinstance(each, SendReport) for each in step(state, shim_ready(ended={KEY: FAILED})))
    assert state.runs[KEY].attempt == 2
