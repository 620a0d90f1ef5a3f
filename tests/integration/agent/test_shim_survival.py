"""Who may die without harm: the agent at any moment; and what is cleaned up after a shim."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.agent.shim_process import SOURCES, Client, ShimProcess, alive, wait_for

EPOLL_WAITS = frozenset({"232", "281", "22"})  # epoll_wait and epoll_pwait by their numbers, of x86-64 and of arm64


def test_runs_go_on_and_end_while_no_agent_is_there(shim: ShimProcess, agent: Client) -> None:
    script = "while [ ! -e go ]; do sleep 0.01; done; echo done; exit 6"
    pid = agent.ask("start", **shim.request(1, "sh", "-c", script))["pid"]
    agent.ask("start", **shim.request(2, "sleep", "300"))
    agent.close()
    (shim.scratch / "go").touch()
    wait_for(lambda: shim.phase(1) == "ended", "the end of the run")
    second = shim.connect()
    runs = {run["number"]: run for run in second.ask("list")["runs"]}
    assert (runs[1]["phase"], runs[1]["cause"], runs[1]["exit_code"]) == ("ended", "exit", 6)
    assert runs[1] == shim.status(1)
    assert (runs[2]["phase"], runs[1]["pid"]) == ("running", pid)
    assert shim.output(1) == "done\n"
    second.ask("stop", number=2, run=1, grace_s=0)
    assert second.ended(2)["cause"] == "stopped"
    assert second.ask("forget", number=1, run=1)["ok"]
    assert [run["number"] for run in second.ask("list")["runs"]] == [2]


def test_walltime_holds_while_no_agent_is_there(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300", walltime_s=0.5))
    agent.close()
    wait_for(lambda: shim.phase(1) == "ended", "the end of the run")
    assert shim.status(1)["cause"] == "walltime"


def test_new_connection_replaces_the_old_and_its_half_request(shim: ShimProcess, agent: Client) -> None:
    agent.send_bytes(json.dumps({"op": "start", **shim.request(1, "true")}).encode()[:-1])
    second = shim.connect()
    assert second.ask("list")["runs"] == []
    with pytest.raises(ConnectionError):
        agent.receive()
    assert second.ask("start", **shim.request(2, "true"))["ok"]
    assert second.ended(2)["cause"] == "exit"


def test_malformed_requests_are_answered_and_change_nothing(shim: ShimProcess, agent: Client) -> None:
    for line in (b"nonsense\n", b"[1, 2]\n", b'{"op": "start", "id": 5}\n', b'{"op": ["list"]}\n', b"\xff\xfe\n"):
        agent.send_bytes(line)
        assert not agent.receive()["ok"]
    for change in ({"number": 0}, {"run": "1"}, {"dir": "runs/1.1"}, {"walltime_s": "an hour"}):
        assert not agent.ask("start", **{**shim.request(1, "true"), **change})["ok"]
    assert agent.ask("list")["ok"]


def test_request_without_end_costs_the_connection(shim: ShimProcess, agent: Client) -> None:
    with pytest.raises((ConnectionError, socket.timeout)):  # noqa: PT012 - fails at any of them
        for _ in range(20):
            agent.send_bytes(b"x" * (1 << 20))
        while True:
            agent.receive()
    assert shim.connect().ask("list")["ok"]


def test_agent_that_does_not_read_stops_nothing(shim: ShimProcess, agent: Client) -> None:
    for number in range(1, 31):
        agent.send("start", **shim.request(number, "sh", "-c", "exit 2"))
    for _ in range(3000):
        agent.send("list")
    wait_for(lambda: shim.phase(30) == "ended", "the last run")
    second = shim.connect()
    assert len(second.ask("list")["runs"]) == 30


def test_second_shim_in_a_state_directory_is_refused(shim: ShimProcess, agent: Client) -> None:
    before = (shim.dir / "shim.pid").read_text()
    answer = subprocess.run(shim.command("--detach"), capture_output=True, check=False)
    assert answer.returncode == 3
    assert b"another shim" in answer.stderr
    assert (shim.dir / "shim.pid").read_text() == before
    assert agent.ask("list")["pid"] == int(before) == shim.process.pid


def test_files_of_the_shim_are_private(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "true"))
    agent.ended(1)
    for path in (shim.dir / "shim.sock", *shim.run_dir(1).iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600, path


@pytest.mark.parametrize("by", ["request", "signal"])
def test_shutdown_kills_everything_and_leaves_a_record(shim: ShimProcess, agent: Client, by: str) -> None:
    script = "trap '' TERM; setsid sleep 300 & echo $! >child; wait"
    pid = agent.ask("start", **shim.request(1, "sh", "-c", script))["pid"]
    child = shim.written_pid("child")
    if by == "request":
        assert agent.ask("shutdown")["ok"]
        # Nothing is in the way of the next one from the answer on.
        shim.restart()
        assert shim.connect().ask("list")["runs"] == []
    else:
        shim.process.send_signal(signal.SIGTERM)
        assert shim.process.wait(20) == 0
        assert not (shim.dir / "shim.sock").exists()
    status = shim.status(1)
    assert (status["phase"], status["cause"], status["why"]) == ("ended", "stopped", "shutdown")
    assert not alive(pid)
    assert not alive(child)


def test_next_shim_kills_what_a_killed_one_left(shim: ShimProcess, agent: Client) -> None:
    script = "trap '' TERM; setsid sleep 300 & echo $! >child; wait"
    fields = shim.request(1, "sh", "-c", script)
    pid = agent.ask("start", **fields)["pid"]
    child = shim.written_pid("child")
    wait_for(lambda: shim.phase(1) == "running", "the start to be written down")
    shim.kill()
    assert alive(child)
    shim.restart()
    second = shim.connect()
    assert not alive(pid)
    assert not alive(child)
    assert second.ask("list")["runs"] == []
    wait_for(lambda: shim.groups() == [], "the cgroups to be removed")
    # What was started once is not started again behind the agent's back.
    assert not second.ask("start", **fields)["ok"]
    assert second.ask("start", **shim.request(1, "true", run=2))["ok"]
    assert second.ended(1, 2)["cause"] == "exit"


@pytest.mark.root
def test_cluster_inside_an_allocation_ends_with_it(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    inner = root_shim.scratch / "inner"
    command = " ".join(root_shim.command()).replace(str(root_shim.dir), str(inner), 1)
    agent.ask("start", **root_shim.request(1, "sh", "-c", f"exec {command}"))
    wait_for((inner / "shim.sock").exists, "the inner shim to listen")
    client = Client(inner)
    script = f"echo $$ >{root_shim.scratch}/inner-pid; exec sleep 300"
    fields = root_shim.request(5, "sh", "-c", script, dir=str(inner / "runs" / "5.1"))
    assert client.ask("start", **fields)["ok"]
    pid = root_shim.written_pid("inner-pid")
    agent.ask("stop", number=1, run=1, grace_s=0)
    agent.ended(1)
    client.close()
    assert not alive(pid)
    wait_for(lambda: root_shim.groups() == [], "the cgroups to be removed")


def test_detached_shim_listens_when_the_command_returns(
    make_shim: Callable[..., ShimProcess],
) -> None:
    shim = make_shim(cgroup=False)
    shim.connect().ask("shutdown")
    shim.process.wait(20)
    subprocess.run(shim.command("--detach"), check=True, timeout=20)
    agent = Client(shim.dir)
    pid = agent.ask("list")["pid"]
    assert pid == int((shim.dir / "shim.pid").read_text())
    assert os.getsid(pid) != os.getsid(0)
    assert os.readlink(f"/proc/{pid}/fd/2") == str(shim.dir / "shim.log")
    agent.ask("shutdown")
    agent.close()
    wait_for(lambda: not alive(pid), "the shim to leave")
    assert (shim.dir / "shim.log").read_text() == ""


def test_detached_start_tells_why_it_failed(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    command = [os.fspath(SOURCES / "shim.py"), "--state-dir", os.fspath(blocked), "--detach"]
    answer = subprocess.run([sys.executable, "-S", "-E", *command], capture_output=True, check=False)
    assert answer.returncode == 1
    assert os.fspath(blocked).encode() in answer.stderr


@pytest.mark.root
def test_runs_beyond_the_descriptors_are_refused_and_the_others_end(make_shim: Callable[..., ShimProcess]) -> None:
    shim = make_shim("--output-limit", "400", descriptors=200)
    agent = shim.connect()
    # Output comes late, so that the files which it needs are not open yet when all have started.
    script = (
        "while [ ! -e go ]; do sleep 0.1; done; seq 100; seq 100 >&2; while [ ! -e end ]; do sleep 0.1; done; exit 3"
    )
    answers = {number: agent.ask("start", **shim.request(number, "sh", "-c", script)) for number in range(1, 61)}
    started = [number for number, answer in answers.items() if answer["ok"]]
    assert 10 < len(started) < 60
    assert "too many runs" in answers[60]["error"]
    (shim.scratch / "go").touch()
    for stream in ("stdout", "stderr"):
        wait_for(lambda s=stream: all(shim.output(n, s).endswith("\n100\n") for n in started), "the output")  # type: ignore[misc]
    agent.close()
    second = shim.connect()
    assert len(second.ask("list")["runs"]) == 60
    (shim.scratch / "end").touch()
    assert {second.ended(number)["exit_code"] for number in started} == {3}


def _watched(pid: int) -> int:
    """How many descriptors the shim's loop waits for: while it cannot take connections, its socket is not among them."""
    return sum(info.read_text().count("tfd:") for info in Path(f"/proc/{pid}/fdinfo").iterdir())


@pytest.mark.root
def test_shim_that_has_no_descriptor_for_an_agent_hears_it_later(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    agent.ask("start", **root_shim.request(1, "sleep", "300"))
    pid = root_shim.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, hard))
    watched = _watched(pid)
    unheard = root_shim.connect()
    wait_for(lambda: _watched(pid) < watched, "the shim to let the agent wait")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert [run["phase"] for run in unheard.ask("list")["runs"]] == ["running"]


def test_idle_shim_does_not_wake_up(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300", walltime_s=86400))
    wait_for(lambda: shim.phase(1) == "running", "the start to be written down")
    agent.ask("list")

    def is_asleep() -> bool:
        """In epoll without a time-out: the fourth argument is -1."""
        words = Path(f"/proc/{shim.process.pid}/syscall").read_text().split()
        return words[0] in EPOLL_WAITS and int(words[4], 16) & 0xFFFFFFFF == 0xFFFFFFFF

    wait_for(is_asleep, "the shim to sleep without limit")
    files = Path(f"/proc/{shim.process.pid}/fdinfo").iterdir()
    timers = [line for file in files for line in file.read_text().splitlines() if line.startswith("it_value")]
    (left_s,) = (int(line.partition("(")[2].partition(",")[0]) for line in timers)
    assert left_s > 80000  # its timer is the limit of the run, a day from now, and nothing sooner
