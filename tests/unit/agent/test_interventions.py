"""Signals, pauses and finishes as the agent decides on them, and as they travel."""

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import (
    EarlySignal,
    FinishAsked,
    FinishRun,
    PauseAsked,
    PauseRun,
    RunFiles,
    RunKey,
    RunOrder,
    RunStarted,
    SignalAsked,
    SignalRun,
    StartAsked,
    Stimulus,
)
from lattice.agent.messages import order_of, stimulus_of
from lattice.agent.runs.launch import _extras
from lattice.api.grpc.agents.messages import order_message
from lattice.ports.nodes.agents import EarlyOrder, FileNames, FinishOrder, Order, PauseOrder, SignalRunOrder, StartOrder
from tests.unit.agent.test_step import KEY, ended_state, order, ready_state, running_state


def test_a_signal_is_for_what_runs_now() -> None:
    asked = SignalAsked(key=KEY, signal=10, to="steps")
    sent = SignalRun(key=KEY, signal=10, to="steps")
    assert step(running_state(), asked) == [sent]
    assert step(ended_state(), asked) == []
    starting = ready_state()
    step(starting, StartAsked(order=order()))
    assert step(starting, asked) == []
    # Steps of an allocation may be where it has no run.
    assert step(ready_state(), asked) == [sent]


def test_a_pause_that_comes_before_the_start_follows_it() -> None:
    state = ready_state()
    step(state, StartAsked(order=order()))
    assert step(state, PauseAsked(key=KEY, is_paused=True)) == []
    assert PauseRun(key=KEY, is_paused=True) in step(state, RunStarted(key=KEY, started_boot_s=1.0))
    assert step(state, PauseAsked(key=KEY, is_paused=False)) == [PauseRun(key=KEY, is_paused=False)]
    assert step(ended_state(), PauseAsked(key=KEY, is_paused=True)) == []
    assert step(ready_state(), PauseAsked(key=KEY, is_paused=True)) == [PauseRun(key=KEY, is_paused=True)]


def test_only_a_running_run_is_finished() -> None:
    asked = FinishAsked(key=KEY, exit_code=4)
    assert step(running_state(), asked) == [FinishRun(key=KEY, exit_code=4)]
    assert step(ended_state(), asked) == []
    assert step(ready_state(), asked) == []


def test_orders_arrive_as_they_were_given() -> None:
    key = RunKey(7, 2)
    told: list[tuple[Order, Stimulus]] = [
        (SignalRunOrder(number=7, run=2, signal=12, to="entrypoint"), SignalAsked(key=key, signal=12, to="entrypoint")),
        (PauseOrder(number=7, run=2, is_paused=True), PauseAsked(key=key, is_paused=True)),
        (FinishOrder(number=7, run=2, exit_code=3), FinishAsked(key=key, exit_code=3)),
    ]
    for given, stimulus in told:
        assert stimulus_of(order_message(given)) == stimulus


def start(**fields: object) -> StartOrder:
    base: dict[str, object] = {
        "number": 7,
        "run": 1,
        "allocation_id": "a7",
        "name": "x",
        "account": "alice",
        "cwd": "/",
        "nodes": ("n1",),
        "tasks": 1,
        "grace_s": 1.0,
    }
    return StartOrder(**{**base, **fields})  # type: ignore[arg-type]


def test_files_and_the_early_signal_reach_the_shim() -> None:
    files = FileNames(stdout="o", stderr="e", stdin="i", appends=True)
    early = EarlyOrder(signal=10, before_s=60, to="steps")
    received = order_of(order_message(start(files=files, early=early)).start_run)
    assert received.files == RunFiles(stdout="o", stderr="e", stdin="i", append=True)
    assert received.early == EarlySignal(signal=10, before_s=60.0, to="steps")
    assert _extras(received) == {
        "files": {"stdout": "o", "stderr": "e", "stdin": "i", "mode": "append"},
        "early": {"signal": 10, "before_s": 60.0, "to": "steps"},
    }
    plain = order_of(order_message(start()).start_run)
    assert (plain.files, plain.early) == (None, None)
    assert _extras(RunOrder(key=KEY)) == {}
