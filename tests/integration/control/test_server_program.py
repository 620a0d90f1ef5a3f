"""`lattice-server` as a program: it serves, stops when told to, and says clearly why it cannot start."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.core.machine.commands import SetTenant
from lattice.core.model.site.tenants import Tenant
from tests.upgrades.replicas import replica_of

SERVER = Path(sys.executable).with_name("lattice-server")
SECRET = b"s" * 40


def write_config(folder: Path, **api: str) -> Path:
    secret = folder / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    settings = {
        "rest_listen": "127.0.0.1:0",
        "grpc_listen": "127.0.0.1:0",
        "hmac_secret": f"file://{secret}",
        **api,
    }
    lines = ["name: s1", "mode: dev", f"data_dir: {folder / 'data'}", "api:"]
    lines += [f"  {key}: {value}" for key, value in settings.items()]
    path = folder / "server.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Running:
    def __init__(self, process: subprocess.Popen[str], endpoints: Path) -> None:
        self.process = process
        self._endpoints = endpoints
        self.rest = self.grpc = ""

    def wait(self) -> "Running":
        deadline = time.monotonic() + 30
        while not self._endpoints.exists():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "the server did not listen"
            time.sleep(0.01)
        told = json.loads(self._endpoints.read_text())
        self.rest, self.grpc = told["rest"], told["grpc"]
        return self

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.rest.removeprefix("http://"), timeout=10)
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body)
            headers = {"authorization": f"Bearer {token()}", "content-type": "application/json"}
            connection.request(method, path, content, headers)
            with connection.getresponse() as answer:
                told = json.loads(answer.read())
            assert answer.status < 300, told
            assert isinstance(told, dict)
            return told

    def get(self, path: str) -> dict[str, Any]:
        return self.ask("GET", path)


def token() -> str:
    return sign_token(
        SECRET, user="ada", issued_at_s=int(time.time()), lifetime_s=60, tenants=["default"], scope="admin"
    )


@contextlib.contextmanager
def started(config: Path, *arguments: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [SERVER, "--config", config, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Running(process, config.parent / "data" / "endpoints.json")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def refusal(config: Path, *arguments: str) -> str:
    outcome = subprocess.run(
        [SERVER, "--config", config, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr
    return outcome.stderr


def test_a_server_serves_and_stops_when_told_to(tmp_path: Path) -> None:
    with started(write_config(tmp_path)) as server:
        server.wait()
        assert server.get("/healthz") == {"status": "ok"}
        tenants = server.get("/api/v1/tenants")
        assert [tenant["name"] for tenant in tenants["items"]] == ["default"]
        vclusters = server.get("/api/v1/vclusters")
        assert [vcluster["name"] for vcluster in vclusters["items"]] == ["default"]
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert time.monotonic() - begun < 25
        assert not (tmp_path / "data" / "endpoints.json").exists()


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with started(config) as server:
        submission = {"name": "x", "entrypoint": ["true"]}
        number = server.wait().ask("POST", "/api/v1/allocations", submission)["number"]
        server.process.kill()
        server.process.wait(10)
    (tmp_path / "data" / "endpoints.json").unlink()
    with started(config) as server:
        found = server.wait().get(f"/api/v1/allocations/{number}")
        assert (found["state"], found["name"]) == ("Pending", "x")


def test_a_long_poll_does_not_keep_a_server_from_stopping(tmp_path: Path) -> None:
    with started(write_config(tmp_path)) as server:
        server.wait()
        host, port = server.rest.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            head = f"GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token()}\r\n\r\n"
            client.sendall(head.encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0
            assert time.monotonic() - begun < 25


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with started(config) as server:
        server.wait()
        assert "log.db" in refusal(config)
        assert server.get("/healthz") == {"status": "ok"}


@pytest.mark.parametrize("key", ["rest_listen", "grpc_listen"])
def test_a_port_in_use_is_named(tmp_path: Path, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refusal(write_config(tmp_path, **{key: address}))
    assert f"api.{key}: cannot listen on {address}: the port is in use" in said


def test_a_wrong_configuration_is_refused_by_place(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    config.write_text(config.read_text() + "snapshot: {}\n")
    assert f'{config}:8:1: unknown key "snapshot"; did you mean "snapshots"?' in refusal(config)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("node_agent.grace_period_s=never", "as a duration"),
        ("api.hmac_secret=file:///nowhere", "cannot read /nowhere"),
        ("api.hmac_secret=short", "not allowed on the command line"),
        ("api.rest_listen=127.0.0.1:99999", "no port between"),
        ("api.rest_listen=192.0.2.1:0", "cannot listen on 192.0.2.1:0"),
        ("data_dir=/proc/nowhere", "/proc/nowhere"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, override: str, expected: str) -> None:
    words = [word for setting in override.split(" ") for word in ("--set", setting)]
    assert expected in refusal(write_config(tmp_path), *words)


@pytest.mark.parametrize(
    ("mode", "expected"), [("dev", "at least 32 bytes"), ("production", "may not stand in the file")]
)
def test_a_secret_in_the_file_itself_is_refused_in_production_and_never_shown(
    tmp_path: Path, mode: str, expected: str
) -> None:
    said = refusal(write_config(tmp_path, hmac_secret="tooshort7"), "--set", f"mode={mode}")
    assert expected in said
    assert "tooshort7" not in said


def test_a_damaged_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with started(config) as server:
        server.wait().process.send_signal(signal.SIGTERM)
        server.process.wait(10)
    log = tmp_path / "data" / "log.db"
    content = bytearray(log.read_bytes())
    content[: len(content) // 2] = os.urandom(len(content) // 2)
    log.write_bytes(content)
    assert "log.db" in refusal(config)
    assert log.read_bytes() == bytes(content)


def test_a_clock_that_is_years_off_is_told_and_stamps_nothing(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    asyncio.run(_one_entry(tmp_path / "data", at_ms=1_600_000_000_000))
    for _ in range(2):  # the second would pass if the first had stamped something
        said = refusal(config)
        assert (
            "more than a year after the last entry of the log (2020-09-13); set the clock, or start once with" in said
        )
    with started(config, "--accept-clock") as server:
        assert server.wait().get("/healthz") == {"status": "ok"}


async def _one_entry(data: Path, at_ms: int) -> None:
    data.mkdir()
    replica = replica_of(data, at_ms)
    await replica.start()
    await replica.propose(SetTenant(tenant=Tenant(name="physics"), create=True), actor="ada")
    await replica.stop()
