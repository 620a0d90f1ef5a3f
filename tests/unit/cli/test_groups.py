"""Task groups and reports at the command line: several tasks by one name, output of all of them, sums of what ended."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.cli.runner import Cli, allocation, ended
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

COUNTS = {
    "size": 100, "pending": 5, "running": 20, "completed": 70, "failed": 4, "cancelled": 1,
    "concurrency": 20, "pending_indices": "95-99",
}  # fmt: skip
ROW = {
    "name": "alice", "tenant": "physics", "allocations": 12, "completed": 10, "failed": 2, "cancelled": 0,
    "node_hours": 3.5, "gpu_hours": 0.25, "cpu_hours": 2.5, "wait_mean_s": 61.0, "wait_p50_s": 5.0,
    "wait_p95_s": 3723.0, "cpu_efficiency": 87.5, "memory_efficiency": None,
}  # fmt: skip
REPORT = {"by": "user", "since": "2026-03-01T00:00:00Z", "until": "2026-04-01T00:00:00Z", "rows": [ROW], "total": ROW}


@pytest.mark.parametrize(("word", "told"), [("hold", "held"), ("release", "released"), ("requeue", "requeued")])
@pytest.mark.parametrize("name", ["a17_[3-7,9]", "17_3-7"])
def test_several_tasks_are_called_as_they_were_named(word: str, told: str, name: str, api: FakeApi, cli: Cli) -> None:
    api.on("POST", f"/allocations/{quote(name, safe='')}/{word}", allocation(tasks=COUNTS))
    assert cli(word, name).out == f"{name} {told}\n"
    assert cli(word, name, "-o", "json").json["id"] == "a17"


def test_status_of_several_tasks_is_a_list(api: FakeApi, cli: Cli) -> None:
    tasks = [ended(18 + index, group_id="a17", task_index=index) for index in (4, 3)]
    api.on("GET", "/allocations", {"items": tasks})
    assert [task["id"] for task in cli("status", "a17_[3-4]", "-o", "json").json] == ["a21", "a22"]
    assert dict(api.last().query)["group"] == "a17_[3-4]"


def test_a_group_in_full_says_what_became_of_its_tasks_and_what_they_used(api: FakeApi, cli: Cli) -> None:
    used: dict[str, Any] = {"cpu_s": 3725.0, "peak_memory_mb": 96, "cpu_efficiency": 91.25, "memory_efficiency": 18.75}
    api.on("GET", "/allocations/a17", allocation(tasks=COUNTS, **used))
    api.on("GET", "/allocations/a17/explanation", {"id": "a17"})
    api.on(
        "GET", "/allocations", {"items": [ended(18 + index, group_id="a17", task_index=index) for index in (9, 2, 1)]}
    )
    lines = cli("status", "a17", "--verbose").lines
    assert any(
        line.endswith("100, max 20: 5 pending (95-99), 20 running, 70 completed, 4 failed, 1 cancelled")
        for line in lines
    )
    assert any(line.endswith("1-2,9") for line in lines if line.startswith("Failed tasks"))
    assert any(line.endswith("01:02:05 (91.2% of what it held)") for line in lines)
    assert any(line.endswith("96 MB (18.8% of what it held)") for line in lines)


def test_logs_of_a_group_are_those_of_its_tasks_that_ran(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", refusal(400, "invalid", "a17 is a task group"))
    api.on("GET", "/allocations/a17", allocation(tasks=COUNTS))
    started = [ended(20, group_id="a17", task_index=2, run=1), ended(18, group_id="a17", task_index=0, run=2)]
    waiting = allocation(19, group_id="a17", task_index=1, run=0)
    api.on("GET", "/allocations", {"items": [started[0], waiting, started[1]]})
    api.on("GET", "/allocations/a17_0/logs", Reply(raw=b"zero\n"))
    api.on("GET", "/allocations/a17_2/logs", Reply(raw=b"two\n"))
    assert cli("logs", "a17", "--stdout").out == "==> a17_0 <==\nzero\n==> a17_2 <==\ntwo\n"


def test_logs_that_are_refused_for_another_reason_stay_refused(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", refusal(400, "invalid", "run: 7 is not possible"))
    api.on("GET", "/allocations/a17", allocation())
    outcome = cli("logs", "a17")
    assert (outcome.code != 0, outcome.err) == (True, "error: run: 7 is not possible\n")


def test_the_number_of_tasks_at_once_is_updated(api: FakeApi, cli: Cli) -> None:
    api.on("PATCH", "/allocations/a17", allocation(tasks=COUNTS))
    assert cli("update", "a17", "--concurrency=0").out == "a17 updated\n"
    assert api.last().json == {"concurrency": 0}


def test_a_report_is_a_table_with_times_and_percents(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/reports/usage", REPORT)
    outcome = cli("report", "--since=2026-03-01T00:00:00Z", "--tag=a=1")
    head, row = outcome.lines
    assert head.split()[0] == "USER"
    assert row.split() == [
        "alice",
        "physics",
        "12",
        "2",
        "3.50",
        "0.25",
        "00:01:01",
        "00:00:05",
        "01:02:03",
        "87.5%",
        "-",
    ]
    assert "finished from 2026-03-01T00:00:00Z to 2026-04-01T00:00:00Z" in outcome.err
    asked = dict(api.last().query)
    assert asked == {"by": "user", "since": "2026-03-01T00:00:00Z", "tag": "a=1"}


def test_several_rows_have_a_total_and_csv_has_none(api: FakeApi, cli: Cli) -> None:
    total = {**ROW, "name": "total", "tenant": ""}
    api.on("GET", "/reports/usage", {**REPORT, "by": "project", "rows": [ROW, {**ROW, "name": "bob"}], "total": total})
    assert [line.split()[0] for line in cli("report", "--by=project").lines] == ["PROJECT", "alice", "bob", "total"]
    lines = cli("report", "--by=project", "--csv").lines
    assert lines[0].startswith("name,tenant,allocations,completed")
    assert lines[1] == "alice,physics,12,10,2,0,3.5,0.25,2.5,61.0,5.0,3723.0,87.5,"
    assert len(lines) == 3
    assert cli("report", "-o", "json").json["total"]["name"] == "total"
    assert cli("report", "--by=shoe").code == 2


def test_tasks_are_shown_by_their_index(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(18, group_id="a17", task_index=0)]})
    assert cli("status", "a17", "--tasks").table()[1][-1] == "a17_0"


def test_what_an_allocation_waits_for_is_shown_in_full(api: FakeApi, cli: Cli) -> None:
    waiting = allocation(
        18, state="Pending", depends_on="a17:success", mutex="db", dag_id="d3", tags={"b": "2", "a": "1"}
    )
    api.on("GET", "/allocations/a18", waiting)
    api.on("GET", "/allocations/a18/explanation", {"id": "a18"})
    shown = cli("status", "a18", "--verbose").out
    for name, text in (("DAG", "d3"), ("Depends on", "a17:success"), ("Mutex", "db"), ("Tags", "a=1, b=2")):
        assert f"{name}:".ljust(13) in shown
        assert f" {text}\n" in shown
