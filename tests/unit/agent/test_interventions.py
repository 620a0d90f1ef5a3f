"""Signals, pauses and finishes as the agent decides on them, and as they travel."""

from lattice.agent.machine.decide import step
from lattice.agent.machine.state import FinishRun, PauseRun, RunStarted, SignalRun
from lattice.agent.messages import stimulus_of
from lattice.agent.runs.launch import _extras
from lattice.ports.nodes.agents import (
    EarlySignal,
    FinishOrder,
    Order,
    PauseOrder,
    RunFiles,
    RunKey,
    SignalRunOrder,
    StartOrder,
)
from lattice.wire.agents.messages import START_RUN, order_message
from tests.unit.agent.test_step import KEY, ended_state, order, ready_state, running_state


def test_a_signal_is_for_what_runs_now() -> None:
    asked = SignalRunOrder(key=KEY, signal=10, to="steps")
    sent = SignalRun(key=KEY, signal=10, to="steps")
    assert step(running_state(), asked) == [sent]
    assert step(ended_state(), asked) == []
    starting = ready_state()
    step(starting, order())
    assert step(starting, asked) == []
    # Steps of an allocation may be where it has no run.
    assert step(ready_state(), asked) == [sent]


def test_a_pause_that_comes_before_the_start_follows_it() -> None:
    state = ready_state()
    step(state, order())
    assert step(state, PauseOrder(key=KEY, paused=True)) == []
    assert PauseRun(key=KEY, is_paused=True) in step(state, RunStarted(key=KEY, started_boot_s=1.0))
    assert step(state, PauseOrder(key=KEY, paused=False)) == [PauseRun(key=KEY, is_paused=False)]
    assert step(ended_state(), PauseOrder(key=KEY, paused=True)) == []
    assert step(ready_state(), PauseOrder(key=KEY, paused=True)) == [PauseRun(key=KEY, is_paused=True)]


def test_only_a_running_run_is_finished() -> None:
    asked = FinishOrder(key=KEY, exit_code=4)
    assert step(running_state(), asked) == [FinishRun(key=KEY, exit_code=4)]
    assert step(ended_state(), asked) == []
    assert step(ready_state(), asked) == []


def test_orders_arrive_as_they_were_given() -> None:
    key = RunKey(7, 2)
    told: list[Order] = [
        SignalRunOrder(key=key, signal=12, to="entrypoint"),
        PauseOrder(key=key, paused=True),
        FinishOrder(key=key, exit_code=3),
    ]
    for given in told:
        assert stimulus_of(order_message(given)) == given


def start(**fields: object) -> StartOrder:
    base: dict[str, object] = {
        "key": RunKey(7, 1),
        "allocation_id": "a7",
        "name": "x",
        "user": "alice",
        "cwd": "/",
        "nodes": ("n1",),
        "tasks": 1,
        "grace_s": 1.0,
    }
    return StartOrder(**{**base, **fields})  # type: ignore[arg-type]


def test_files_and_the_early_signal_reach_the_shim() -> None:
    files = RunFiles(stdout="o", stderr="e", stdin="i", append=True)
    early = EarlySignal(signal=10, before_s=60, to="steps")
    received = START_RUN.read(order_message(start(files=files, early_signal=early)).start_run)
    assert received.files == RunFiles(stdout="o", stderr="e", stdin="i", append=True)
    assert received.early_signal == EarlySignal(signal=10, before_s=60.0, to="steps")
    assert _extras(received) == {
        "files": {"stdout": "o", "stderr": "e", "stdin": "i", "mode": "append"},
        "early": {"signal": 10, "before_s": 60.0, "to": "steps"},
    }
    plain = START_RUN.read(order_message(start()).start_run)
    assert (plain.files, plain.early_signal) == (None, None)
    assert _extras(StartOrder(key=KEY)) == {}
