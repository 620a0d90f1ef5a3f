"""What an agent keeps of a former history of its cluster, and what it tells of it."""

from lattice.agent.machine.decide import step
from lattice.agent.machine.epochs import History, judge_epoch
from lattice.agent.machine.state import (
    Acknowledged,
    AgentState,
    Connected,
    Disconnected,
    End,
    EpochBegun,
    Instruction,
    LaunchRun,
    OutputSettled,
    PurgeRun,
    RunEnded,
    RunStarted,
    SendConfirmed,
    SendRegister,
    SendReport,
    ShimReady,
    StopRun,
    Welcomed,
)
from lattice.ports.nodes.agents import EndCause, Greeting, RunKey, StartOrder, StopOrder

OLD, NEW = 10, 20
EXIT = End(cause=EndCause.EXIT)


def welcome(state: AgentState, *valid: RunKey, epoch: int) -> list[Instruction]:
    greeting = Welcomed(
        greeting=Greeting(
            valid_runs=tuple(frozenset(valid)), session=1, heartbeat_interval_s=10, down_after_s=90, epoch=epoch
        )
    )
    return step(state, greeting)


def running(state: AgentState, key: RunKey) -> None:
    step(state, StartOrder(key=key))
    step(state, RunStarted(key=key, started_boot_s=1.0))
    step(state, Acknowledged(key=key, seq=1))


def ended(state: AgentState, key: RunKey) -> None:
    step(state, RunEnded(key=key, end=EXIT))
    step(state, OutputSettled(key=key, stored_bytes=0))
    step(state, Acknowledged(key=key, seq=2))


def served() -> AgentState:
    """An agent of the former history: run 1 goes on, run 2 ended and was acknowledged, run 3 goes on, 4 is a tombstone."""
    state = AgentState()
    step(state, ShimReady(alive={}, ended={}, lost_message=""))
    welcome(state, epoch=OLD)
    running(state, RunKey(1, 1))
    running(state, RunKey(2, 1))
    ended(state, RunKey(2, 1))
    running(state, RunKey(3, 1))
    step(state, StopOrder(key=RunKey(4, 1), grace_s=0, why="cancelled"))
    return state


def restored(state: AgentState) -> list[Instruction]:
    """The cluster was restored: the agent leaves and registers again."""
    step(state, EpochBegun(epoch=NEW))
    step(state, Disconnected())
    return step(state, Connected())


def test_servers_are_judged_by_the_history_they_speak_for() -> None:
    state = AgentState()
    assert judge_epoch(state, OLD) is History.SAME
    welcome(state, epoch=OLD)
    assert judge_epoch(state, OLD) is History.SAME
    assert judge_epoch(state, NEW) is History.LATER
    assert judge_epoch(state, OLD - 1) is History.FORMER
    assert judge_epoch(state, 0) is History.SAME


def test_after_a_restore_everything_known_is_registered_and_what_is_named_is_told_again() -> None:
    state = served()
    (register,) = restored(state)
    assert isinstance(register, SendRegister)
    assert [run.key for run in register.runs] == [RunKey(1, 1), RunKey(3, 1), RunKey(4, 1), RunKey(2, 1)]
    told = welcome(state, RunKey(1, 1), RunKey(2, 1), epoch=NEW)
    reports = {(each.report.key.number, each.report.seq) for each in told if isinstance(each, SendReport)}
    assert reports == {(1, 1), (2, 2)}
    assert [told.key for told in told if isinstance(told, PurgeRun)] == [RunKey(4, 1)]
    assert [told.key for told in told if isinstance(told, StopRun)] == [RunKey(3, 1)]
    assert not any(isinstance(each, SendConfirmed) for each in told)


def test_a_run_that_is_not_named_leaves_no_trace_before_the_node_confirms() -> None:
    state = served()
    restored(state)
    welcome(state, RunKey(1, 1), epoch=NEW)
    assert step(state, RunEnded(key=RunKey(3, 1), end=EXIT)) == [
        PurgeRun(key=RunKey(3, 1), launched=True),
        SendConfirmed(session=1),
    ]
    assert state.find(RunKey(3, 1)) is None
    (launch,) = step(state, StartOrder(key=RunKey(3, 1)))
    assert isinstance(launch, LaunchRun)
    assert launch.order.epoch == NEW


def test_a_lower_run_of_the_same_allocation_is_taken_after_the_higher_one_was_purged() -> None:
    state = served()
    running(state, RunKey(5, 2))
    ended(state, RunKey(5, 2))
    restored(state)
    welcome(state, RunKey(1, 1), RunKey(3, 1), epoch=NEW)
    (launch,) = step(state, StartOrder(key=RunKey(5, 1)))
    assert isinstance(launch, LaunchRun)


def test_the_higher_of_two_runs_goes_and_the_lower_one_counts_again() -> None:
    state = served()
    running(state, RunKey(1, 2))
    step(state, RunEnded(key=RunKey(1, 1), end=EXIT))
    step(state, RunStarted(key=RunKey(1, 2), started_boot_s=2.0))
    restored(state)
    welcome(state, RunKey(1, 1), RunKey(3, 1), epoch=NEW)
    step(state, RunEnded(key=RunKey(1, 2), end=EXIT))
    assert state.highest[1] == 1


def test_an_end_between_two_servers_is_reported_when_the_run_is_named() -> None:
    state = served()
    restored(state)
    step(state, RunEnded(key=RunKey(1, 1), end=EXIT))
    step(state, OutputSettled(key=RunKey(1, 1), stored_bytes=0))
    told = welcome(state, RunKey(1, 1), RunKey(3, 1), epoch=NEW)
    assert any(
        isinstance(each, SendReport) and each.report.key == RunKey(1, 1) and each.report.seq == 2 for each in told
    )


def test_a_start_that_was_under_way_is_not_reported_as_that_of_the_new_history() -> None:
    state = served()
    step(state, StartOrder(key=RunKey(6, 1)))
    restored(state)
    welcome(state, RunKey(1, 1), RunKey(3, 1), epoch=NEW)
    assert [type(each) for each in step(state, RunStarted(key=RunKey(6, 1), started_boot_s=1.0))] == [StopRun]
