"""What a user types, against a cluster of real processes."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e

PROGRAM = str(Path(sys.executable).with_name("lattice"))

SCRIPT = """#!/bin/bash
#LATTICE --name="two words" --walltime=10m
#LATTICE --env=GREETING='hello there' --tag=kind=test
echo "$GREETING, $1 of $LATTICE_JOB_NAME in $(pwd)"
echo trouble >&2
exit 3
"""


def as_json(outcome: "subprocess.CompletedProcess[str]") -> Any:  # noqa: ANN401
    return json.loads(outcome.stdout)


def submit(cluster: LocalCluster, *words: str) -> str:
    return cluster.cli("submit", "-q", *words).stdout.strip()


def test_a_script_from_submission_to_its_output(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "work.sh").write_text(SCRIPT)
    tmp_path.chmod(0o755)
    outcome = cluster.cli("submit", "--wait", "work.sh", "world", cwd=tmp_path, check=False)
    assert outcome.returncode == 3
    first, second = outcome.stdout.splitlines()
    allocation_id = first.removeprefix("Submitted allocation ")
    assert second == f"{allocation_id} failed with exit code 3"
    assert cluster.cli("logs", allocation_id).stdout == f"hello there, world of two words in {tmp_path}\n"
    assert cluster.cli("logs", allocation_id, "--stderr").stdout == (
        f"trouble\nlattice: {allocation_id} failed with exit code 3\n"
    )
    shown = as_json(cluster.cli("status", allocation_id, "-o", "json"))
    assert (shown["state"], shown["cause"], shown["exit_code"]) == ("Failed", "exit", 3)
    assert (shown["name"], shown["walltime_s"], shown["tags"]) == ("two words", 600, {"kind": "test"})


def test_a_number_is_as_good_as_an_id(cluster: LocalCluster) -> None:
    allocation_id = submit(cluster, "--", "true")
    number = allocation_id.removeprefix("a")
    assert cluster.cli("wait", number).stdout == f"{allocation_id} Completed\n"
    assert as_json(cluster.cli("status", number, "-o", "json"))["id"] == allocation_id


def test_bytes_come_back_as_they_were_written(cluster: LocalCluster) -> None:
    allocation_id = submit(cluster, "--wait", "--", "printf", r"\000\377\n\342\202")

    outcome = subprocess.run(
        [PROGRAM, "logs", allocation_id], env=cluster.environment(), capture_output=True, check=True
    )
    assert outcome.stdout == b"\x00\xff\n\xe2\x82"


def test_output_is_followed_line_by_line_until_the_end(cluster: LocalCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tmp_path.chmod(0o755)
    allocation_id = submit(
        cluster, "--", "sh", "-c", f"echo first; until [ -e {gate} ]; do sleep 0.05; done; echo last"
    )
    follower = subprocess.Popen(
        [PROGRAM, "logs", "--follow", allocation_id], env=cluster.environment(), stdout=subprocess.PIPE
    )
    with follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"first\n"
        gate.touch()
        assert follower.stdout.read() == b"last\n"
        assert follower.wait(timeout=20) == 0


def test_a_task_group_is_one_line_with_many_ends(cluster: LocalCluster) -> None:
    line = ("--task-group=0-3%2", "--", "sh", "-c", "exit $(( LATTICE_TASK_INDEX == 2 ? 9 : 0 ))")
    group = submit(cluster, *line)
    assert cluster.cli("wait", group, check=False).returncode == 9
    assert cluster.cli("wait", f"{group}_1", f"{group}_2", check=False).returncode == 9
    row = cluster.cli("status", group).stdout.splitlines()[1].split()
    assert (row[0], row[2], row[3]) == (group, "Failed", "1x4")
    assert len(cluster.cli("status", group, "--tasks", "-q").stdout.split()) == 4


def test_held_work_is_changed_released_and_watched_to_its_end(cluster: LocalCluster) -> None:
    allocation_id = submit(cluster, "--hold", "--", "true")
    assert "held" in cluster.cli("status", allocation_id).stdout
    cluster.cli("update", allocation_id, "--walltime=2h", "--priority=high", "--name=renamed")
    shown = as_json(cluster.cli("status", allocation_id, "-o", "json"))
    assert (shown["walltime_s"], shown["preemption_class"], shown["name"]) == (7200, 8, "renamed")
    watcher = subprocess.Popen(
        [PROGRAM, "watch", allocation_id, "-o", "json"],
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with watcher:
        assert watcher.stdout is not None
        assert json.loads(watcher.stdout.readline())["state"] == "Pending"
        cluster.cli("release", allocation_id)
        events = [json.loads(line) for line in watcher.stdout]
        assert watcher.wait(timeout=20) == 0
    assert [event["kind"] for event in events] == ["released", "placed", "started", "ended"]
    assert events[-1]["state"] == "Completed"


def test_cancelling_ends_the_wait_with_130(cluster: LocalCluster) -> None:
    allocation_id = submit(cluster, "--", "sleep", "300")
    cluster.wait_state(allocation_id, "Running")
    codes: list[int] = []
    waiter = threading.Thread(target=lambda: codes.append(cluster.cli("wait", allocation_id, check=False).returncode))
    waiter.start()
    cluster.cli("cancel", allocation_id)
    waiter.join()
    assert codes == [130]


def test_pending_work_of_ones_own_is_cancelled_and_nothing_else(cluster: LocalCluster) -> None:
    running = submit(cluster, "--", "sleep", "300")
    cluster.wait_state(running, "Running")
    pending = [submit(cluster, "--begin=now+1h", "--", "true") for _ in range(2)]
    said = cluster.cli("cancel", "--state=pending", "--all-mine").stdout.splitlines()
    assert sorted(said) == sorted(f"{allocation_id} cancelled" for allocation_id in pending)
    assert cluster.allocation(running)["state"] == "Running"


def test_the_list_is_complete_whatever_its_length(cluster: LocalCluster) -> None:
    group = submit(cluster, "--hold", "--name=many", "--task-group=1-1200", "--", "true")
    assert len(as_json(cluster.cli("status", "--name=many", "--tasks", "-o", "json"))) == 1200
    assert len(as_json(cluster.cli("status", "--name=many", "--tasks", "--limit=7", "-o", "json"))) == 7
    counts = as_json(cluster.cli("status", "--name=many", "--count", "-o", "json"))
    assert counts["states"].keys() == {"Pending"}
    cluster.cli("cancel", group)


def test_submitting_twice_under_one_request_id_submits_once(cluster: LocalCluster) -> None:
    line = ("--hold", "--request-id=once", "--", "true")
    assert submit(cluster, *line) == submit(cluster, *line)


def test_a_quota_speaks_in_figures(cluster: LocalCluster) -> None:
    cluster.cli("admin", "tenant", "set-quota", "--name=default", "--max-nodes=1")
    try:
        outcome = cluster.cli("submit", "--nodes=2", "--", "true", check=False)
    finally:
        cluster.cli("admin", "tenant", "set-quota", "--name=default", "--max-nodes=none")
    assert (outcome.returncode, outcome.stdout) == (1, "")
    lines = outcome.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert "max_nodes" in lines[0]
    assert {line.split(":")[0].strip() for line in lines[1:]} >= {"current", "requested", "limit"}
