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
