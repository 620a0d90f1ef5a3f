"""Sensitive work in mode audit: every file that it touches is in a record beside its output, and nothing of others is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from lattice.testing import LocalCluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.root]
AUDIT = {"mode": "audit"}


@pytest.fixture(scope="module")
def ward() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2) as cluster:
        cluster.cli("admin", "vcluster", "create", "ward", "--scheduler=sensitive-reservation")
        yield cluster


def lines_of(cluster: LocalCluster, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((cluster.directory / "objects").glob(f"*/*/{name}/telemetry/run-*/*/*.access.jsonl.zst")):
        text = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        found += [json.loads(line) for line in text.splitlines()]
    return found


def touched(lines: list[dict[str, Any]], path: Path) -> set[str]:
    return {word for line in lines if line.get("path") == str(path) for word in line["did"]}


def test_what_sensitive_work_touches_is_recorded(ward: LocalCluster, tmp_path: Path) -> None:
    secret, copy, other = tmp_path / "patient.csv", tmp_path / "copy.csv", tmp_path / "of-others"
    secret.write_text("name,disease\n")
    other.write_text("x")
    # The shell starts programs that live for a moment only.
    script = f"cat {secret} > {copy}; cat {secret} > /dev/null; sleep 3"
    made = ward.submit(["sh", "-c", script], vcluster="ward", telemetry=AUDIT)
    other.read_text()
    client = ward.client()
    client.wait(made["id"])
    client.close()
    eventually(lambda: touched(lines_of(ward, made["id"]), copy) >= {"write", "close"}, "its record", within_s=60)
    lines = lines_of(ward, made["id"])
    assert lines[0]["begun"] is True
    assert touched(lines, secret) >= {"open", "read", "close"}
    assert not touched(lines, other)
    (line,) = [line for line in lines if line.get("path") == str(copy)][:1]
    assert line["program"] in ("cat", "sh")
    assert line["uid"] == os.getuid()
    assert line["user"]
    programs = [line["path"] for line in lines if "execute" in line.get("did", ())]
    assert any(path.endswith("cat") for path in programs), "the first program of a run is in it"
    assert not [line for line in lines if "gap" in line or "lost" in line or "dropped" in line]


def test_a_mode_that_is_set_while_it_runs_holds_until_the_end(ward: LocalCluster, tmp_path: Path) -> None:
    secret = tmp_path / "scan"
    secret.write_text("x")
    loop = f"while :; do read -r line < {secret}; sleep 0.2; done"
    name = ward.submit(["sh", "-c", loop], vcluster="ward")["id"]
    try:
        eventually(lambda: ward.cli("status", name, "-o", "json").stdout.find('"Running"') > 0, "it runs", within_s=60)
        ward.cli("telemetry", f"--alloc={name}", "--mode=audit")
        eventually(lambda: touched(lines_of(ward, name), secret) >= {"open"}, "its record", within_s=60)
        refused = ward.cli("telemetry", f"--alloc={name}", "--mode=prod", check=False)
        assert refused.returncode != 0
        assert "until it ends" in refused.stderr
    finally:
        ward.cli("cancel", name)


def test_other_work_is_refused(ward: LocalCluster) -> None:
    status, said = ward.request("POST", "/allocations", {"entrypoint": ["true"], "telemetry": AUDIT})
    assert status == 400
    assert "is for sensitive work" in said["error"]["message"]
