"""What users do wrong gets a clear error with a hint and a non-zero exit code, and changes nothing."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import missing

pytestmark = pytest.mark.e2e


@pytest.fixture
def unchanged(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster, and after the test the proof that no allocation was added."""
    before = cluster.get("/allocations/count?all=true")["total"]
    yield cluster
    assert cluster.get("/allocations/count?all=true")["total"] == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "a999999"], "a999999"),
        (["logs", "a999999"], "a999999"),
        (["cancel", "a999999"], "a999999"),
        (["submit", "--tenant", "physics", "--", "true"], "default"),
        (["submit", "--vcluster", "nowhere", "--", "true"], "default"),
        (["submit", "--walltime", "soon", "--", "true"], "soon"),
        (["submit", "--nodes", "500", "--", "true"], "500"),
        (["submit", "--nodes", "0", "--", "true"], "nodes"),
        (["submit", "no-such-script.sh"], "no-such-script.sh"),
        (["submit"], "SCRIPT"),
        (["node", "drain", "n999"], "n999"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_a_wrong_command_line_is_refused_and_says_why(unchanged: LocalCluster, words: list[str], told: str) -> None:
    outcome = unchanged.cli(*words, check=False)
    assert outcome.returncode not in {0, 125}
    assert "Traceback" not in outcome.stderr
    assert outcome.stderr.startswith("error: ")
    assert told in outcome.stderr
    assert outcome.stdout == ""


def test_a_script_that_is_not_text_is_refused(unchanged: LocalCluster, scratch: Path) -> None:
    script = scratch / "binary.sh"
    script.write_bytes(b"#!/bin/sh\necho \xff\xfe\n")
    outcome = unchanged.cli("submit", str(script), check=False)
    assert outcome.returncode != 0
    assert "UTF-8" in outcome.stderr


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b'{"entrypoint": ["true"', 400, "line"),
        (b"[]", 400, "object"),
        (b'{"entrypoint": ["true"], "walltme": "1h"}', 400, "walltme"),
        (b'{"entrypoint": ["true"], "lifecycle": {"walltime": "soon"}}', 400, "soon"),
        (b"\xff\xfe", 400, ""),
        (b'{"entrypoint": ["' + b"x" * (5 << 20) + b'"]}', 413, "too large"),
    ],
)
def test_a_malformed_request_is_refused_with_its_place(
    unchanged: LocalCluster, body: bytes, status: int, told: str
) -> None:
    got, answer = unchanged.request("POST", "/allocations", body)
    assert got == status, answer
    assert told in answer["error"]["message"]


@pytest.mark.parametrize(
    ("token", "told"), [("", "token"), ("nonsense", "token"), ("expired", "expired"), ("forged", "token")]
)
def test_a_token_that_does_not_hold_is_refused(unchanged: LocalCluster, token: str, told: str) -> None:
    now = int(time.time())
    secret = (unchanged.directory / "secret").read_text().strip()
    claims = {"sub": "root", "tenants": ["default"], "scope": "admin", "iat": now - 7200}
    made = {
        "expired": jwt.encode({**claims, "exp": now - 3600}, secret, algorithm="HS256"),
        "forged": jwt.encode({**claims, "exp": now + 3600}, "0" * 64, algorithm="HS256"),
    }
    status, answer = unchanged.request("POST", "/allocations", {"entrypoint": ["true"]}, token=made.get(token, token))
    assert (status, answer["error"]["code"]) == (401, "unauthenticated")
    assert told in answer["error"]["message"]


def test_a_server_that_is_not_there_is_told_with_its_address_and_what_to_do(scratch: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LATTICE_")}
    variables = {**clean, "LATTICE_API_URL": "http://127.0.0.1:9", "LATTICE_TOKEN": "x"}
    program = Path(sys.executable).with_name("lattice")
    outcome = subprocess.run(
        [program, "status", "--retry-for", "0"], env=variables, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 6
    assert "http://127.0.0.1:9" in outcome.stderr
    assert "lattice up" in outcome.stderr


def test_a_damaged_configuration_file_is_told_by_line_and_column(cluster: LocalCluster, scratch: Path) -> None:
    config = scratch / "config.yaml"
    config.write_text("endpoint: http://x\n  tenant: [a\n")
    outcome = cluster.cli("status", "--config", str(config), check=False)
    assert outcome.returncode == 2
    assert "line 2" in outcome.stderr
    assert "column" in outcome.stderr


def test_a_damaged_server_configuration_is_told_by_line_and_column(scratch: Path) -> None:
    config = scratch / "server.yaml"
    config.write_text("name: server\ndata_dir: [\n")
    program = Path(sys.executable).with_name("lattice-server")
    outcome = subprocess.run([program, "--config", config], capture_output=True, text=True, check=False, timeout=30)
    assert outcome.returncode == 2
    assert f"{config}:3:1: " in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.fixture
def small_disk(scratch: Path) -> Iterator[LocalCluster]:
    """A cluster whose log lies on a file system of a few megabytes."""
    cluster = LocalCluster(nodes=1)
    data = cluster.directory / "data"
    data.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs", data], check=False)
    if mounted.returncode != 0:
        cluster.remove()
        missing("permission to mount a tmpfs")
    try:
        with cluster:
            yield cluster
    finally:
        subprocess.run(["umount", "-l", data], check=True)
        cluster.remove()


@pytest.mark.root
def test_a_full_disk_fails_requests_and_nothing_else(small_disk: LocalCluster) -> None:
    kept = small_disk.submit(["true"], hold=True)
    ballast = small_disk.directory / "data" / "ballast"
    with ballast.open("wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass

    def refused() -> tuple[int, object] | None:
        # The log may still have room inside its file.
        script = "# " + os.urandom(200_000).hex()
        status, answer = small_disk.request("POST", "/allocations", {"script": script, "hold": True})
        return (status, answer) if status != 201 else None

    status, answer = eventually(refused, "the disk is full", within_s=60, every_s=0)
    assert status == 507, answer
    acknowledged = {item["id"] for item in small_disk.get("/allocations?limit=1000")["items"]}
    assert kept["id"] in acknowledged
    ballast.unlink()
    added = eventually(lambda: recovered(small_disk), "the server takes submissions again", within_s=30)
    small_disk.wait_replaced(small_disk.kill("server"))
    small_disk.wait_serving()
    after = {item["id"] for item in small_disk.get("/allocations?limit=1000")["items"]}
    assert after == acknowledged | {added}


def recovered(cluster: LocalCluster) -> str | None:
    status, answer = cluster.request("POST", "/allocations", {"entrypoint": ["true"], "hold": True})
    return str(answer["id"]) if status == 201 else None
