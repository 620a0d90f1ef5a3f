"""`explain`, `status --verbose`, `submit --dry-run`: why it waits and when it starts."""

import pytest

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal

WAITING = {
    "id": "a17",
    "state": "Pending",
    "reason": "all suitable nodes occupied: 1 of 3 nodes free, 2 busy; the 3rd is free at 14:20 UTC",
    "scores": {"priority": 0.5, "wait_time": 0.25, "total": 0.375},
    "rank": 2,
    "predicted_start": "2026-03-05T14:20:00.000Z",
    "predicted_nodes": ["n1", "n2", "n3"],
}
RUNNING: dict[str, object] = {
    "id": "a18",
    "state": "Running",
    "reason": "",
    "scores": {},
    "rank": None,
    "predicted_start": None,
}
REASON = "all suitable nodes occupied: 1 of 3 nodes free, 2 busy; the 3rd is free at 14:20"  # local, here UTC


def test_an_explanation_in_full(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/explanation", WAITING)
    assert cli("explain", "a17").lines == [
        "Allocation:       a17",
        "State:            Pending",
        f"Reason:           {REASON}",
        "Place in queue:   2",
        "Predicted start:  today 14:20, in 2 h",
        "Predicted nodes:  n1,n2,n3",
        "Score:            0.3750 (priority 0.500, wait_time 0.250)",
    ]
    assert cli("explain", "a17", "-o", "json").json == WAITING


def test_whom_it_could_preempt_and_what_holds_it_back_are_shown(api: FakeApi, cli: Cli) -> None:
    preemption = {"could_take": 0, "protected": {"young": 1}, "text": "it may preempt none of 1 running"}
    penalty = {"factor": 0.55, "text": "soft quota penalty: tenant physics has used 36.0 of 40 GPU-hours"}
    more = {"preemption": preemption, "penalty": penalty, "images": "in the cache of 2 of 3 suitable nodes"}
    api.on("GET", "/allocations/a17/explanation", {**WAITING, **more})
    lines = cli("explain", "a17").lines
    assert "Preemption:       it may preempt none of 1 running" in lines
    assert "Images:           in the cache of 2 of 3 suitable nodes" in lines
    assert "Budget:           soft quota penalty: tenant physics has used 36.0 of 40 GPU-hours" in lines
    api.on("GET", "/allocations/a17", allocation(state="Pending", nodes=[], started_at=None))
    assert "soft quota penalty" in cli("status", "a17", "--verbose").out


def test_how_safe_running_work_is_is_shown(api: FakeApi, cli: Cli) -> None:
    standing = {
        "is_protected": True,
        "safe_until": "2026-03-05T14:20:00.000Z",
        "cost_hours": 0.5,
        "unit": "node",
        "text": "it is not preempted before 2026-03-05T14:20:00.000Z: it has run for less than preemption.min_runtime_s",
        "notice_s": None,
    }
    api.on("GET", "/allocations/a18/explanation", {**RUNNING, "standing": standing})
    assert "it is not preempted before today 14:20" in cli("explain", "a18").out


def test_several_explanations_and_one_that_does_not_exist(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/explanation", WAITING)
    api.on("GET", "/allocations/a18/explanation", RUNNING)
    api.on("GET", "/allocations/a404/explanation", refusal(404, "not_found", 'no allocation "a404"'))
    outcome = cli("explain", "a17", "a404", "a18")
    assert outcome.code == 4
    assert 'no allocation "a404"' in outcome.err
    assert "State:       Running" in outcome.out
    assert [why["id"] for why in cli("explain", "a17", "a18", "-o", "json").json] == ["a17", "a18"]
    assert cli("explain").code == 2


def test_a_status_in_full_says_why_it_waits(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", allocation(state="Pending", nodes=[], started_at=None))
    api.on("GET", "/allocations/a17/explanation", WAITING)
    out = cli("status", "a17", "--verbose").out
    assert "Submitted:        today 10:00, 2 h ago" in out
    assert f"Reason:           {REASON}" in out
    assert "Predicted start:  today 14:20, in 2 h" in out
    shown = cli("status", "a17", "-v", "-o", "json").json
    assert (shown["id"], shown["explanation"]["rank"]) == ("a17", 2)


def test_a_dry_run_tells_the_start_and_submits_nothing(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", {**WAITING, "id": None})
    outcome = cli("submit", "--dry-run", "--nodes=3", "--", "true")
    assert outcome.code == 0
    assert outcome.lines == [
        f"It would wait: {REASON}",
        "Place in queue: 2",
        "Predicted start: today 14:20, in 2 h on n1,n2,n3",
    ]
    assert api.last().parameter("dry_run") == "true"
    assert api.asked[0].json["resources"]["nodes"] == 3
    assert cli("submit", "--dry-run", "-o", "json", "--", "true").json["rank"] == 2


def test_a_dry_run_of_what_would_start_now(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", {"state": "Pending", "predicted_nodes": ["n1"], "rank": None})
    assert cli("submit", "--dry-run", "--", "true").out == "It would start now on n1\n"


def test_a_dry_run_is_refused_in_the_words_of_the_server(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", refusal(422, "infeasible", 'vCluster "default" has not enough nodes'))
    outcome = cli("submit", "--dry-run", "--nodes=99", "--", "true")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith('error: vCluster "default" has not enough nodes')


@pytest.mark.parametrize("line", [("--dry-run", "--wait", "--", "true"), ("script.sh",)])
def test_a_dry_run_is_neither_waited_for_nor_a_script_s_own_choice(
    line: tuple[str, ...], api: FakeApi, cli: Cli
) -> None:
    cli.write("script.sh", "#!/bin/sh\n#LATTICE --dry-run\ntrue\n")
    assert cli("submit", *line).code == 2
    assert api.asked == []


@pytest.mark.parametrize(
    ("flags", "told", "tried"),
    [
        (("--walltime=2h",), "It starts now with --walltime=60m", ["90m", "60m"]),
        (("--walltime=02:00:00",), "", []),
    ],
)
def test_a_dry_run_says_what_would_start_sooner(
    flags: tuple[str, ...], told: str, tried: list[str], api: FakeApi, cli: Cli
) -> None:
    asked: list[str] = []

    def plan(request: Asked) -> Reply:
        asked.append(request.json["lifecycle"]["walltime"])
        return Reply(json={**WAITING, "id": None, "rank": None if asked[-1] == "60m" else 1})

    api.on("POST", "/allocations", plan)
    outcome = cli("submit", "--dry-run", *flags, "--", "true")
    assert (asked[1:], told in outcome.lines) == (tried, bool(told))
    assert all(each.parameter("dry_run") == "true" for each in api.asked)


def test_what_would_let_it_start_sooner(api: FakeApi, cli: Cli) -> None:
    details = {"entrypoint": ["true"], "environment": {"A": "1"}}
    wanted = {"nodes": 4, "cpus": 0, "memory_mb": 0, "gpus": 0}
    recorded = allocation(17, state="Pending", walltime_s=7200, resources=wanted, details=details)
    asked: list[tuple[str, int]] = []

    def plan(request: Asked) -> Reply:
        body = request.json
        walltime, nodes = body["lifecycle"]["walltime"], body["resources"]["nodes"]
        asked.append((walltime, nodes))
        assert body["environment"] == {"A": "1"}
        if nodes == 2:
            return Reply(json={**WAITING, "id": None, "predicted_start": "2026-03-05T13:00:00.000Z"})
        return Reply(json={**WAITING, "id": None, "rank": None if walltime == "60m" else 1})

    cli.environment["LATTICE_CONFIG"] = cli.write("mine.yaml", "export: all\n")
    api.on("GET", "/allocations/a17/explanation", WAITING)
    api.on("GET", "/allocations/a17", recorded)
    api.on("POST", "/allocations", plan)
    assert cli("explain", "a17").lines[-2:] == [
        "Way out:          starts now with --walltime=60m",
        "Way out:          starts today 13:00, in 60 min with --nodes=2",
    ]
    assert [walltime for walltime, nodes in asked if nodes == 4] == ["90m", "60m"]
    assert [nodes for _, nodes in asked if nodes != 4] == [3, 2]
    assert api.last().parameter("dry_run") == "true"


def test_work_that_cannot_be_repeated_has_no_ways_out(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/explanation", WAITING)
    api.on("GET", "/allocations/a17", allocation(17, state="Pending"))
    assert "Way out" not in cli("explain", "a17").out
