"""`lattice admin upgrade`: the level of the cluster, and raising it."""

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, refusal

SERVERS = [
    {"name": "s1", "newest_level": 2, "newest_protocol": 2},
    {"name": "s2", "newest_level": None, "newest_protocol": None, "problem": "connection refused"},
]
STATUS = {
    "level": 1,
    "next_level": 2,
    "blocked_by": "what server s2 supports is not known",
    "servers": SERVERS,
    "agents": [{"protocol": 1, "nodes": 3}, {"protocol": 2, "nodes": 40}],
}


def test_the_status_shows_the_level_and_what_keeps_it_down(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/admin/upgrade", STATUS)
    said = cli("admin", "upgrade", "status").out
    assert "2, what server s2 supports is not known" in said
    assert "supports levels up to 2, protocol 2" in said
    assert "does not answer: connection refused" in said
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("Agents")] == ["3", "40"]
    assert cli("admin", "upgrade", "status", "-o", "json").json["servers"][1]["newest_level"] is None


def test_finalizing_shows_the_new_level(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/admin/upgrade/finalize", {"level": 2, "next_level": None, "servers": SERVERS[:1]})
    said = cli("admin", "upgrade", "finalize").out
    assert "none: this release supports no higher level" in said


def test_finalizing_with_an_old_server_says_which(api: FakeApi, cli: Cli) -> None:
    text = "the level stays at 1: server s2 supports level 1 at most; upgrade it first"
    api.on("POST", "/admin/upgrade/finalize", refusal(409, "conflict", text))
    result = cli("admin", "upgrade", "finalize")
    assert result.code != 0
    assert text in result.err


ROLLOUT = {
    "target": "0.3.0",
    "phase": "paused",
    "by": "olga",
    "began_at": "2026-03-05T10:00:00.000Z",
    "reason": "node n2 did not return",
    "waits_for": "an administrator: resume or rollback",
    "done": 1,
    "nodes": [{"node": "n1", "batch": 0, "step": "done"}, {"node": "n2", "batch": 1, "step": "called"}],
}


def test_the_status_shows_the_rolling_upgrade_and_why_it_is_paused(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/admin/upgrade", {**STATUS, "rollout": ROLLOUT})
    said = cli("admin", "upgrade", "status").out
    assert "to 0.3.0, paused, 1 of 2 nodes done" in said
    assert "node n2 did not return" in said
    assert "called: n2" in said


def test_the_plan_shows_batches_and_who_is_left_out(api: FakeApi, cli: Cli) -> None:
    batches = [{"batch": 0, "nodes": ["n1"]}, {"batch": 1, "nodes": ["n2", "n3"]}]
    plan = {
        "target": "0.3.0",
        "batches": batches,
        "observe_s": 900,
        "left_out": [{"node": "n4", "reason": "it is Down"}],
    }
    api.on("POST", "/admin/upgrade/plan", plan)
    said = cli("admin", "upgrade", "plan", "--to", "0.3.0", "--batch", "5%", "--observe", "15m").out
    assert "3 nodes in 2 batches" in said
    assert "n[2-3]" in said
    assert "n4: it is Down" in said


def test_an_upgrade_of_the_servers_is_planned_one_by_one(api: FakeApi, cli: Cli) -> None:
    batches = [{"batch": 0, "nodes": ["s2"]}, {"batch": 1, "nodes": ["s1"]}]
    api.on("POST", "/admin/upgrade/plan", {"target": "0.3.0", "batches": batches, "kind": "servers"})
    assert "to 0.3.0, 2 servers, one at a time" in cli("admin", "upgrade", "plan", "--to", "0.3.0", "--servers").out
    assert api.asked[-1].json["kind"] == "servers"
    for word in (("--urgent", "--yes"), ("--canary", "1"), ("--batch", "2")):
        refused = cli("admin", "upgrade", "start", "--to", "0.3.0", "--servers", *word)
        assert refused.code == 2
        assert "servers are upgraded one at a time" in refused.err


def test_a_rollback_says_what_it_expects(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/admin/upgrade/rollback", {**STATUS, "rollout": {**ROLLOUT, "kind": "servers"}})
    said = cli("admin", "upgrade", "rollback", "--to", "0.2.0", "--servers").out
    assert "1 of 2 servers done" in said
    assert api.asked[-1].json == {"reason": "", "to": "0.2.0", "kind": "servers"}


def test_an_urgent_upgrade_asks_first(api: FakeApi, cli: Cli) -> None:
    refused = cli("admin", "upgrade", "start", "--to", "0.3.0", "--urgent")
    assert refused.code == 2
    assert "--yes" in refused.err


def test_turns_show_the_upgrade(api: FakeApi, cli: Cli) -> None:
    for verb in ("pause", "resume", "rollback"):
        api.on("POST", f"/admin/upgrade/{verb}", {**STATUS, "rollout": ROLLOUT})
        assert "to 0.3.0" in cli("admin", "upgrade", verb, "--reason", "slow").out
