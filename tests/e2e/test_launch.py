"""Steps through real servers and agents: `lattice launch` as people type it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

NODES = 3


@pytest.fixture(scope="module")
def launch_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, arguments=["--node-cpus", "4"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(launch_cluster: LocalCluster) -> Iterator[LocalCluster]:
    yield launch_cluster
    launch_cluster.wait_serving()
    launch_cluster.post("/allocations/cancel", {"all_mine": True})
    for node in launch_cluster.nodes():
        launch_cluster.wait_node(node, "Ready")


@pytest.fixture
def alloc(cluster: LocalCluster) -> str:
    """A running allocation of all nodes."""
    return running(cluster)


def running(cluster: LocalCluster, nodes: int = NODES) -> str:
    submitted = cluster.submit(["sleep", "600"], resources={"nodes": nodes})
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"])


def launched(
    cluster: LocalCluster, alloc: str, *words: str, stdin: str = "", cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return cluster.cli("launch", "--alloc", alloc, *words, check=False, stdin=stdin, cwd=cwd)


def begun(cluster: LocalCluster, alloc: str, *words: str) -> "subprocess.Popen[str]":
    program = Path(sys.executable).with_name("lattice")
    return subprocess.Popen(
        [str(program), "launch", "--alloc", alloc, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    )


def test_ranks_are_laid_out_over_the_nodes_with_their_variables(cluster: LocalCluster, alloc: str) -> None:
    script = (
        "echo $PMI_RANK $PMI_SIZE $PMI_SPAWNED $LATTICE_LOCAL_RANK $LATTICE_LOCAL_SIZE $LATTICE_NODE_ID"
        " $LATTICE_NPROCS $LATTICE_NNODES $LATTICE_ALLOC_ID $LATTICE_STEP_ID $LATTICE_NODELIST"
    )
    done = launched(cluster, alloc, "-n", "6", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    nodes = cluster.allocation(alloc)["nodes"]
    lines = sorted(done.stdout.splitlines(), key=lambda line: int(line.split()[0]))
    assert lines == [f"{rank} 6 0 {rank % 2} 2 {nodes[rank // 2]} 6 3 {alloc} 0 {','.join(nodes)}" for rank in range(6)]


def test_a_prologue_of_tasks_changes_their_environment(cluster: LocalCluster, alloc: str, tmp_path: Path) -> None:
    prologue = tmp_path / "prologue"
    prologue.write_text('#!/bin/sh\ncat >/dev/null\necho "export GREETING=rank $LATTICE_RANK"\n')
    prologue.chmod(0o755)
    words = ("-n", "2", f"--task-prologue={prologue}", "sh", "-c", 'echo "$GREETING"')
    done = launched(cluster, alloc, *words)
    assert (sorted(done.stdout.splitlines()), done.returncode) == (["rank 0", "rank 1"], 0), done.stderr
    assert cluster.get(f"/allocations/{alloc}/steps/0")["name"] == "sh"
    fed = launched(cluster, alloc, "-n", "1", f"--task-prologue={prologue}", "cat", stdin="for the task\n")
    assert fed.stdout == "for the task\n"
    prologue.write_text("#!/bin/sh\nexit 9\n")
    failed = launched(cluster, alloc, *words)
    assert (failed.returncode, "ended with exit code 9" in failed.stderr) == (9, True)


def test_labels_stand_before_whole_lines(cluster: LocalCluster, alloc: str) -> None:
    done = launched(cluster, alloc, "-n", "12", "--label", "sh", "-c", "echo one; printf two")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == sorted(
        f"{rank:>2}: {word}" for rank in range(12) for word in ("one", "two")
    )


def test_the_highest_exit_code_counts_and_the_first_failure_ends_the_rest(cluster: LocalCluster, alloc: str) -> None:
    began = time.monotonic()
    done = launched(cluster, alloc, "-n", "3", "sh", "-c", "[ $PMI_RANK = 1 ] && exit 9; exec sleep 60")
    assert done.returncode == 9
    assert "task 1 on n2: exited with code 9" in done.stderr
    assert time.monotonic() - began < 30
    done = launched(cluster, alloc, "-n", "3", "--no-kill", "sh", "-c", "exit $PMI_RANK")
    assert done.returncode == 2


def test_stdin_goes_to_rank_0_or_to_all(cluster: LocalCluster, alloc: str) -> None:
    assert launched(cluster, alloc, "-n", "3", "--label", "cat", stdin="hello\nyou\n").stdout == "0: hello\n0: you\n"
    done = launched(cluster, alloc, "-n", "3", "--label", "--input", "all", "cat", stdin="hello\n")
    assert sorted(done.stdout.splitlines()) == ["0: hello", "1: hello", "2: hello"]
    done = launched(cluster, alloc, "-n", "3", "--label", "--input", "2", "cat", stdin="hello\n")
    assert done.stdout == "2: hello\n"
    assert launched(cluster, alloc, "-n", "2", "--input", "none", "cat", stdin="hello\n").stdout == ""


def test_the_end_of_input_reaches_a_step_that_had_to_wait_for_room(cluster: LocalCluster, alloc: str) -> None:
    first = begun(cluster, alloc, "-n", "12", "--input", "none", "sleep", "60")
    eventually(lambda: [step["state"] for step in steps_of(cluster, alloc)] == ["running"], "the first step")
    second = begun(cluster, alloc, "-n", "12", "--input", "all", "cat")
    try:
        assert second.stdin is not None
        second.stdin.close()
        second.stdin = None
        eventually(lambda: [step["state"] for step in steps_of(cluster, alloc)] == ["running", "waiting"], "the second")
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
        assert second.communicate(timeout=30)[0] == ""
        assert second.returncode == 0
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def steps_of(cluster: LocalCluster, alloc: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = cluster.get(f"/allocations/{alloc}/steps")["items"]
    return found


def test_large_input_and_output_arrive_complete(cluster: LocalCluster, alloc: str) -> None:
    text = "".join(f"line {number}\n" for number in range(300_000))
    done = launched(cluster, alloc, "-n", "1", "cat", stdin=text)
    assert done.returncode == 0
    assert done.stdout == text


def test_output_goes_to_files(cluster: LocalCluster, alloc: str, scratch: Path) -> None:
    done = launched(
        cluster, alloc, "-n", "3", "--output", f"{scratch}/out.%t", "sh", "-c", "echo $PMI_RANK; echo e >&2"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [(scratch / f"out.{rank}").read_text() for rank in range(3)] == [f"{rank}\ne\n" for rank in range(3)]
    launched(cluster, alloc, "-n", "3", "--output", f"{scratch}/all.%j.%s", "echo", "hi")
    [merged] = scratch.glob(f"all.{alloc}.*")
    assert merged.read_text() == "hi\n" * 3


def test_each_rank_may_run_a_program_of_its_own(cluster: LocalCluster, alloc: str, scratch: Path) -> None:
    plan = scratch / "plan"
    plan.write_text("# who does what\n1-2 echo middle %t %o\n* echo 'the rest' %t\n")
    done = launched(cluster, alloc, "-n", "4", "--multi-prog", str(plan))
    assert sorted(done.stdout.splitlines()) == ["middle 1 0", "middle 2 1", "the rest 0", "the rest 3"]


def test_a_script_launches_into_its_own_allocation(cluster: LocalCluster) -> None:
    script = "export GREETING=hello; cd /tmp; lattice launch -n 3 sh -c 'echo $GREETING $PMI_RANK $PWD'; exit $?"
    done = cluster.run(script, resources={"nodes": 3}, environment={"PATH": os.environ["PATH"]})
    assert (done["state"], done["exit_code"]) == ("Completed", 0), cluster.logs(done["id"])
    assert sorted(cluster.logs(done["id"]).splitlines()) == [f"hello {rank} /tmp" for rank in range(3)]


def test_steps_are_recorded_and_shown(cluster: LocalCluster, alloc: str) -> None:
    launched(cluster, alloc, "-n", "2", "true")
    launched(cluster, alloc, "-n", "2", "--no-kill", "sh", "-c", "exit $PMI_RANK")

    def recorded() -> bool:
        steps = cluster.get(f"/allocations/{alloc}/steps")["items"]
        return len(steps) == 2 and all(step["codes"] for step in steps)

    eventually(recorded, "both steps recorded")
    first, second = cluster.get(f"/allocations/{alloc}/steps")["items"]
    assert (first["id"], first["exit_code"], first["codes"], first["tasks"]) == (f"{alloc}.0", 0, {"0": 2}, 2)
    assert (second["exit_code"], second["codes"], second["nodes"]) == (1, {"0": 1, "1": 1}, ["n1", "n2"])
    assert first["peak_memory_mb"] > 0
    shown = cluster.cli("steps", alloc).stdout.splitlines()
    assert len(shown) == 3
    assert f"{alloc}.1" in shown[2]
    cluster.delete(f"/allocations/{alloc}")
    cluster.wait_end(alloc)
    assert [step["step"] for step in cluster.get(f"/allocations/{alloc}/steps")["items"]] == [0, 1]


def test_a_terminal_for_one_task(cluster: LocalCluster, alloc: str) -> None:
    done = launched(cluster, alloc, "--pty", "-n", "1", "sh", "-c", "tty; read x; echo got $x", stdin="word\n")
    assert done.returncode == 0
    assert "/dev/pts/" in done.stdout
    assert "got word" in done.stdout


def test_signals_reach_the_tasks_and_a_second_interrupt_ends_them(cluster: LocalCluster, alloc: str) -> None:
    script = "trap 'echo usr1' USR1; trap 'echo int' INT; echo ready; while :; do sleep 0.1; done"
    with begun(cluster, alloc, "-n", "1", "bash", "-c", script) as step:
        assert step.stdout is not None
        assert step.stdout.readline() == "ready\n"
        step.send_signal(signal.SIGUSR1)
        assert step.stdout.readline() == "usr1\n"
        step.send_signal(signal.SIGINT)
        assert step.stdout.readline() == "int\n"
        step.send_signal(signal.SIGINT)
        assert step.wait(30) == 130
    with begun(
        cluster, alloc, "-n", "1", "bash", "-c", "trap 'exit 5' INT; echo ready; while :; do sleep 0.1; done"
    ) as step:
        assert step.stdout is not None
        assert step.stdout.readline() == "ready\n"
        step.send_signal(signal.SIGINT)
        assert step.wait(30) == 5


def test_steps_wait_for_each_other_unless_they_overlap(cluster: LocalCluster, alloc: str) -> None:
    with begun(cluster, alloc, "-n", "12", "sh", "-c", "echo ready; exec sleep 60") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        assert launched(cluster, alloc, "-n", "1", "--overlap", "echo", "hi").stdout == "hi\n"
        busy = launched(cluster, alloc, "-n", "1", "--immediate", "true")
        assert busy.returncode == 1
        assert "have its CPUs" in busy.stderr
        with begun(cluster, alloc, "-n", "1", "echo", "after") as second:
            assert second.stderr is not None
            assert "waits for other steps" in second.stderr.readline()
            first.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
        first.wait(30)


def test_what_was_launched_ends_with_its_allocation(cluster: LocalCluster, alloc: str, scratch: Path) -> None:
    script = (
        f"echo $$ > {scratch}/$PMI_RANK.new; mv {scratch}/$PMI_RANK.new {scratch}/$PMI_RANK; trap '' TERM; sleep 600"
    )
    with begun(cluster, alloc, "-n", "3", "bash", "-c", script) as step:
        eventually(lambda: len(list(scratch.glob("[0-2]"))) == 3, "all tasks")
        pids = [int((scratch / str(rank)).read_text()) for rank in range(3)]
        cluster.delete(f"/allocations/{alloc}")
        assert step.wait(30) != 0
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all tasks gone")
    cluster.wait_end(alloc)


def test_time_limit_of_a_step(cluster: LocalCluster, alloc: str) -> None:
    done = launched(cluster, alloc, "-n", "2", "--time", "1s", "sleep", "60")
    assert done.returncode == 128 + signal.SIGTERM
    assert "time is over" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("-n", "13", "true"), 1, "more tasks than fit"),
        (("-w", "n9", "true"), 1, 'node "n9" is not part of the allocation'),
        (("-n", "3", "no-such-program"), 127, ": not started: no-such-program: command not found in PATH"),
        ((), 2, "no command given"),
        (("--env", "nonsense", "true"), 2, "NAME=VALUE"),
    ],
)
def test_mistakes_are_told(cluster: LocalCluster, alloc: str, words: tuple[str, ...], code: int, told: str) -> None:
    done = launched(cluster, alloc, *words)
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr


def test_launching_into_what_does_not_run(cluster: LocalCluster) -> None:
    held = cluster.submit(["true"], hold=True)["id"]
    done = launched(cluster, held, "true")
    assert (done.returncode, "is not running" in done.stderr, "Pending" in done.stderr) == (1, True, True)
    ended = cluster.run(["true"])["id"]
    done = launched(cluster, ended, "true")
    assert (done.returncode, "Completed" in done.stderr) == (1, True)
    assert launched(cluster, "a99999", "true").returncode == 4


def test_a_repeated_request_launches_once(cluster: LocalCluster, alloc: str, scratch: Path) -> None:
    body = {"argv": ["sh", "-c", f"echo x >> {scratch}/count"], "tasks": 1, "input": "none"}
    answers = [cluster.request("POST", f"/allocations/{alloc}/steps", body, request_id="same")[1] for _ in range(3)]
    assert {answer["id"] for answer in answers} == {f"{alloc}.0"}
    eventually(lambda: cluster.get(f"/allocations/{alloc}/steps")["items"][0]["ended_at"], "its record")
    again = cluster.request("POST", f"/allocations/{alloc}/steps", body, request_id="same")[1]
    assert again["id"] == f"{alloc}.0"
    assert (scratch / "count").read_text() == "x\n"
