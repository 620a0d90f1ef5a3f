"""What becomes of a run: exit codes, signals, failures to start, stop, walltime, memory."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.agent.shim_process import Client, ShimProcess, alive, wait_for

# A grandchild in a session of its own that ignores SIGTERM and holds no pipe of ours.
SURVIVOR = (
    "(trap '' TERM; exec setsid sh -c "
    "'trap \"\" TERM; echo $$ >survivor; exec sleep 300 >/dev/null 2>&1') & "
    "while [ ! -s survivor ]; do sleep 0.01; done; "
)


def test_exit_code_output_and_environment_reach_the_agent(shim: ShimProcess, agent: Client) -> None:
    fields = shim.request(7, "sh", "-c", "echo out $GREETING; pwd; echo err >&2; exit 3")
    fields["env"]["GREETING"] = "good day"
    answer = agent.ask("start", **fields)
    assert answer["ok"]
    assert answer["phase"] in {"running", "ended"}
    event = agent.ended(7)
    assert (event["cause"], event["exit_code"], event["signal"]) == ("exit", 3, 0)
    assert event["elapsed_s"] > 0
    assert event["cpu_s"] > 0
    assert event["peak_memory_mb"] > 0
    assert shim.output(7) == f"out good day\n{shim.scratch}\n"
    assert shim.output(7, "stderr") == "err\nlattice: a7 failed with exit code 3\n"
    status = shim.status(7)
    assert status["phase"] == "ended"
    assert status["pid"] == answer["pid"]
    assert {key: status[key] for key in ("cause", "exit_code", "signal", "cpu_s", "elapsed_s")} == {
        key: event[key] for key in ("cause", "exit_code", "signal", "cpu_s", "elapsed_s")
    }


def test_death_by_signal_is_told_from_an_exit(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "kill -SEGV $$"))
    event = agent.ended(1)
    assert (event["cause"], event["signal"], event["exit_code"]) == ("signal", signal.SIGSEGV, 0)


def test_the_sites_limits_of_processes_hold(shim: ShimProcess, agent: Client) -> None:
    fields = shim.request(1, "sh", "-c", "ulimit -S -s; ulimit -H -n; ulimit -c")
    agent.ask(
        "start", **fields, limits={"rlimits": {"stack": [1 << 20, 2 << 20], "nofile": [512, 768], "core": [0, 0]}}
    )
    assert agent.ended(1)["exit_code"] == 0
    assert shim.output(1).split() == ["1024", "768", "0"]


def test_workload_starts_with_a_clean_slate(shim: ShimProcess, agent: Client) -> None:
    script = (
        "import os,signal;"
        "print(sorted(os.listdir('/proc/self/fd'))[:3]==['0','1','2'],len(os.listdir('/proc/self/fd')));"
        "print(os.readlink('/proc/self/fd/0'), os.getsid(0)==os.getpid()==os.getpgid(0));"
        "print(open('/proc/self/status').read().split('SigBlk:')[1].split()[0]);"
        "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0]);"
        "print(oct(os.umask(0)))"
    )
    fields = shim.request(1, "/usr/bin/env", "python3", "-S", "-c", script)
    agent.ask("start", **fields)
    assert agent.ended(1)["exit_code"] == 0, shim.output(1, "stderr")
    lines = shim.output(1).splitlines()
    # The fourth descriptor is the one that lists the folder.
    assert lines[:2] == ["True 4", "/dev/null True"]
    assert int(lines[2], 16) == 0
    # Python itself ignores SIGPIPE and SIGXFSZ, nothing else; 32 and 33 belong to the C library, which lets nobody at them.
    of_the_library = 1 << 31 | 1 << 32
    assert int(lines[3], 16) & ~of_the_library == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert lines[4] == "0o22"


def test_broken_pipe_ends_a_shell_pipeline_silently(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "yes | head -n 1"))
    assert agent.ended(1)["exit_code"] == 0
    assert (shim.output(1), shim.output(1, "stderr")) == ("y\n", "")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"argv": ["no-such-program"]}, "no-such-program: command not found in PATH"),
        ({"argv": ["/etc/passwd"]}, "cannot execute /etc/passwd: Permission denied"),
        ({"argv": ["/no/such"]}, "cannot execute /no/such: No such file or directory"),
        ({"cwd": "/no/such"}, "cannot enter directory /no/such: No such file or directory"),
        ({"argv": []}, "argv is empty"),
        ({"env": {"A": "b\0c"}}, "a string contains a NUL character"),
    ],
)
def test_what_cannot_be_started_is_refused_with_a_reason(
    shim: ShimProcess, agent: Client, change: dict[str, object], error: str
) -> None:
    fields = {**shim.request(1, "true"), **change}
    answer = agent.ask("start", **fields)
    assert (answer["ok"], answer["error"]) == (False, error)
    assert agent.ask("start", **fields)["error"] == error
    status = shim.status(1)
    assert (status["phase"], status["cause"], status["error"]) == ("ended", "launch", error)
    assert agent.events == []
    wait_for(lambda: shim.groups() == [], "the cgroups to be removed")


@pytest.mark.root
def test_what_lies_in_a_directory_of_others_cannot_be_told_by_entering_it(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    private = root_shim.scratch / "private"
    (private / "there").mkdir(parents=True)
    private.chmod(0o700)
    for number, name in enumerate(("there", "not-there"), 1):
        place = private / name
        answer = agent.ask(
            "start", **{**root_shim.request(number, "true"), "cwd": str(place), "uid": 65534, "gid": 65534}
        )
        assert (answer["ok"], answer["error"]) == (False, f"cannot enter directory {place}: Permission denied")


def test_program_is_looked_up_in_the_path_of_the_run(shim: ShimProcess, agent: Client) -> None:
    tool = shim.scratch / "bin" / "sh"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    agent.ask("start", **shim.request(1, "sh", env={"PATH": f"/nowhere:{tool.parent}:/bin"}))
    agent.ended(1)
    assert shim.output(1) == "mine\n"


def test_repeated_start_runs_once_and_answers_the_present_phase(shim: ShimProcess, agent: Client) -> None:
    fields = shim.request(1, "sh", "-c", "echo once >>count; sleep 300")
    ids = [agent.send("start", **fields) for _ in range(3)]
    first, *others = [{**agent.answer(request), "id": 0} for request in ids]
    assert first["ok"]
    assert all(other == first for other in others)
    count = shim.scratch / "count"
    wait_for(lambda: count.exists() and count.read_text(), "the workload to work")
    agent.ask("stop", number=1, run=1, grace_s=0, why="cancelled")
    agent.ended(1)
    again = agent.ask("start", **fields)
    assert (again["ok"], again["phase"], again["cause"]) == (True, "ended", "stopped")
    assert agent.ask("forget", number=1, run=1)["ok"]
    assert not agent.ask("start", **fields)["ok"]
    assert count.read_text() == "once\n"


def test_stop_lets_the_workload_finish_within_its_grace(shim: ShimProcess, agent: Client) -> None:
    script = "trap 'echo saved; exit 9' TERM; echo ready >ready; while :; do sleep 0.01; done"
    agent.ask("start", **shim.request(1, "sh", "-c", script))
    wait_for((shim.scratch / "ready").exists, "the workload to be ready")
    assert agent.ask("stop", number=1, run=1, grace_s=30, why="cancelled")["ok"]
    event = agent.ended(1)
    assert (event["cause"], event["exit_code"], event["why"]) == ("stopped", 9, "cancelled")
    assert event["elapsed_s"] < 15
    assert shim.output(1) == "saved\n"


def test_grace_is_for_all_processes_not_only_the_first(shim: ShimProcess, agent: Client) -> None:
    worker = "trap 'sleep 0.3; echo saved; exit' TERM; echo 1 >ready; while :; do sleep 0.01; done"
    agent.ask("start", **shim.request(1, "sh", "-c", f"sh -c '{worker.replace(chr(39), chr(34))}' & wait"))
    wait_for((shim.scratch / "ready").exists, "the workload to be ready")
    agent.ask("stop", number=1, run=1, grace_s=30)
    assert agent.ended(1)["signal"] == signal.SIGTERM
    assert shim.output(1) == "saved\n"


def test_stop_ends_what_left_the_session_and_ignores_sigterm(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "trap '' TERM; " + SURVIVOR + "sleep 300"))
    survivor = shim.written_pid("survivor")
    asked = time.monotonic()
    agent.ask("stop", number=1, run=1, grace_s=0.5, why="cancelled")
    event = agent.ended(1)
    assert 0.5 <= time.monotonic() - asked < 10
    assert (event["cause"], event["signal"]) == ("stopped", signal.SIGKILL)
    assert not alive(survivor)
    assert not alive(shim.status(1)["pid"])


def test_shorter_grace_of_a_second_stop_counts(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "trap '' TERM; echo 1 >ready; sleep 300"))
    wait_for((shim.scratch / "ready").exists, "the workload to be ready")
    agent.ask("stop", number=1, run=1, grace_s=300, why="first")
    agent.ask("stop", number=1, run=1, grace_s=0, why="second")
    event = agent.ended(1)
    assert (event["cause"], event["why"]) == ("stopped", "first")


def test_leftovers_of_a_finished_run_are_killed_before_its_end_is_told(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", SURVIVOR + "exit 4"))
    event = agent.ended(1)
    assert (event["cause"], event["exit_code"]) == ("exit", 4)
    assert not alive(shim.written_pid("survivor"))
    wait_for(lambda: shim.groups() == [], "the cgroups to be removed")


def test_end_of_one_run_spares_the_processes_of_another(shim: ShimProcess, agent: Client) -> None:
    daemon = "setsid sh -c 'echo $$ >{0}; exec sleep 300' & while [ ! -s {0} ]; do sleep 0.01; done"
    agent.ask("start", **shim.request(1, "sh", "-c", f"{daemon.format('one')}; sleep 300"))
    agent.ask("start", **shim.request(2, "sh", "-c", f"({daemon.format('two')}); exit 0"))
    one, two = shim.written_pid("one"), shim.written_pid("two")
    agent.ended(2)
    assert alive(one)
    assert not alive(two)
    agent.ask("stop", number=1, run=1, grace_s=0)
    agent.ended(1)
    assert not alive(one)


def test_walltime_ends_a_run_in_real_time(shim: ShimProcess, agent: Client) -> None:
    fields = shim.request(1, "sh", "-c", "trap '' TERM; sleep 300", walltime_s=1, grace_s=0.3)
    agent.ask("start", **fields)
    event = agent.ended(1)
    assert event["cause"] == "walltime"
    assert event["signal"] == signal.SIGKILL
    assert 1.3 <= event["elapsed_s"] < 15


def test_walltime_can_be_changed_while_running(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300", walltime_s=3600))
    agent.ask("start", **shim.request(2, "sleep", "1.2", walltime_s=1))
    assert agent.ask("update", number=1, run=1, walltime_s=0.2)["ok"]
    assert agent.ask("update", number=2, run=1, walltime_s=3600)["ok"]
    assert agent.ended(1)["cause"] == "walltime"
    assert (agent.ended(2)["cause"], agent.ended(2)["exit_code"]) == ("exit", 0)


def test_unknown_runs_and_requests_are_refused(shim: ShimProcess, agent: Client) -> None:
    assert agent.ask("stop", number=9, run=1)["error"] == "unknown run 9.1"
    assert agent.ask("update", number=9, run=1, walltime_s=1)["error"] == "run 9.1 is not running"
    assert agent.ask("forget", number=9, run=1)["ok"]
    assert not agent.ask("dance")["ok"]
    agent.ask("start", **shim.request(1, "sleep", "300"))
    assert agent.ask("forget", number=1, run=1)["error"] == "run 1.1 has not ended"


@pytest.mark.root
def test_memory_over_the_limit_is_an_oom(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    script = "x = bytearray(400 << 20); print(len(x))"
    fields = root_shim.request(1, sys.executable, "-S", "-c", script, memory_mb=64)
    agent.ask("start", **fields)
    event = agent.ended(1)
    assert (event["cause"], event["signal"]) == ("oom", signal.SIGKILL)
    assert 40 < event["peak_memory_mb"] <= 64.5
    assert str(event["why"]).startswith("limit 64 MB, peak 6")
    # The shell survives its command and reports 128 + 9.
    shell = root_shim.request(2, "sh", "-c", '"$0" -S -c "$1"; exit $?', sys.executable, script)
    agent.ask("start", **{**shell, "memory_mb": 64})
    assert (agent.ended(2)["cause"], agent.ended(2)["exit_code"]) == ("oom", 137)
    agent.ask("start", **root_shim.request(3, sys.executable, "-S", "-c", script))
    assert agent.ended(3)["cause"] == "exit"
    wait_for(lambda: root_shim.groups() == [], "the cgroups to be removed")


@pytest.mark.root
def test_limits_hold_every_process_of_a_run_and_are_accounted(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    bomb = "import os, time\nfor _ in range(40):\n    try: os.fork() or time.sleep(60)\n    except OSError: pass\n"
    limits = {"cpus": 0.5, "pids": 10, "cpuset": [0]}
    agent.ask("start", **root_shim.request(1, sys.executable, "-S", "-c", bomb, memory_mb=64), limits=limits)
    assert agent.ask("list")["runs"][0]["held"] == ["memory", "cpu", "pids", "cpuset"]
    event = agent.ended(1)
    assert event["refused_forks"] > 0
    assert event["throttled_s"] >= 0
    wait_for(lambda: root_shim.groups() == [], "the cgroups to be removed in every hierarchy")


@pytest.mark.root
def test_run_sees_its_own_files_and_the_host_sees_none_of_them(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    own = root_shim.scratch / "own"
    own.mkdir()
    before = Path("/proc/self/mountinfo").read_text()
    mounts = [{"kind": "bind", "source": str(own), "target": "/mnt"}, {"kind": "tmpfs", "target": "/dev/shm"}]
    mark = f"lattice-test-{os.getpid()}"
    script = f"echo mine > /mnt/{mark}; echo mine > /dev/shm/{mark}; ls /dev/shm"
    agent.ask("start", **root_shim.request(1, "sh", "-c", script), mounts=mounts)
    assert agent.ended(1)["exit_code"] == 0
    assert root_shim.output(1) == f"{mark}\n"
    assert (own / mark).read_text() == "mine\n"
    assert not Path(f"/mnt/{mark}").exists()
    assert not Path(f"/dev/shm/{mark}").exists()
    assert Path("/proc/self/mountinfo").read_text() == before


@pytest.mark.root
def test_run_whose_files_cannot_be_mounted_is_refused_by_name(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    missing = [{"kind": "bind", "source": "/no/such/place", "target": "/mnt"}]
    answer = agent.ask("start", **root_shim.request(1, "true"), mounts=missing)
    assert (answer["ok"], answer["error"]) == (False, "cannot mount /mnt: No such file or directory")
    odd = agent.ask("start", **root_shim.request(2, "true"), mounts=[{"kind": "nfs", "target": "/mnt"}])
    assert odd["error"] == "unknown kind of mount: 'nfs'"
    wait_for(lambda: root_shim.groups() == [], "the cgroups to be removed")


@pytest.mark.root
def test_kill_by_hand_below_the_limit_is_a_signal(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    pid = agent.ask("start", **root_shim.request(1, "sleep", "300", memory_mb=64))["pid"]
    os.kill(pid, signal.SIGKILL)
    event = agent.ended(1)
    assert (event["cause"], event["signal"]) == ("signal", signal.SIGKILL)


@pytest.mark.root
def test_workload_runs_as_the_user_asked_for(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = root_shim.request(1, "sh", "-c", "id -u; id -g; id -G", groups=[65534, 7], cwd="/")
    agent.ask("start", **{**fields, "uid": 65534, "gid": 65534})
    agent.ended(1)
    assert root_shim.output(1).split() == ["65534", "65534", "65534", "7"]


def test_burst_of_short_runs_completes(shim: ShimProcess, agent: Client) -> None:
    count = 200
    before_s = shim.cpu_s()
    for number in range(1, count + 1):
        agent.send("start", **shim.request(number, "true"))
    causes = {agent.ended(number)["cause"] for number in range(1, count + 1)}
    spent_s = shim.cpu_s() - before_s
    assert causes == {"exit"}
    # What others do on the machine makes it late, and hardly dearer: 25 runs a second on one core.
    assert spent_s < count / 25, f"{count / spent_s:.0f} runs/s"
    wait_for(lambda: shim.groups() == [], "the cgroups to be removed")
