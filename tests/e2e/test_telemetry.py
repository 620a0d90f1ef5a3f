"""Figures of real work on a real cluster are true: by the command line and by the client library."""

import sys
import textwrap
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.telemetry.metrics import MetricRow

pytestmark = pytest.mark.e2e

MB = 1 << 20
HELD_MB, WRITTEN_MB_PER_S, CPUS = 300, 5, 0.5
# Holds memory, writes and burns CPU time as fast as it should or the machine lets it, and notes every moment what it did so far.
WORK = textwrap.dedent(f"""
    import os, time
    held = bytearray({HELD_MB} << 20)
    held[::4096] = b"x" * len(held[::4096])
    file = open(os.environ["FOLDER"] + "/written", "wb", buffering=0)
    note = os.open(os.environ["FOLDER"] + "/note", os.O_CREAT | os.O_WRONLY)
    begin, written = time.monotonic(), 0
    while (now := time.monotonic() - begin) < 120:
        if written < now * {WRITTEN_MB_PER_S}:
            written += 1
            file.write(bytes(1 << 20))
        turn = time.monotonic()
        while time.process_time() < now * {CPUS} and time.monotonic() - turn < 0.1:
            pass
        os.pwrite(note, b"%20.3f %20.3f %20.3f" % (now, written, time.process_time()), 0)
        time.sleep(0.02)
""")


def test_what_a_run_uses_is_shown_as_it_is(cluster: LocalCluster, tmp_path: Path) -> None:
    client = cluster.client()
    environment: dict[str, str] = {"FOLDER": str(tmp_path)}
    name = cluster.submit([sys.executable, "-S", "-c", WORK], environment=environment)["id"]

    def rows(mode: str = "summary") -> dict[str, MetricRow]:
        try:
            return {row.metric: row for row in client.query_metrics(name, mode=mode).items}
        except LatticeError:
            return {}

    def is_measured() -> bool:
        found = rows().get("cpus_used")
        return found is not None and found.count >= 12

    eventually(is_measured, "it was measured for a while", within_s=60, every_s=2)
    found = rows("wide")
    elapsed_s, written_mb, cpu_s = map(float, (tmp_path / "note").read_text().split())
    assert found["memory_used"].now == pytest.approx(HELD_MB * MB, rel=0.08)
    assert found["io_write_bytes"].mean == pytest.approx(written_mb * MB / elapsed_s, rel=0.2)
    assert found["cpus_used"].mean == pytest.approx(cpu_s / elapsed_s, rel=0.2)
    assert found["cpu_utilization"].mean == pytest.approx(100 * found["cpus_used"].mean / 4, rel=0.05)
    assert found["processes"].now >= 1
    assert "gpu_utilization" not in found  # what is not measured is not there
    shown = cluster.cli("top", name)
    assert "from agents, measured by cgroup and proc" in shown.stdout
    assert "cpus_used" in shown.stdout
    client.cancel(name)
    client.wait(name)
    assert client.query_metrics(name).items, "the node knows it for an hour"
    client.close()


def test_samples_of_mode_debug_are_kept_in_the_object_store(cluster: LocalCluster) -> None:
    client = cluster.client()
    name = cluster.submit(["sleep", "300"], telemetry={"mode": "debug", "duration": "10m"})["id"]

    def is_sampled() -> bool:
        try:
            return any(row.count >= 2 for row in client.query_metrics(name).items)
        except LatticeError:
            return False

    eventually(is_sampled, "it was measured", within_s=60)
    client.cancel(name)
    client.wait(name)
    below, pattern = cluster.directory / "objects", f"*/*/{name}/telemetry/run-1/*/*.jsonl.zst"
    eventually(lambda: any(below.glob(pattern)), "its samples are stored", within_s=60)
    client.close()
