"""Signals to a run, signals before its limit, pauses."""

import signal
from pathlib import Path

from tests.integration.agent.shim_process import Client, ShimProcess, alive, stands_still, wait_for
from tests.integration.agent.test_shim_steps import request, step_end

TRAPS = "trap 'echo shell >>got' USR1; echo 1 >ready; while [ ! -e stop ]; do sleep 0.02; done"
CHILD = "sh -c 'trap \"echo child >>got\" USR1; echo 1 >child; while [ ! -e stop ]; do sleep 0.02; done' & "


def _got(shim: ShimProcess) -> list[str]:
    path = shim.scratch / "got"
    return sorted(path.read_text().split()) if path.exists() else []


def _wait_until_got(shim: ShimProcess, wanted: list[str]) -> None:
    wait_for(lambda: _got(shim) == wanted, f"signals to {wanted}")


def _start_with_step(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", CHILD + TRAPS))
    step = "trap 'echo task >>got' USR1; echo 1 >task; while [ ! -e stop ]; do sleep 0.02; done"
    assert agent.ask("launch_step", **request(shim, 1, "sh", "-c", step))["ok"]
    for name in ("ready", "child", "task"):
        wait_for((shim.scratch / name).exists, name)


def test_signal_goes_to_the_entrypoint_the_steps_or_all(shim: ShimProcess, agent: Client) -> None:
    _start_with_step(shim, agent)
    for target, wanted in (
        ("entrypoint", ["shell"]),
        ("steps", ["shell", "task"]),
        ("all", ["child", "shell", "shell", "task", "task"]),
    ):
        assert agent.ask("signal", number=1, run=1, signal=signal.SIGUSR1, to=target)["ok"]
        _wait_until_got(shim, wanted)
    (shim.scratch / "stop").touch()
    assert agent.ended(1)["cause"] == "exit"


def test_a_signal_comes_before_the_limit(shim: ShimProcess, agent: Client) -> None:
    script = "trap 'echo early; exit 5' USR1; while :; do sleep 0.05; done"
    early = {"signal": signal.SIGUSR1, "before_s": 30.0, "to": "entrypoint"}
    agent.ask("start", **shim.request(1, "sh", "-c", script, walltime_s=30.5), early=early)
    event = agent.ended(1)
    assert (event["cause"], event["exit_code"]) == ("exit", 5)
    assert event["elapsed_s"] >= 0.5
    assert shim.output(1) == "early\n"


def test_a_later_limit_moves_the_signal(shim: ShimProcess, agent: Client) -> None:
    early = {"signal": signal.SIGUSR1, "before_s": 1.0, "to": "entrypoint"}
    agent.ask("start", **shim.request(1, "sleep", "300", walltime_s=3600), early=early)
    agent.ask("update", number=1, run=1, walltime_s=1.3)
    event = agent.ended(1)
    assert (event["cause"], event["signal"]) == ("signal", signal.SIGUSR1)


def _ticks(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]


def test_a_paused_run_stands_still_and_its_limit_with_it(shim: ShimProcess, agent: Client) -> None:
    script = "echo 1 >ready; i=0; while [ ! -e stop ]; do i=$((i+1)); done; echo went on"
    pid = agent.ask("start", **shim.request(1, "sh", "-c", script, walltime_s=3))["pid"]
    wait_for((shim.scratch / "ready").exists, "ready")
    assert agent.ask("pause", number=1, run=1)["ok"]
    wait_for(lambda: stands_still(pid), "the run to stand still")
    before = _ticks(pid)
    # Another run with the same limit, which goes on: when it has reached it, so would the paused one.
    agent.ask("start", **shim.request(2, "sleep", "300", walltime_s=3))
    assert agent.ended(2)["cause"] == "walltime"
    assert _ticks(pid) == before
    assert alive(pid)
    (shim.scratch / "stop").touch()
    assert agent.ask("resume", number=1, run=1)["ok"]
    event = agent.ended(1)
    assert (event["cause"], event["exit_code"]) == ("exit", 0)
    assert event["elapsed_s"] > 3


def test_a_paused_run_can_be_ended_with_grace(shim: ShimProcess, agent: Client) -> None:
    agent.ask(
        "start",
        **shim.request(1, "sh", "-c", "trap 'echo bye; exit 0' TERM; echo 1 >ready; while :; do sleep 0.05; done"),
    )
    wait_for((shim.scratch / "ready").exists, "ready")
    agent.ask("pause", number=1, run=1)
    agent.ask("stop", number=1, run=1, grace_s=20, why="test")
    assert agent.ended(1)["cause"] == "stopped"
    assert shim.output(1) == "bye\n"


def test_steps_pause_where_the_allocation_has_no_run(shim: ShimProcess, agent: Client) -> None:
    script = "echo $$ >pid; while [ ! -e stop ]; do sleep 0.02; done"
    agent.ask("launch_step", **request(shim, 3, "sh", "-c", script))
    pid = shim.written_pid("pid")
    agent.ask("pause", number=3, run=1)
    wait_for(lambda: stands_still(pid), "the step to stand still")
    # A run that goes on sees the file and ends; the step would as well.
    agent.ask("start", **shim.request(4, "sh", "-c", "while [ ! -e stop ]; do sleep 0.02; done"))
    (shim.scratch / "stop").touch()
    assert agent.ended(4)["cause"] == "exit"
    assert stands_still(pid)
    assert not [event for event in agent.events if event.get("phase") == "ended"]
    agent.ask("resume", number=3, run=1)
    assert step_end(agent, 3)["cause"] == "exit"


def test_wrong_words_are_refused(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300"))
    assert "no such target" in agent.ask("signal", number=1, run=1, signal=10, to="moon")["error"]
    assert not agent.ask("signal", number=1, run=1, signal=99)["ok"]
    early = {"signal": 10, "before_s": 1.0, "to": "moon"}
    assert not agent.ask("start", **shim.request(2, "true"), early=early)["ok"]


def test_a_run_is_finished_with_the_code_that_was_asked_for(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300"))
    assert agent.ask("finish", number=1, run=1, exit_code=7)["ok"]
    event = agent.ended(1)
    assert (event["cause"], event["exit_code"], event["signal"]) == ("exit", 7, 0)
    assert agent.ask("finish", number=1, run=1, exit_code=3)["ok"]
    assert shim.status(1)["exit_code"] == 7


def test_a_hint_goes_only_to_processes_that_catch_the_signal(shim: ShimProcess, agent: Client) -> None:
    plain = "sleep 300 & echo 1 >plain; "
    agent.ask("start", **shim.request(1, "sh", "-c", plain + CHILD + TRAPS))
    step = "trap 'echo task >>got' USR1; echo 1 >task; while [ ! -e stop ]; do sleep 0.02; done"
    assert agent.ask("launch_step", **request(shim, 1, "sh", "-c", step))["ok"]
    for name in ("ready", "child", "task", "plain"):
        wait_for((shim.scratch / name).exists, name)
    counted = agent.ask("hint", number=1, run=1, signal=0)
    assert (counted["pids"], counted["members"] >= 4) == ([], True)
    asked = agent.ask("hint", number=1, run=1, signal=signal.SIGUSR1, dry=True)
    assert len(asked["pids"]) >= 3
    assert not (shim.scratch / "got").exists()
    hinted = agent.ask("hint", number=1, run=1, signal=signal.SIGUSR1)
    assert len(hinted["pids"]) >= 3  # a child between fork and exec still has the handlers of its shell
    _wait_until_got(shim, ["child", "shell", "task"])
    assert agent.ask("hint", number=1, run=1, signal=signal.SIGUSR2)["pids"] == []
    assert agent.ask("hint", number=9, run=1, signal=signal.SIGUSR1) | {"id": 0} == {
        "id": 0,
        "ok": True,
        "pids": [],
        "members": 0,
    }
    (shim.scratch / "stop").touch()
    assert agent.ended(1)["cause"] == "exit"


def test_a_run_without_a_process_ends_as_it_is_told_and_keeps_its_walltime(shim: ShimProcess, agent: Client) -> None:
    assert agent.ask("start", **shim.request(1, "true", holds=True, walltime_s=300))["phase"] == "running"
    assert agent.ask("finish", number=1, run=1, exit_code=7)["ok"]
    ended = agent.ended(1)
    assert (ended["cause"], ended["exit_code"]) == ("exit", 7)
    agent.ask("start", **shim.request(2, "true", holds=True, walltime_s=0.2))
    assert agent.ended(2)["cause"] == "walltime"
