"""Orders: cancel, hold, release, requeue, update, and what operators tell nodes."""

import pytest

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

NODE = {
    "id": "n1", "state": "Ready", "cpus": 4, "memory_mb": 4096, "gpus": 4, "gpu_type": "GH200", "group": "3",
    "vcluster": "default", "allocations": ["a17"], "free": {"cpus": 2, "memory_mb": 1536, "gpus": 0},
    "holding": "shared", "last_heartbeat_s": 2.4, "load1": 0.5, "address": "10.0.0.1:7000", "reason": "",
}  # fmt: skip
DRAINING = {**NODE, "state": "Draining", "reason": "fan 3", "reason_by": "olga"}


def test_cancelling_some(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/allocations/a17", Reply(status=202, json=allocation(state="Stopping")))
    api.on("DELETE", "/allocations/a18", Reply(status=202, json=allocation(18, state="Cancelled")))
    outcome = cli("cancel", "a17", "a18")
    assert outcome.lines == ["a17 is being cancelled (Stopping)", "a18 cancelled"]
    assert cli("cancel", "-q", "a17").out == ""
    assert cli("cancel", "a17", "-o", "json").json["state"] == "Stopping"


def test_what_cannot_be_cancelled_does_not_keep_the_rest_from_it(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/allocations/a1", refusal(409, "conflict", "a1 is already Completed"))
    api.on("DELETE", "/allocations/a17", Reply(status=202, json=allocation()))
    outcome = cli("cancel", "a1", "nope", "a17")
    assert outcome.code == 4
    assert "error: a1 is already Completed\n" in outcome.err
    assert outcome.lines == ["a17 is being cancelled (Running)"]
    assert cli("cancel", "a1").code == 1


def test_cancelling_all_ones_own_in_a_state(api: FakeApi, cli: Cli) -> None:
    items = [{"id": "a1", "ok": True}, {"id": "a2", "ok": False, "error": {"code": "conflict", "message": "a2: no"}}]
    api.on("POST", "/allocations/cancel", {"items": items})
    outcome = cli("cancel", "--state=pending", "--all-mine")
    assert (outcome.code, outcome.out, outcome.err) == (1, "a1 cancelled\n", "error: a2: no\n")
    assert api.last().json == {"states": ["pending"], "all_mine": True}
    api.on("POST", "/allocations/cancel", {"items": []})
    assert cli("cancel", "--all-mine").out == "nothing to cancel\n"


@pytest.mark.parametrize("line", [(), ("--state=pending",), ("a1", "--all-mine")])
def test_a_cancellation_must_say_what(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    assert cli("cancel", *line).code == 2
    assert api.asked == []


@pytest.mark.parametrize(("word", "told"), [("hold", "held"), ("release", "released"), ("requeue", "requeued")])
def test_hold_release_requeue(word: str, told: str, api: FakeApi, cli: Cli) -> None:
    api.on("POST", f"/allocations/a17/{word}", allocation())
    assert cli(word, "a17").out == f"a17 {told}\n"
    assert cli(word, "a17", "-o", "json").json["id"] == "a17"


def test_updating_sends_only_what_changes(api: FakeApi, cli: Cli) -> None:
    api.on("PATCH", "/allocations/a17", allocation())
    assert cli("update", "a17", "--walltime=48h", "--priority=8").out == "a17 updated\n"
    assert api.last().json == {"walltime": "48h", "priority": 8}
    cli("update", "a17", "--priority=low", "--name=x")
    assert api.last().json == {"priority": "low", "name": "x"}
    assert cli("update", "a17").code == 2


def test_updating_pending_work(api: FakeApi, cli: Cli) -> None:
    api.on("PATCH", "/allocations/a17", allocation())
    cli(
        "update",
        "a17",
        "--nodes=2-4",
        "--vcluster=short",
        "--memory=4G",
        "--cpus=0",
        "--depends-on=none",
        "--begin=now",
    )
    assert api.last().json == {
        "nodes": 2,
        "max_nodes": 4,
        "vcluster": "short",
        "memory": "4G",
        "cpus": 0,
        "depends_on": "",
        "begin": "now",
    }
    assert cli("update", "a17", "--nodes=some").code == 2


def test_the_nodes_in_a_table(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes", {"items": [NODE, DRAINING]})
    outcome = cli("nodes", "--state=ready", "--vcluster=default", "--group=3")
    assert outcome.lines == [
        "NODE  STATE     GPUS     VCLUSTER  GROUP  CPUS  MEMORY  HELD    ALLOCATIONS  REASON",
        "n1    Ready     4xGH200  default   3      4     4G      shared  a17          -",
        "n1    Draining  4xGH200  default   3      4     4G      shared  a17          fan 3 (olga)",
    ]
    assert sorted(api.last().query) == [("group", "3"), ("state", "ready"), ("vcluster", "default")]
    assert "2 CPUs, 1.5G, 0 GPUs" in cli("node", "list", "-o", "wide").out
    assert [node["id"] for node in cli("nodes", "-o", "json").json] == ["n1", "n1"]
    assert cli("nodes", "-q", "--limit=1").out == "n1\n"


def test_one_node_in_full(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes/n1", DRAINING)
    for line in (("nodes", "n1"), ("node", "status", "n1")):
        sheet = dict(text.split(": ", 1) for text in cli(*line).lines)
        assert sheet["State"].strip() == "Draining"
        assert sheet["Reason"].strip() == "fan 3 (olga)"
        assert sheet["Heartbeat"].strip() == "2 s ago"
        assert cli(*line, "-o", "json").json["id"] == "n1"
    assert cli("node", "status", "n9").code == 4
    runs = [{"id": "a17", "cpus": [0, 1, 2, 5], "gpus": [1]}, {"id": "a18"}]
    missing = [{"name": "container", "reason": "no runtime is installed"}]
    api.on("GET", "/nodes/n1/usage", {"node": "n1", "runs": runs, "missing": missing})
    sheet = {name: text.strip() for name, text in (line.split(": ", 1) for line in cli("nodes", "n1").lines)}
    assert (sheet["Has a17"], sheet["No container"]) == ("CPUs 0-2,5, GPUs 1", "no runtime is installed")
    assert "Has a18" not in sheet
    assert cli("nodes", "n1", "-o", "json").json["usage"]["runs"][0]["cpus"] == [0, 1, 2, 5]


@pytest.mark.parametrize("words", [("node",), ("admin",)])
@pytest.mark.parametrize("order", ["drain", "undrain"])
def test_draining_by_either_spelling(words: tuple[str, ...], order: str, api: FakeApi, cli: Cli) -> None:
    api.on("POST", f"/nodes/n1/{order}", DRAINING)
    outcome = cli(*words, order, "n1", "--reason=fan 3")
    assert (outcome.code, outcome.out) == (0, "n1 is Draining\n")
    assert api.last().json == {"reason": "fan 3"}


def test_an_undrain_that_is_refused_names_what_still_runs(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/undrain", refusal(409, "conflict", "n1 is still draining", current="a17 runs"))
    outcome = cli("node", "undrain", "n1")
    assert (outcome.code, outcome.err) == (1, "error: n1 is still draining\n  current: a17 runs\n")


def test_disabling_asks_a_person_first(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/disable", {**NODE, "state": "Down"})
    outcome = cli("node", "disable", "n1")
    assert (outcome.code, "--yes" in outcome.err, api.asked) == (2, True, [])
    assert cli("node", "disable", "n1", "--yes").out == "n1 is Down\n"
    cli.is_terminal = True
    cli.stdin = b"n\n"
    outcome = cli("node", "disable", "n1")
    assert (outcome.code, "nothing was changed" in outcome.err, len(api.asked)) == (1, True, 1)
    cli.stdin = b"yes\n"
    assert cli("node", "disable", "n1").code == 0
    cli.stdin = b""
    assert cli("node", "disable", "n1", "--yes").code == 0
    assert len(api.asked) == 3


def test_not_permitted_has_a_code_of_its_own(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/enable", refusal(403, "forbidden", "enable needs the role Operator"))
    assert cli("node", "enable", "n1").code == 5
