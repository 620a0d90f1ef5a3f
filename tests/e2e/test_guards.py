"""A cluster with secrets planted everywhere, a submit filter and an audit chain: real processes, the real command line."""

import http.client
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

MAIL = "planted-mail-password-51c2"
WEBHOOK = "planted-webhook-secret-9d7e-0123456789abcdef"
IN_ENVIRONMENT = "planted-in-environment-77aa"
IN_SCRIPT = "planted-in-script-30f1"
BAD_TOKEN = "planted-bad-token-e2b8"
FILTER = """#!/bin/sh
if grep -q forbidden; then
  echo '{"action": "refuse", "message": "the site says no", "hint": "ask the site"}'
else
  echo '{"action": "accept", "warnings": ["the site has seen it"]}'
fi
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("site")
    password, signing = folder / "mail-password", folder / "webhook-secret"
    for path, secret in ((password, MAIL), (signing, WEBHOOK)):
        path.write_text(secret + "\n")
        path.chmod(0o600)
    program = folder / "filter"
    program.write_text(FILTER)
    program.chmod(0o755)
    settings = {
        "log_level": "debug",
        "notifications.mail.host": "127.0.0.1",
        "notifications.mail.port": "9",
        "notifications.mail.security": "none",
        "notifications.mail.user": "lattice",
        "notifications.mail.password": f"file://{password}",
        "notifications.mail.sender": "lattice@example.org",
        "notifications.webhook.enabled": "true",
        "notifications.webhook.secret": f"file://{signing}",
        "submission.filter.command": json.dumps([str(program)]),
        "audit.seal_every": "0.2s",
    }
    with LocalCluster(nodes=1, settings=settings) as cluster:
        yield cluster


def ask(cluster: LocalCluster, method: str, path: str, body: bytes, token: str) -> tuple[int, bytes]:
    """A request as it is, whatever comes of it."""
    place = urlsplit(cluster.api_url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        connection.request(method, f"/api/v1{path}", body, {"Authorization": f"Bearer {token}"})
        with connection.getresponse() as answer:
            return answer.status, answer.read()
    finally:
        connection.close()


def command_lines() -> str:
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def test_no_secret_is_in_logs_command_lines_answers_or_open_files(guarded: LocalCluster) -> None:
    own = (guarded.directory / "token").read_text().strip()
    secrets = {
        "mail": MAIL,
        "webhook": WEBHOOK,
        "environment": IN_ENVIRONMENT,
        "script": IN_SCRIPT,
        "bad token": BAD_TOKEN,
        "hmac": (guarded.directory / "secret").read_text().strip(),
        "token": own,
        "agent's token": (guarded.directory / "agent-token").read_text().strip(),
    }
    answers = [
        ask(guarded, "GET", "/nodes", b"", BAD_TOKEN),
        ask(guarded, "GET", "/nodes", b"", own + "x"),
        ask(guarded, "POST", "/allocations", f'{{"environment": {{"A": "{IN_ENVIRONMENT}"}}, '.encode(), own),
        ask(guarded, "POST", "/allocations", f'{{"environment": ["{IN_ENVIRONMENT}"]}}'.encode(), own),
        ask(guarded, "POST", "/allocations", f'{{"script": ["{IN_SCRIPT}"]}}'.encode(), own),
        ask(guarded, "PUT", "/settings/agent.grace_s", b'{"value": "never"}', own),
    ]
    assert [status for status, _ in answers] == [401, 401, 400, 400, 400, 400]
    work = guarded.post(
        "/allocations",
        {
            "script": f"#!/bin/sh\n# {IN_SCRIPT}\nenv\nsleep 0.2\n",
            "environment": {"MINE": IN_ENVIRONMENT},
            "notify": {"on": ["end"], "to": ["mail:ada@example.org"]},
        },
    )
    shown = command_lines()
    guarded.cli("wait", work["id"])
    output = guarded.cli("logs", work["id"]).stdout
    assert WEBHOOK not in output
    assert MAIL not in output
    eventually(lambda: "mail" in (guarded.directory / "server.log").read_text(), "the mail was tried")
    shown += command_lines()
    logs = "\n".join(path.read_text(errors="replace") for path in guarded.directory.rglob("*.log"))
    assert logs
    for name, secret in secrets.items():
        assert secret not in logs, f"{name} in a log"
        assert secret not in shown, f"{name} on a command line"
        assert all(secret.encode() not in body for _, body in answers), f"{name} in an answer"
    for path in guarded.directory.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        found = path.stat()
        if stat.S_IMODE(found.st_mode) & 0o077 and found.st_size < 1 << 20:
            data = path.read_bytes()
            assert not any(secret.encode() in data for secret in secrets.values()), f"{path} is open to others"


def server(cluster: LocalCluster, *words: str) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("lattice-server")
    config = cluster.directory / "server.yaml"
    return subprocess.run(
        [program, "--config", config, *words], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_plain_secret_is_refused_on_the_command_line_and_struck_out_when_shown(guarded: LocalCluster) -> None:
    refused = server(guarded, "--set", f"api.hmac_secret={IN_ENVIRONMENT}")
    assert refused.returncode == 2
    assert "not allowed on the command line" in refused.stderr
    assert IN_ENVIRONMENT not in refused.stderr
    shown = server(guarded, "--show-config")
    assert shown.returncode == 0
    assert "rate_limits" in shown.stdout


def test_the_sites_filter_refuses_and_warns_at_the_command_line(guarded: LocalCluster) -> None:
    refused = guarded.cli("submit", "--", "echo", "forbidden", check=False)
    assert refused.returncode == 1
    assert "the site says no" in refused.stderr
    assert "ask the site" in refused.stderr
    accepted = guarded.cli("submit", "--", "true")
    assert "the site has seen it" in accepted.stderr


def test_what_was_done_is_queried_exported_and_verified_without_a_server(guarded: LocalCluster, tmp_path: Path) -> None:
    guarded.cli("node", "drain", "n1", "--reason", "upkeep")
    guarded.wait_node("n1", "Drained")
    guarded.cli("node", "undrain", "n1")
    found = json.loads(guarded.cli("audit", "query", "--node=n1", "--type=node", "--since=1h", "-o", "json").stdout)
    assert [entry["type"] for entry in found][-2:] == ["node.drain", "node.undrain"]
    assert found[-2]["detail"] == "upkeep"
    assert "node.drain" in guarded.cli("audit", "query", "--user", found[-2]["actor"]).stdout
    path = tmp_path / "audit.jsonl"
    guarded.cli("audit", "export", "--to", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = tmp_path / "keys"
    keys.write_text(guarded.cli("audit", "keys", "-q").stdout)
    guarded.cli("audit", "rotate-key")
    verdict = json.loads(guarded.cli("audit", "verify", str(path), "--key", str(keys), "-o", "json").stdout)
    assert verdict["complete"]
    assert verdict["trusted"]
    path.write_bytes(path.read_bytes().replace(b"upkeep", b"nothing"))
    broken = guarded.cli("audit", "verify", str(path), "--key", str(keys), check=False)
    assert broken.returncode == 1
    assert "does not verify" in broken.stderr


def test_the_chain_goes_on_after_a_crash(guarded: LocalCluster, tmp_path: Path) -> None:
    before = json.loads(guarded.cli("audit", "query", "-o", "json").stdout)
    guarded.wait_replaced(guarded.kill("server"))
    guarded.wait_serving()
    guarded.cli("node", "drain", "n1")
    after = json.loads(guarded.cli("audit", "query", "-o", "json").stdout)
    assert after[: len(before)] == before
    assert after[-1]["type"] == "node.drain"
    path = tmp_path / "audit.jsonl"
    guarded.cli("audit", "export", "--to", str(path))
    guarded.cli("audit", "verify", str(path))
    guarded.cli("node", "undrain", "n1")
