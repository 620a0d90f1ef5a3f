"""What becomes of work: real processes, seen through the API and through what they leave behind."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running

pytestmark = pytest.mark.e2e

# Forks a child into a session of its own; both ignore SIGTERM and say who they are.
STUBBORN = """
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ > {pids}.child; while :; do sleep 1; done' &
echo $$ > {pids}.main
while :; do sleep 1; done
"""


def pids_of(scratch: Path, *names: str) -> list[int]:
    def look() -> list[int] | None:
        try:
            return [int((scratch / name).read_text()) for name in names]
        except (FileNotFoundError, ValueError):
            return None

    return eventually(look, f"{names} in {scratch}")


def test_a_command_runs_and_its_output_is_complete_when_its_end_is_visible(cluster: LocalCluster) -> None:
    done = cluster.run(["sh", "-c", "seq 1 2000; echo oops >&2"])
    assert (done["state"], done["exit_code"], done["cause"]) == ("Completed", 0, "exit")
    assert cluster.logs(done["id"]).split() == [str(number) for number in range(1, 2001)]
    assert cluster.logs(done["id"], "stderr") == "oops\n"
    assert done["started_at"] <= done["completed_at"]


def test_the_argument_vector_arrives_as_it_was_given(cluster: LocalCluster) -> None:
    words = ["a b", "$HOME", "", "'", '"x"', "*", "ä\n"]
    done = cluster.run(["/usr/bin/env", "python3", "-c", "import json,sys; print(json.dumps(sys.argv[1:]))", *words])
    assert json.loads(cluster.logs(done["id"])) == words


def test_a_string_runs_under_the_shell(cluster: LocalCluster) -> None:
    done = cluster.run("echo $((20 + 3)) | tr 2 x")
    assert cluster.logs(done["id"]) == "x3\n"


def test_a_script_runs_with_its_arguments(cluster: LocalCluster) -> None:
    script = "#!/bin/sh\necho script $1 $#\n"
    done = cluster.wait_end(cluster.post("/allocations", {"script": script, "script_args": ["one", "t w o"]})["id"])
    assert cluster.logs(done["id"]) == "script one 2\n"


def test_the_workload_knows_where_it_is(cluster: LocalCluster, scratch: Path) -> None:
    done = cluster.run(["sh", "-c", "env; pwd"], name="who", cwd=str(scratch), environment={"MINE": "1"})
    lines = cluster.logs(done["id"]).splitlines()
    variables = dict(line.partition("=")[::2] for line in lines)
    assert variables["LATTICE_ALLOC_ID"] == done["id"]
    assert variables["LATTICE_JOB_NAME"] == "who"
    assert variables["LATTICE_NODELIST"] == ",".join(done["nodes"])
    assert variables["LATTICE_NNODES"] == "1"
    assert variables["MINE"] == "1"
    assert lines[-1] == str(scratch)
    assert "LATTICE_TOKEN" not in variables


def test_exit_codes_signals_and_memory_kills_are_told_apart(cluster: LocalCluster) -> None:
    failed = cluster.run(["sh", "-c", "exit 7"])
    assert (failed["state"], failed["cause"], failed["exit_code"]) == ("Failed", "exit", 7)
    killed = cluster.run(["sh", "-c", "kill -SEGV $$"])
    assert (killed["state"], killed["cause"], killed["signal"]) == ("Failed", "signal", signal.SIGSEGV)
    missing = cluster.run(["/no/such/program"])
    assert (missing["state"], missing["cause"]) == ("Failed", "launch")
    assert "/no/such/program" in missing["message"]


@pytest.fixture
def shared_nodes(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster while allocations may share a node, and so have limits."""
    cluster.put("/vclusters/default", {"node_sharing": "shared"})
    yield cluster
    cluster.put("/vclusters/default", {"node_sharing": "exclusive"})


EATER = ["python3", "-c", "import time\nx = bytearray(400 << 20)\ntime.sleep(30)"]


@pytest.mark.root
def test_work_that_uses_more_memory_than_it_has_is_ended_for_that(shared_nodes: LocalCluster) -> None:
    done = shared_nodes.run(EATER, resources={"nodes": 1, "cpus": 1, "memory": "64M"})
    assert (done["state"], done["cause"]) == ("Failed", "oom")
    assert "out of memory, limit 64 MB, peak 6" in done["message"]
    assert ", python3 (pid " in done["message"]


@pytest.mark.root
def test_share_gets_no_more_cpu_time_than_it_asked_for(shared_nodes: LocalCluster) -> None:
    spin = "import time\nuntil = time.monotonic() + 2\nwhile time.monotonic() < until: pass\n"
    # One write each: output of Python is not buffered in a run, where `print` writes the end of a line separately.
    twins = f"import os, time\nos.fork()\n{spin}os.write(1, b'%f\\n' % time.process_time())"
    done = shared_nodes.run(["python3", "-c", twins], resources={"nodes": 1, "cpus": 1, "memory": "256M"})
    used = sum(float(line) for line in shared_nodes.logs(done["id"]).split())
    assert used < 2.4  # two processes, one CPU, two seconds


@pytest.mark.root
def test_fork_bomb_is_held_and_its_node_goes_on(shared_nodes: LocalCluster) -> None:
    wanted = {"nodes": 1, "cpus": 1, "memory": "512M", "constraints": {"nodes": ["n1"]}}
    bomb = "import os, time\nmade = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        made += 1\n"
    bomb += "except OSError: print(made)"
    done = shared_nodes.run(["python3", "-c", bomb], resources=wanted)
    assert 0 < int(shared_nodes.logs(done["id"])) < 512
    assert shared_nodes.run(["true"], resources=wanted)["state"] == "Completed"


@pytest.mark.root
def test_memory_that_was_asked_for_is_a_limit_on_a_whole_node_too(cluster: LocalCluster) -> None:
    done = cluster.run(EATER, resources={"nodes": 1, "memory": "64M"})
    assert (done["state"], done["cause"]) == ("Failed", "oom")


def test_small_allocations_share_a_node_up_to_its_capacity(shared_nodes: LocalCluster, scratch: Path) -> None:
    waiting = f"echo $$ >> {scratch}/began; while [ ! -e {scratch}/go ]; do sleep 0.05; done"
    wanted = {"nodes": 1, "cpus": 3, "memory": "1G", "constraints": {"nodes": ["n1"]}}
    big, small, queued = (shared_nodes.submit(waiting, resources={**wanted, "cpus": cpus}) for cpus in (3, 1, 1))
    for allocation in (big, small):
        shared_nodes.wait_state(allocation["id"], "Running")
    assert shared_nodes.nodes()["n1"]["holding"] == "shared"
    assert shared_nodes.nodes()["n1"]["free"]["cpus"] == 0
    assert shared_nodes.allocation(queued["id"])["state"] == "Pending"
    (scratch / "go").touch()
    for allocation in (big, small, queued):
        assert shared_nodes.wait_end(allocation["id"])["state"] == "Completed"


def test_cancel_ends_every_process_even_those_that_refuse(cluster: LocalCluster, scratch: Path) -> None:
    submitted = cluster.submit(STUBBORN.format(pids=scratch / "pid"))
    pids = pids_of(scratch, "pid.main", "pid.child")
    cluster.delete(f"/allocations/{submitted['id']}")
    done = cluster.wait_end(submitted["id"])
    assert (done["state"], done["cause"]) == ("Cancelled", "cancelled")
    assert [pid for pid in pids if is_running(pid)] == []


def test_walltime_ends_work_in_real_time(cluster: LocalCluster, scratch: Path) -> None:
    began = time.monotonic()
    done = cluster.run(STUBBORN.format(pids=scratch / "pid"), lifecycle={"type": "bounded", "walltime": "2s"})
    took = time.monotonic() - began
    assert (done["state"], done["cause"]) == ("Failed", "walltime")
    assert 2.0 <= took < 25.0  # it ignores the first signal, and has 2 s for it
    assert [pid for pid in pids_of(scratch, "pid.main", "pid.child") if is_running(pid)] == []


def test_background_processes_do_not_outlive_their_allocation(cluster: LocalCluster, scratch: Path) -> None:
    done = cluster.run(f"setsid sleep 300 & echo $! > {scratch}/pid; exit 0")
    assert done["state"] == "Completed"
    assert not is_running(pids_of(scratch, "pid")[0])


def test_one_entrypoint_for_an_allocation_of_several_nodes(cluster: LocalCluster) -> None:
    done = cluster.run(["sh", "-c", "echo $LATTICE_NODELIST"], resources={"nodes": 3})
    assert len(done["nodes"]) == 3
    assert cluster.logs(done["id"]) == ",".join(done["nodes"]) + "\n"


def test_a_node_is_held_by_one_allocation_at_a_time(cluster: LocalCluster, scratch: Path) -> None:
    overlap = f"mkdir {scratch}/$LATTICE_NODE_ID || exit 9; sleep 0.2; rmdir {scratch}/$LATTICE_NODE_ID"
    ids = [cluster.submit(overlap)["id"] for _ in range(12)]
    assert {cluster.wait_end(allocation_id)["state"] for allocation_id in ids} == {"Completed"}


def test_tasks_of_a_group_run_each_with_its_index(cluster: LocalCluster) -> None:
    group = cluster.submit("echo task $LATTICE_TASK_INDEX", tasks="0-4%2")
    done = cluster.wait_end(group["id"])
    assert done["state"] == "Completed"
    assert done["tasks"]["completed"] == 5


def test_held_work_waits_for_its_release(cluster: LocalCluster) -> None:
    held = cluster.submit(["true"], hold=True)
    after = cluster.run(["true"])
    assert after["state"] == "Completed"
    assert cluster.allocation(held["id"])["state"] == "Pending"
    cluster.post(f"/allocations/{held['id']}/release")
    assert cluster.wait_end(held["id"])["state"] == "Completed"


def test_requeue_by_the_user_runs_the_same_allocation_again(cluster: LocalCluster, scratch: Path) -> None:
    first = cluster.submit(f"echo $LATTICE_RUN >> {scratch}/runs; [ $LATTICE_RUN = 2 ] || sleep 60")
    runs = scratch / "runs"
    eventually(lambda: runs.exists() and runs.read_text() == "1\n", "the first run began")
    cluster.post(f"/allocations/{first['id']}/requeue")
    done = cluster.wait_end(first["id"])
    assert (done["state"], done["run"], done["restart_count"]) == ("Completed", 2, 1)
    assert runs.read_text().split() == ["1", "2"]


def test_a_full_queue_starts_in_order_of_class_and_age(cluster: LocalCluster, scratch: Path) -> None:
    blockers = [cluster.submit(["sleep", "60"]) for _ in range(3)]
    for blocker in blockers:
        cluster.wait_state(blocker["id"], "Running")
    queued = [
        cluster.submit(f"echo {name} >> {scratch}/order", resources={"nodes": 3}, lifecycle={"preemption_class": level})
        for name, level in (("old", 3), ("urgent", 8), ("young", 3))
    ]
    assert cluster.allocation(queued[0]["id"])["state"] == "Pending"
    for blocker in blockers:
        cluster.delete(f"/allocations/{blocker['id']}")
    for allocation in queued:
        assert cluster.wait_end(allocation["id"])["state"] == "Completed"
    assert (scratch / "order").read_text().split() == ["urgent", "old", "young"]


def test_output_can_be_followed_while_it_is_written(cluster: LocalCluster, scratch: Path) -> None:
    submitted = cluster.submit(f"echo first; while [ ! -e {scratch}/go ]; do sleep 0.05; done; echo second")
    with cluster.client() as client:
        chunks = iter(client.stream_logs(submitted["id"]))
        assert next(chunks).data == b"first\n"
        (scratch / "go").touch()
        rest = b"".join(chunk.data for chunk in chunks)
    assert rest == b"second\n"


def test_workload_belongs_to_the_user_who_started_the_cluster(cluster: LocalCluster) -> None:
    done = cluster.run(["id", "-u"])
    assert cluster.logs(done["id"]).strip() == str(os.getuid())
