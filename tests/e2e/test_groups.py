"""Task groups as users meet them: ranges, limits, what became of each task, and a server that dies in the middle."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

NODES = 4
HUNDRED_THOUSAND = 100_000


@pytest.fixture(scope="module")
def groups() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, settings={"archive.after_s": "20"}) as started:
        started.cli("admin", "vcluster", "update", "default", "--node-sharing=shared")
        yield started


@pytest.fixture
def cluster(groups: LocalCluster) -> Iterator[LocalCluster]:
    yield groups
    groups.wait_serving()
    groups.post("/allocations/cancel", {"all_mine": True})


def submit(cluster: LocalCluster, tasks: str, shell: str, *flags: str) -> str:
    """The id that `submit -q` prints."""
    words = ("submit", "-q", "--cpus=1", f"--task-group={tasks}", *flags, "--", "sh", "-c", shell)
    return cluster.cli(*words).stdout.strip()


def tasks_of(cluster: LocalCluster, group: str) -> dict[int, dict[str, object]]:
    page = cluster.get(f"/allocations?group={group}&all=true&limit=10000")
    return {task["task_index"]: task for task in page["items"]}


def test_every_task_of_ranges_lists_and_steps_runs_once_with_its_own_index(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    group = submit(cluster, "0-8:4,20,30-31", f"echo ${{INDEX}} $LATTICE_TASK_INDEX >> {tmp_path}/$LATTICE_TASK_INDEX")
    outcome = cluster.cli("wait", group)
    assert outcome.returncode == 0, outcome
    indices = [0, 4, 8, 20, 30, 31]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {str(i): f"{i} {i}\n" for i in indices}
    assert sorted(tasks_of(cluster, group)) == indices


def test_no_more_tasks_run_at_once_than_allowed_and_the_limit_can_be_changed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    wait_for = tmp_path / "go"
    group = submit(cluster, "0-5%2", f"until [ -e {wait_for} ]; do sleep 0.05; done")
    counts = eventually(lambda: _running(cluster, group, 2), "two tasks run")
    assert counts == {**counts, "running": 2, "pending": 4, "concurrency": 2, "pending_indices": "2-5"}
    cluster.cli("update", group, "--concurrency=4")
    assert eventually(lambda: _running(cluster, group, 4), "four tasks run")["pending"] == 2
    sheet = cluster.cli("status", group, "--verbose").stdout
    assert "6, max 4: 2 pending (4-5), 4 running" in sheet
    assert "1x4" in cluster.cli("status", group).stdout
    wait_for.touch()
    assert cluster.wait_end(group)["state"] == "Completed"


def _running(cluster: LocalCluster, group: str, wanted: int) -> dict[str, object] | None:
    counts = cluster.allocation(group)["tasks"]
    return counts if counts["running"] == wanted else None


def test_wait_ends_with_the_highest_code_and_logs_show_each_task(cluster: LocalCluster) -> None:
    group = submit(cluster, "0-3", "echo out $LATTICE_TASK_INDEX; exit $LATTICE_TASK_INDEX")
    outcome = cluster.cli("wait", group, check=False)
    assert outcome.returncode == 3
    assert "3 of 4 tasks failed" in outcome.stdout
    assert cluster.cli("logs", group).stdout == "".join(f"==> {group}_{i} <==\nout {i}\n" for i in range(4))
    codes = {index: task["exit_code"] for index, task in tasks_of(cluster, group).items()}
    assert codes == {0: 0, 1: 1, 2: 2, 3: 3}


def test_ranges_are_held_released_and_cancelled_by_one_order_each(cluster: LocalCluster) -> None:
    group = submit(cluster, f"0-{HUNDRED_THOUSAND - 1}", "true", "--hold")
    assert cluster.cli("cancel", f"{group}_[10-99999]").stdout == f"{group}_[10-99999] is being cancelled (Pending)\n"
    counts = cluster.allocation(group)["tasks"]
    assert (counts["cancelled"], counts["pending"], counts["pending_indices"]) == (99_990, 10, "0-9")
    cluster.cli("release", f"{group}_3-5")
    eventually(lambda: cluster.allocation(group)["tasks"]["completed"] == 3, "three tasks ran")
    held = cluster.cli("status", f"{group}_[0,3]", "-o", "json").stdout
    assert re.findall(r'"state": "(\w+)"', held) == ["Pending", "Completed"]
    assert cluster.allocation(f"{group}_99999")["state"] == "Cancelled"
    cluster.cli("hold", f"{group}_[6-7]")
    cluster.cli("release", group)
    assert cluster.wait_end(group)["tasks"]["completed"] == 10


def test_a_range_of_running_tasks_is_requeued(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    again = "test $LATTICE_RUN = 1 && touch {0}/$LATTICE_TASK_INDEX && sleep 100"
    group = submit(cluster, "1-3", f"{again.format(tmp_path)}; true")
    eventually(lambda: len(list(tmp_path.iterdir())) == 3, "all tasks run")
    eventually(lambda: all(t["state"] == "Running" for t in tasks_of(cluster, group).values()), "and are known to")
    cluster.cli("requeue", f"{group}_[1-2]")
    eventually(lambda: cluster.allocation(group)["tasks"]["completed"] == 2, "two ran again")
    runs = {index: task["restart_count"] for index, task in tasks_of(cluster, group).items()}
    assert runs == {1: 1, 2: 1, 3: 0}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{}_[3-", 'cannot read "{}_[3-"'),
        ("{}_9-3", "9-3 runs backwards"),
        ("{}_[50-60]", "{} has no task 50-60"),
        ("{}_[0,7]", "{} has no task 7"),
    ],
)
def test_ranges_that_make_no_sense_are_refused_with_a_reason(cluster: LocalCluster, name: str, said: str) -> None:
    group = submit(cluster, "0-4", "true", "--hold")
    outcome = cluster.cli("cancel", name.format(group), check=False)
    assert outcome.returncode != 0
    assert said.format(group) in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_killed_server_leaves_a_group_in_the_middle_correct(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    group = submit(cluster, "0-199", f"echo x >> {tmp_path}/$LATTICE_TASK_INDEX; exit $((LATTICE_TASK_INDEX % 2))")
    eventually(lambda: cluster.allocation(group)["tasks"]["completed"] > 20, "some tasks ended")
    cluster.wait_replaced(cluster.kill("server"))
    cluster.wait_serving()
    counts = cluster.wait_end(group, within_s=60)["tasks"]
    assert (counts["completed"], counts["failed"], counts["cancelled"]) == (100, 100, 0)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == list(range(200))
    ran_twice = [path.name for path in tmp_path.iterdir() if path.read_text() != "x\n"]
    assert ran_twice == []
    ends = {index: (task["state"], task["exit_code"]) for index, task in tasks_of(cluster, group).items()}
    assert ends == {i: ("Failed", 1) if i % 2 else ("Completed", 0) for i in range(200)}


def test_archived_tasks_are_still_known_one_by_one(cluster: LocalCluster) -> None:
    group = submit(cluster, "5-9", "exit $((LATTICE_TASK_INDEX == 7))")
    before = {}

    def is_archived() -> bool:
        return bool(cluster.allocation(group)["archived"])

    cluster.wait_end(group)
    before = tasks_of(cluster, group)
    cluster.cli("admin", "config", "set", "archive.after_s=1")
    eventually(is_archived, "the group is archived", within_s=30)
    after = tasks_of(cluster, group)
    for index, task in before.items():
        assert after[index] == {**task, "archived": True}
    assert cluster.allocation(f"{group}_7")["state"] == "Failed"
    assert cluster.get(f"/allocations/count?group={group}&all=true")["states"] == {"Completed": 4, "Failed": 1}
    assert cluster.cli("wait", group, check=False).returncode == 1


def test_the_end_of_work_says_what_was_used(cluster: LocalCluster) -> None:
    burn = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.5: bytearray(20_000_000)"
    ended = cluster.cli(
        "submit", "-q", "--cpus=1", "--memory=512M", "--summary", "--wait", "--", "python3", "-c", burn
    ).stdout.split()
    seen = cluster.allocation(ended[0])
    # How much of the elapsed time that was depends on what else the machine does; that is told in whole seconds.
    assert 0.45 <= seen["cpu_s"] <= 1.1 * (seen["elapsed_s"] + 1)
    assert 0 < seen["cpu_efficiency"] <= 110
    assert 0 < seen["memory_efficiency"] <= 100
    last = cluster.logs(ended[0], "stderr").splitlines()[-1]
    assert re.fullmatch(
        rf"lattice: {ended[0]} ended with exit code 0 after 00:00:\d\d, CPU 00:00:0\d \([\d.]+%\), "
        r"peak memory \d+ MB \([\d.]+%\)",
        last,
    )
    assert "of what it held" in cluster.cli("status", ended[0], "--verbose").stdout


def test_a_report_sums_up_what_ended(cluster: LocalCluster) -> None:
    cluster.wait_end(submit(cluster, "0-9", "exit $((LATTICE_TASK_INDEX == 0))", "--project=reported"))
    report = cluster.get("/reports/usage?by=project")
    row = next(row for row in report["rows"] if row["name"] == "reported")
    assert (row["allocations"], row["completed"], row["failed"]) == (10, 9, 1)
    assert row["wait_p95_s"] >= row["wait_p50_s"] >= 0
    assert report["total"]["allocations"] >= 10
    text = cluster.cli("report", "--by=project", "--project=reported", "--csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(line["name"], line["allocations"]) for line in rows] == [("reported", "10")]
    assert "reported" in cluster.cli("report", "--by=project").stdout
