"""`lattice doctor`: one line for everything between a user and the cluster, with the remedy."""

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.cli.commands.site import doctor
from lattice.cli.commands.site.doctor import certificate, clock, disk
from lattice.daemons.programs.server_init import init
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, refusal

DATE = "Thu, 05 Mar 2026 12:00:00 GMT"
NOON = 1772712000.0


@pytest.fixture(autouse=True)
def no_server_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SERVER_FILE", "/no/such/server.yaml")


@pytest.fixture
def well(api: FakeApi) -> FakeApi:
    api.on("GET", "/version", {"release": "9.9"})
    api.on("GET", "/whoami", {"user": "ada", "account": "ada", "roles": ["User"], "expires_at": "2026-03-06T18:00:00Z"})
    members = [{"name": "s1", "healthy": True}, {"name": "s2", "problem": "no answer"}]
    api.on("GET", "/raft/status", {"leader": "s1", "members": members})
    api.on("GET", "/admin/upgrade", {"level": 1, "next_level": 2})
    api.on("GET", "/nodes", {"items": [{"id": "n1", "state": "Ready"}, {"id": "n2", "state": "Down"}]})
    return api


def found(cli: Cli, *words: str) -> dict[str, tuple[str, str]]:
    return {each["check"]: (each["verdict"], each["text"]) for each in cli("doctor", "-o", "json", *words).json}


def test_every_part_has_a_line(well: FakeApi, cli: Cli) -> None:
    lines = found(cli)
    assert lines["configuration"][0] == "ok"
    assert lines[f"server {well.url}"] == ("ok", "answers, release 9.9")
    assert lines["release"][0] == "warning"
    assert lines["login"] == ("ok", "ada, User; the token ends in 30 h")
    assert lines["server s1"] == ("ok", "healthy, leads")
    assert lines["server s2"] == ("failed", "no answer")
    assert lines["level"] == ("warning", "level 1; level 2 is possible")
    assert lines["nodes"] == ("warning", "1 Down, 1 Ready")


def test_what_failed_decides_the_exit_code_and_names_its_remedy(well: FakeApi, cli: Cli) -> None:
    outcome = cli("doctor")
    assert outcome.code == 1
    line = next(line for line in outcome.lines if line.startswith("server s2"))
    assert "`lattice admin raft status`" in line
    well.on("GET", "/raft/status", {"leader": "s1", "members": [{"name": "s1", "healthy": True}]})
    assert cli("doctor").code == 0


def test_what_a_user_may_not_see_is_left_out(well: FakeApi, cli: Cli) -> None:
    well.on("GET", "/raft/status", refusal(403, "forbidden", "not for you"))
    assert not [name for name in found(cli) if name.startswith("server s")]


def test_no_cluster_no_port_no_login(api: FakeApi, cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"
    lines = found(cli, "--api-url", closed)
    assert lines[f"server {closed}"] == ("failed", "no answer: Connection refused")
    assert "login" not in lines
    api.on("GET", "/version", {"release": ""})
    api.on("GET", "/whoami", refusal(401, "unauthenticated", "the token has expired"))
    assert found(cli)["login"][0] == "failed"
    del cli.environment["LATTICE_API_URL"]
    assert found(cli)["configuration"][0] == "failed"


def test_the_configuration_of_a_server_and_its_disk(well: FakeApi, cli: Cli, tmp_path: Path) -> None:
    init(
        ["--dir", str(tmp_path / "etc"), "--data-dir", str(tmp_path / "data"), "--host", "localhost", "--admin", "ada"]
    )
    lines = found(cli, "--server-config", str(tmp_path / "etc/server.yaml"))
    assert lines["server configuration"][0] == "ok"
    assert lines["disk"][1].endswith(f"free for {tmp_path}/data")
    damaged = cli.write("damaged.yaml", "api: [")
    assert found(cli, "--server-config", damaged)["server configuration"][0] == "failed"


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[str]:
    """A server whose certificate this machine does not trust."""
    init(["--dir", str(tmp_path / "other"), "--data-dir", str(tmp_path / "d"), "--host", "localhost", "--admin", "ada"])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "other/tls/server.crt", tmp_path / "other/tls/server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_certificate_that_is_not_trusted(stranger: str, cli: Cli) -> None:
    lines = found(cli, "--api-url", stranger)
    assert lines[f"certificate {stranger}"][0] == "failed"


def test_figures_decide_between_well_and_not() -> None:
    assert (certificate("s", 31 * 86400).verdict, certificate("s", 29 * 86400).verdict) == ("ok", "warning")
    verdicts = [clock("s", DATE, NOON + away).verdict for away in (0, 2, 10, 40)]
    assert verdicts == ["ok", "ok", "warning", "failed"]
    assert clock("s", "nonsense", NOON).verdict == "ok"
    assert disk("/no/such/place").verdict in {"ok", "warning"}
