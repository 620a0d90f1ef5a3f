"""The agent's decisions, one stimulus at a time."""

from typing import NoReturn

from msgspec.structs import replace

from lattice.agent.machine import reports as reports_made
from lattice.agent.machine.decide import step
from lattice.agent.machine.state import (
    AbandonOutput,
    Acknowledged,
    AgentState,
    Connected,
    Disconnected,
    End,
    ForgetRun,
    Instruction,
    LaunchRun,
    OutputSettled,
    PurgeRun,
    RemoveRun,
    RenewToken,
    Retention,
    Run,
    RunEnded,
    RunRefused,
    RunStarted,
    SendConfirmed,
    SendRegister,
    SendReport,
    SettleOutput,
    ShimLost,
    ShimReady,
    StartShim,
    StopRun,
    Tick,
    UpdateRun,
    Welcomed,
)
from lattice.ports.nodes.agents import (
    EndCause,
    Greeting,
    KnownRun,
    Phase,
    Report,
    RunKey,
    StartOrder,
    StopOrder,
    UpdateOrder,
)

KEY = RunKey(7, 1)
NEXT = RunKey(7, 2)
EXITED = End(cause=EndCause.EXIT, exit_code=3)


def welcome(*valid: RunKey, session: int = 1) -> Welcomed:
    return Welcomed(
        greeting=Greeting(
            valid_runs=tuple(frozenset(valid)), session=session, heartbeat_interval_s=10.0, down_after_s=90.0
        )
    )


def shim_ready(*alive: RunKey, ended: dict[RunKey, End] | None = None) -> ShimReady:
    return ShimReady(alive=dict.fromkeys(alive, 5.0), ended=ended or {}, lost_message="the shim died")


def order(key: RunKey = KEY, *, fence: bool = False, walltime_s: float = 60.0, token: str = "") -> StartOrder:
    return StartOrder(key=key, argv=("true",), fence=fence, walltime_s=walltime_s, token=token)


def ready_state() -> AgentState:
    state = AgentState()
    step(state, shim_ready())
    step(state, Connected())
    step(state, welcome())
    return state


def running_state(key: RunKey = KEY, *, fence: bool = False) -> AgentState:
    state = ready_state()
    step(state, order(key, fence=fence))
    step(state, RunStarted(key=key, started_boot_s=5.0))
    return state


def ended_state() -> AgentState:
    state = running_state()
    step(state, RunEnded(key=KEY, end=EXITED))
    step(state, OutputSettled(key=KEY, stored_bytes=100))
    return state


def tick(now_s: float, *, heard_s: float | None = None) -> Tick:
    return Tick(now_s=now_s, heard_s=now_s if heard_s is None else heard_s, wall_s=now_s)


def ended_report(end: End, key: RunKey = KEY) -> SendReport:
    return SendReport(report=reports_made.ended_report(key, end))


def reports(instructions: list[Instruction]) -> list[Report]:
    return [i.report for i in instructions if isinstance(i, SendReport)]


def test_a_start_is_launched_and_reported_once_it_runs() -> None:
    state = ready_state()
    assert step(state, order()) == [LaunchRun(order=order())]
    assert step(state, RunStarted(key=KEY, started_boot_s=5.0)) == [
        SendReport(report=Report(key=KEY, phase=Phase.RUNNING, seq=1), started_boot_s=5.0)
    ]


def test_the_end_is_reported_only_after_the_output_is_settled() -> None:
    state = running_state()
    assert step(state, RunEnded(key=KEY, end=EXITED)) == [SettleOutput(key=KEY)]
    assert step(state, OutputSettled(key=KEY, stored_bytes=1)) == [ended_report(EXITED)]


def test_a_start_that_no_server_heard_of_is_told_while_results_are_still_being_saved() -> None:
    """A server that knows nothing of it takes the run back, and starts it again elsewhere."""
    state = running_state()
    step(state, Disconnected())
    step(state, RunEnded(key=KEY, end=EXITED))
    step(state, Connected())
    (told,) = reports(step(state, welcome(KEY)))
    assert (told.phase, told.seq) == (Phase.RUNNING, 1)
    assert reports(step(state, order())) == [told]
    step(state, Acknowledged(key=KEY, seq=1))
    assert reports(step(state, order())) == []
    assert reports(step(state, tick(1000.0))) == []
    (end,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0)))
    assert (end.phase, end.seq) == (Phase.ENDED, 2)


def test_no_start_is_told_of_a_run_that_never_had_a_process() -> None:
    state = ready_state()
    step(state, order())
    step(state, RunRefused(key=KEY, message="no account"))
    assert reports(step(state, tick(1000.0))) == []
    assert reports(step(state, order())) == []


def test_output_that_could_not_be_stored_is_told_with_the_end() -> None:
    state = running_state()
    step(state, RunEnded(key=KEY, end=EXITED))
    (report,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0, problem="disk full")))
    assert report == reports_made.ended_report(KEY, End(cause=EndCause.EXIT, exit_code=3, message="disk full"))


def test_a_repeated_start_is_answered_with_the_present_phase() -> None:
    state = running_state()
    (report,) = reports(step(state, order()))
    assert report.phase is Phase.RUNNING


def test_a_repeated_start_after_the_acknowledged_end_is_answered_with_that_end() -> None:
    state = ended_state()
    step(state, Acknowledged(key=KEY, seq=2))
    assert step(state, order()) == [ended_report(EXITED)]


def test_a_lower_run_is_refused() -> None:
    state = running_state(NEXT)
    (report,) = reports(step(state, order(KEY)))
    assert report.phase is Phase.ENDED
    assert report.cause is EndCause.LAUNCH
    assert "run 2 is known" in report.message


def test_a_newer_run_waits_until_the_older_one_is_gone() -> None:
    state = running_state()
    assert step(state, order(NEXT)) == [StopRun(key=KEY, grace_s=0.0, why="superseded")]
    assert LaunchRun(order=order(NEXT)) in step(state, RunEnded(key=KEY, end=EXITED))


def test_a_stop_reaches_the_run_and_may_be_hurried() -> None:
    state = running_state()
    assert step(state, StopOrder(key=KEY, grace_s=30.0, why="cancelled")) == [
        StopRun(key=KEY, grace_s=30.0, why="cancelled")
    ]
    assert step(state, StopOrder(key=KEY, grace_s=0.0, why="cancelled")) == [
        StopRun(key=KEY, grace_s=0.0, why="cancelled")
    ]


def test_a_stop_during_the_launch_is_told_at_once_and_again_when_the_run_started() -> None:
    state = ready_state()
    step(state, order())
    assert step(state, StopOrder(key=KEY, grace_s=2.0, why="cancelled")) == [
        StopRun(key=KEY, grace_s=2.0, why="cancelled")
    ]
    instructions = step(state, RunStarted(key=KEY, started_boot_s=5.0))
    assert instructions[-1] == StopRun(key=KEY, grace_s=2.0, why="cancelled")


def test_a_stop_for_an_unknown_run_leaves_a_tombstone() -> None:
    state = ready_state()
    (report,) = reports(step(state, StopOrder(key=KEY, grace_s=0.0, why="cancelled")))
    assert report.cause is EndCause.STOPPED
    assert step(state, order()) == [SendReport(report=report)]


def test_a_stop_for_a_run_that_still_waits_ends_it_without_a_launch() -> None:
    state = running_state()
    step(state, order(NEXT))
    (report,) = reports(step(state, StopOrder(key=NEXT, grace_s=0.0, why="cancelled")))
    assert report.key == NEXT
    instructions = step(state, RunEnded(key=KEY, end=EXITED))
    assert not [i for i in instructions if isinstance(i, LaunchRun)]


def test_a_refused_launch_is_reported_with_its_reason() -> None:
    state = ready_state()
    step(state, order())
    assert step(state, RunRefused(key=KEY, message="no such account")) == [SettleOutput(key=KEY)]
    (report,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0)))
    assert report == reports_made.ended_report(
        KEY, End(cause=EndCause.LAUNCH, message="no such account", never_ran=True)
    )


def test_a_node_that_cannot_write_takes_the_blame_for_a_run_that_never_ran() -> None:
    state = ready_state()
    step(state, order())
    step(state, RunRefused(key=KEY, message="no room", cause=EndCause.NODE))
    (report,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0)))
    assert report == reports_made.ended_report(KEY, End(cause=EndCause.NODE, message="no room", never_ran=True))


def test_an_update_reaches_the_run_at_once_or_after_its_launch() -> None:
    state = ready_state()
    step(state, order())
    assert step(state, UpdateOrder(key=KEY, walltime_s=90.0)) == []
    assert UpdateRun(key=KEY, walltime_s=90.0) in step(state, RunStarted(key=KEY, started_boot_s=1.0))
    assert step(state, UpdateOrder(key=KEY, walltime_s=99.0)) == [UpdateRun(key=KEY, walltime_s=99.0)]


def test_an_update_of_a_waiting_run_changes_its_order() -> None:
    state = running_state()
    step(state, order(NEXT))
    step(state, UpdateOrder(key=NEXT, walltime_s=99.0))
    launches = step(state, RunEnded(key=KEY, end=EXITED))
    assert LaunchRun(order=order(NEXT, walltime_s=99.0)) in launches


def test_a_new_token_reaches_the_run_at_once_or_after_its_launch() -> None:
    state = ready_state()
    step(state, order())
    assert step(state, UpdateOrder(key=KEY, walltime_s=0.0, token="second")) == []
    assert RenewToken(key=KEY, token="second") in step(state, RunStarted(key=KEY, started_boot_s=1.0))
    third = RenewToken(key=KEY, token="third")
    assert third in step(state, UpdateOrder(key=KEY, walltime_s=0.0, token="third"))
    step(state, ShimLost())
    found = step(state, ShimReady(alive={KEY: 1.0}, ended={}, lost_message=""))
    assert not [i for i in found if isinstance(i, RenewToken)], "a token is passed on once"


def test_a_waiting_run_starts_with_its_newest_token() -> None:
    state = running_state()
    step(state, order(NEXT, token="first"))
    step(state, UpdateOrder(key=NEXT, walltime_s=9.0))
    step(state, UpdateOrder(key=NEXT, walltime_s=9.0, token="second"))
    launches = step(state, RunEnded(key=KEY, end=EXITED))
    assert LaunchRun(order=order(NEXT, walltime_s=9.0, token="second")) in launches


def test_registration_names_every_run_whose_end_was_not_acknowledged() -> None:
    state = ended_state()
    step(state, order(RunKey(8, 1)))
    step(state, Disconnected())
    assert step(state, Connected()) == [
        SendRegister(runs=(KnownRun(key=KEY, phase=Phase.ENDED), KnownRun(key=RunKey(8, 1), phase=Phase.STARTING)))
    ]


def test_nothing_is_reported_before_the_welcome_and_everything_after_it() -> None:
    state = running_state()
    step(state, Disconnected())
    step(state, RunEnded(key=KEY, end=EXITED))
    assert step(state, OutputSettled(key=KEY, stored_bytes=0)) == []
    step(state, Connected())
    assert step(state, welcome(KEY, session=9)) == [
        ended_report(EXITED),
        SendConfirmed(session=9),
    ]


def test_a_stale_run_is_gone_before_confirmed_is_sent() -> None:
    state = running_state()
    step(state, Disconnected())
    step(state, Connected())
    assert step(state, welcome(session=9)) == [AbandonOutput(key=KEY), StopRun(key=KEY, grace_s=0.0, why="stale")]
    assert SendConfirmed(session=9) in step(state, RunEnded(key=KEY, end=EXITED))


def test_confirmed_waits_for_the_shim() -> None:
    state = AgentState()
    step(state, Connected())
    assert step(state, welcome(session=9)) == []
    assert step(state, shim_ready()) == [SendConfirmed(session=9)]


def test_an_unacknowledged_end_is_repeated_and_an_acknowledged_one_is_not() -> None:
    state = ended_state()
    assert step(state, tick(100.0)) == [ended_report(EXITED)]
    assert step(state, tick(101.0)) == []
    assert step(state, tick(106.0)) == [ended_report(EXITED)]
    assert step(state, Acknowledged(key=KEY, seq=2)) == [ForgetRun(key=KEY, launched=True)]
    assert step(state, tick(200.0)) == []


def test_an_acknowledged_running_report_is_not_repeated() -> None:
    state = running_state()
    step(state, Acknowledged(key=KEY, seq=1))
    assert step(state, tick(100.0)) == []


def test_the_death_of_the_shim_ends_its_runs_with_cause_node() -> None:
    state = running_state()
    assert step(state, ShimLost()) == [StartShim()]
    assert step(state, shim_ready()) == [SettleOutput(key=KEY)]
    (report,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0)))
    assert report == reports_made.ended_report(KEY, End(cause=EndCause.NODE, message="the shim died"))


def test_a_run_that_ended_just_before_the_shim_died_keeps_its_own_end() -> None:
    state = running_state()
    step(state, ShimLost())
    step(state, shim_ready(ended={KEY: EXITED}))
    (report,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=0)))
    assert report == reports_made.ended_report(KEY, EXITED)


def test_a_start_without_a_shim_waits_for_the_new_one() -> None:
    state = ready_state()
    step(state, ShimLost())
    assert step(state, order()) == []
    assert LaunchRun(order=order()) in step(state, shim_ready())


def test_a_stop_that_the_lost_shim_did_not_hear_is_passed_on() -> None:
    state = running_state()
    step(state, ShimLost())
    step(state, StopOrder(key=KEY, grace_s=1.0, why="cancelled"))
    assert step(state, shim_ready(KEY)) == [StopRun(key=KEY, grace_s=1.0, why="cancelled")]


def test_a_process_without_a_record_is_adopted_and_judged_by_the_welcome() -> None:
    state = AgentState()
    step(state, shim_ready(KEY))
    assert step(state, Connected()) == [SendRegister(runs=(KnownRun(key=KEY, phase=Phase.RUNNING),))]
    assert step(state, welcome(NEXT)) == [AbandonOutput(key=KEY), StopRun(key=KEY, grace_s=0.0, why="stale")]


def test_an_end_that_only_the_shim_remembers_is_forgotten_there() -> None:
    state = AgentState()
    assert step(state, shim_ready(ended={KEY: EXITED})) == [ForgetRun(key=KEY, launched=True)]


def test_a_fenced_run_is_stopped_before_the_server_gives_the_node_up() -> None:
    state = running_state(fence=True)
    step(state, Acknowledged(key=KEY, seq=1))
    step(state, Disconnected())
    assert step(state, tick(169.0, heard_s=100.0)) == []
    assert step(state, tick(171.0, heard_s=100.0)) == [StopRun(key=KEY, grace_s=0.0, why="fenced")]
    assert step(state, tick(172.0, heard_s=100.0)) == []


def test_a_node_that_beats_only_when_asked_ends_its_fenced_runs_with_half_the_time_left() -> None:
    state = running_state(fence=True)
    state.heartbeat_interval_s = 0.0
    step(state, Acknowledged(key=KEY, seq=1))
    step(state, Disconnected())
    assert step(state, tick(144.0, heard_s=100.0)) == []
    assert step(state, tick(146.0, heard_s=100.0)) == [StopRun(key=KEY, grace_s=0.0, why="fenced")]


def test_a_run_without_a_fence_survives_any_silence() -> None:
    state = running_state()
    step(state, Disconnected())
    assert step(state, tick(1e6, heard_s=100.0)) == []


def kept_state(retention: Retention) -> AgentState:
    state = ended_state()
    state.retention = retention
    step(state, tick(1000.0))
    step(state, Acknowledged(key=KEY, seq=2))
    return state


def test_a_run_folder_is_removed_when_the_retention_passed() -> None:
    state = kept_state(Retention(keep_s=50.0))
    assert step(state, tick(1049.0)) == []
    assert step(state, tick(1051.0)) == [RemoveRun(key=KEY)]
    assert state.kept_bytes == 0


def test_run_folders_above_the_byte_limit_are_removed_early() -> None:
    state = kept_state(Retention(max_bytes=99))
    assert step(state, tick(1001.0)) == [RemoveRun(key=KEY)]


def test_run_folders_above_the_count_limit_are_removed_early() -> None:
    state = kept_state(Retention(max_runs=0))
    assert step(state, tick(1001.0)) == [RemoveRun(key=KEY)]


def test_a_number_that_means_another_submission_takes_over_nothing_of_the_old_one() -> None:
    state = ready_state()
    step(state, replace(order(), submission="7@100"))
    step(state, RunStarted(key=KEY, started_boot_s=1.0))
    step(state, RunEnded(key=KEY, end=EXITED))
    (told,) = reports(step(state, OutputSettled(key=KEY, stored_bytes=5)))
    assert told.submission == "7@100"
    step(state, Acknowledged(key=KEY, seq=told.seq))
    instructions = step(state, replace(order(), submission="7@900"))
    assert PurgeRun(key=KEY, launched=True) in instructions
    assert [each.order.submission for each in instructions if isinstance(each, LaunchRun)] == ["7@900"]
    assert state.kept_bytes == 0
    # The same start again is answered, not carried out again.
    assert step(state, replace(order(), submission="7@900")) == []


def test_a_run_that_is_kept_longer_than_the_one_after_it_is_found_by_its_number() -> None:
    state, after = ready_state(), RunKey(KEY.number, KEY.run + 1)
    for key in (KEY, after):
        step(state, replace(order(key), submission="7@100"))
        step(state, RunStarted(key=key, started_boot_s=1.0))
        step(state, RunEnded(key=key, end=EXITED))
        step(state, OutputSettled(key=key, stored_bytes=5))
    for key in (after, KEY):
        step(state, Acknowledged(key=key, seq=2))
    state.retention = Retention(max_runs=1)
    assert step(state, tick(1.0)) == [RemoveRun(key=after)]
    assert PurgeRun(key=KEY, launched=True) in step(state, replace(order(after), submission="7@900"))
    assert state.highest == {KEY.number: after.run}


def test_a_start_of_a_number_that_is_new_here_looks_through_no_kept_runs() -> None:
    class Unread(dict[RunKey, Run]):
        def values(self) -> NoReturn:
            raise AssertionError

    state = kept_state(Retention())
    state.kept = Unread(state.kept)
    new = replace(order(RunKey(KEY.number + 1, 1)), submission="8@100")
    assert [type(each) for each in step(state, new)] == [LaunchRun]


def test_a_living_run_of_another_submission_ends_before_the_new_one_starts() -> None:
    state = ready_state()
    step(state, replace(order(), submission="7@100"))
    step(state, RunStarted(key=KEY, started_boot_s=1.0))
    new = replace(order(), submission="7@900")
    assert [type(each) for each in step(state, new)] == [StopRun]
    step(state, RunEnded(key=KEY, end=EXITED))
    step(state, OutputSettled(key=KEY, stored_bytes=5))
    assert [type(each) for each in step(state, new)] == [PurgeRun, LaunchRun]


def test_a_stop_for_another_submission_is_not_answered_with_the_old_end() -> None:
    state = ready_state()
    step(state, replace(order(), submission="7@100"))
    step(state, RunStarted(key=KEY, started_boot_s=1.0))
    step(state, RunEnded(key=KEY, end=EXITED))
    step(state, OutputSettled(key=KEY, stored_bytes=5))
    (told,) = reports(step(state, StopOrder(key=KEY, grace_s=0.0, why="cancelled", submission="7@900")))
    assert told.cause is EndCause.STOPPED
    assert told.submission == "7@900"


def test_results_are_given_up_only_when_that_is_asked_for_while_they_are_copied() -> None:
    state = ready_state()
    step(state, order())
    step(state, RunStarted(key=KEY, started_boot_s=5.0))
    step(state, Acknowledged(key=KEY, seq=1))
    step(state, RunEnded(key=KEY, end=EXITED))
    assert state.unfinished == 1
    assert step(state, StopOrder(key=KEY, grace_s=5.0, why="cancelled")) == []
    again = StopOrder(key=KEY, grace_s=5.0, why="cancelled", abandon=True)
    assert step(state, again) == [AbandonOutput(key=KEY)]
    step(state, OutputSettled(key=KEY, stored_bytes=0))
    assert state.unfinished == 0


def test_results_of_a_run_that_still_lives_are_given_up_with_its_end() -> None:
    state = ready_state()
    step(state, order())
    step(state, RunStarted(key=KEY, started_boot_s=5.0))
    done = step(state, StopOrder(key=KEY, grace_s=5.0, why="cancelled", abandon=True))
    assert done == [AbandonOutput(key=KEY), StopRun(key=KEY, grace_s=5.0, why="cancelled")]


def test_results_of_a_run_that_was_given_up_are_not_copied_over_those_of_its_successor() -> None:
    state = ready_state()
    step(state, order())
    step(state, RunStarted(key=KEY, started_boot_s=5.0))
    step(state, RunEnded(key=KEY, end=EXITED))
    step(state, Disconnected())
    step(state, Connected())
    assert AbandonOutput(key=KEY) not in step(state, welcome(KEY, session=2))
    step(state, Disconnected())
    step(state, Connected())
    assert AbandonOutput(key=KEY) in step(state, welcome(session=3))
