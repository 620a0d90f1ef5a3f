"""`lattice admin raft`: the servers, who belongs to them, and their certificates."""

import stat
from pathlib import Path

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

SERVER = {
    "name": "s1",
    "role": "leader",
    "healthy": True,
    "rest": "http://h1:8080",
    "grpc": "h1:50051",
    "peer": "h1:2380",
    "etcd_version": "3.4.23",
    "database_bytes": 3 << 20,
    "certificate_serial": "abc",
    "certificate_expires_at": "2027-01-01T00:00:00.000Z",
}
INVITED = {"name": "s4", "role": "invited", "invited_until": "2026-01-01T01:00:00.000Z"}
MEMBERS = {"items": [SERVER, {**SERVER, "name": "s2", "role": "voter", "healthy": False, "problem": "gone"}, INVITED]}


def test_the_status_names_certificates_and_clocks(api: FakeApi, cli: Cli) -> None:
    healthy = {
        "name": "s1",
        "healthy": True,
        "applied_index": 7,
        "digest": "d1",
        "certificate_serial": "0123456789abcdef",
        "certificate_expires_at": "2027-01-01T00:00:00.000Z",
        "warning": "its clock is 3.0 s ahead",
    }
    members = [healthy, {"name": "s2", "healthy": False, "problem": "no answer"}]
    api.on("GET", "/raft/status", {"leader": "s1", "server": "s1", "digest_index": 7, "members": members})
    said = cli("admin", "raft", "status").out
    assert "healthy, entry 7, digest d1; certificate 0123456789ab until 2027-01-01 00:00:00" in said
    assert "its clock is 3.0 s ahead" in said
    assert "does not answer: no answer" in said


def test_listing_the_servers(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/raft/members", MEMBERS)
    table = cli("admin", "raft", "members", "list").table()
    assert cli("admin", "raft", "members").table() == table
    assert cli("admin", "raft", "members", "-q").out == cli("admin", "raft", "members", "list", "-q").out
    assert table[0][:4] == ["SERVER", "ROLE", "HEALTHY", "REST"]
    assert table[1][:4] == ["s1", "leader", "yes", "http://h1:8080"]
    assert table[2][:3] == ["s2", "voter", "no"]
    assert table[3][:3] == ["s4", "invited", "-"]
    assert "3.0M" in cli("admin", "raft", "members", "list", "-o", "wide").out
    assert cli("admin", "raft", "members", "list", "-q").out == "s1\ns2\ns4\n"
    assert cli("admin", "raft", "members", "list", "-o", "json").json[0]["etcd_version"] == "3.4.23"


def test_an_invitation_goes_into_a_file_that_nobody_else_reads(
    api: FakeApi, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    invited = {"name": "s4", "token": "lattice-join-1:xyz", "expires_at": "2026-01-01T01:00:00.000Z"}
    api.on("POST", "/raft/members", Reply(status=201, json=invited))
    outcome = cli("admin", "raft", "members", "add", "s4", "--valid-for", "10m")
    assert outcome.code == 0
    assert "lattice-server --config FILE --join --join-token-file s4.join" in outcome.out
    assert "xyz" not in outcome.out
    assert api.last().json == {"name": "s4", "valid_for_s": 600}
    assert (tmp_path / "s4.join").read_text() == "lattice-join-1:xyz\n"
    assert stat.S_IMODE((tmp_path / "s4.join").stat().st_mode) == 0o600
    asked = len(api.asked)
    again = cli("admin", "raft", "members", "add", "s4")
    assert (again.code, "s4.join exists" in again.err, len(api.asked)) == (2, True, asked)
    assert cli("admin", "raft", "members", "add", "s4", "--out", "-").out == "lattice-join-1:xyz\n"
    shown = cli("admin", "raft", "members", "add", "s4", "--out", "other", "-o", "json").json
    assert shown == {"name": "s4", "file": "other", "expires_at": "2026-01-01T01:00:00.000Z"}


def test_removing_and_promoting(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/raft/members/s2", {"items": [SERVER]})
    api.on("POST", "/raft/members/s2/promote", {"items": [SERVER]})
    said = cli("admin", "raft", "members", "remove", "s2").out
    assert said == "Removed server s2; 1 server is left, of which none may fail\n"
    assert cli("admin", "raft", "members", "promote", "s2").out == "Server s2 has a vote\n"
    # A server that removed itself cannot list the others.
    api.on("DELETE", "/raft/members/s2", {"items": []})
    said = cli("admin", "raft", "members", "remove", "s2").out
    assert said == "Removed server s2; see the rest with: lattice admin raft members list\n"
    api.on("DELETE", "/raft/members/s3", refusal(409, "conflict", "without s3 only 1 of 2 members would answer"))
    refused = cli("admin", "raft", "members", "remove", "s3")
    assert (refused.code, "only 1 of 2" in refused.err) == (1, True)
    assert cli("admin", "raft", "members", "remove").code == 2


def test_renewing_certificates_fails_when_one_server_did_not(api: FakeApi, cli: Cli) -> None:
    good = {"name": "s1", "renewed": True, "certificate_serial": "1", "certificate_expires_at": "2027"}
    api.on("POST", "/raft/rotate-certificates", {"items": [good]})
    assert cli("admin", "raft", "rotate-certificates").code == 0
    api.on("POST", "/raft/rotate-certificates", {"items": [good, {"name": "s2", "problem": "it does not answer"}]})
    outcome = cli("admin", "raft", "rotate-certificates")
    assert (outcome.code, "it does not answer" in outcome.out) == (1, True)


def test_what_may_be_old_is_read_only_when_asked_for(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/raft/members", MEMBERS)
    cli("admin", "raft", "members")
    assert "consistency" not in str(api.last())
    cli("--stale", "admin", "raft", "members")
    assert "consistency" in str(api.last())
