"""Work that takes more than its share of a node: confined, named and accounted for."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.launching import launched, rest_of

pytestmark = [pytest.mark.e2e, pytest.mark.root]

SHARE = {"nodes": 1, "cpus": 1, "memory": "128M"}
HOG = "x = bytearray(90 << 20); import time; time.sleep(0)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1) as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        cluster.cli("compat-aliases")
        yield cluster


def slurm(cluster: LocalCluster, *words: str) -> str:
    program, *arguments = words
    command = [str(Path(sys.prefix) / "libexec" / "slurm" / program), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=cluster.environment(), timeout=60, check=True
    ).stdout


def test_what_a_run_used_is_shown_wherever_its_end_is(cluster: LocalCluster, tmp_path: Path) -> None:
    script = (
        f"{HOG}; f = open(r'{tmp_path}/out', 'wb'); f.write(bytes(3 << 20)); f.flush(); import os; os.fsync(f.fileno())"
    )
    done = cluster.run(f'{sys.executable} -S -c "{script}"', resources=SHARE)
    assert done["state"] == "Completed"
    assert 90 <= done["peak_memory_mb"] <= 128
    usage: dict[str, Any] = done["usage"]
    assert usage["written_bytes"] >= 3 << 20
    assert usage["peak_pids"] >= 1
    shown = cluster.cli("status", done["id"], "--verbose").stdout
    assert "Storage" in shown
    assert "Most processes" in shown
    header, *rows = cluster.cli("history", "-o", "wide").stdout.splitlines()
    assert {"THROTTLED", "READ", "WRITTEN", "PIDS"} <= set(header.split())
    assert any(done["id"] in row for row in rows)
    batch = slurm(cluster, "sacct", "-n", "-P", "-j", str(done["number"]), "-o", "JobID,MaxRSS,MaxDiskWrite")
    row = next(line.split("|") for line in batch.splitlines() if line.split("|")[0].endswith(".batch"))
    assert int(row[1].removesuffix("K")) >= 90 * 1024
    assert float(row[2].removesuffix("M")) >= 3


def test_step_that_runs_out_of_memory_ends_alone_and_says_why(cluster: LocalCluster) -> None:
    alloc = cluster.submit("exec sleep 300", resources=SHARE)["id"]
    eventually(lambda: cluster.get(f"/allocations/{alloc}")["state"] == "Running", "the allocation to run")
    hog = "x = bytearray(500 << 20)"
    launched = cluster.cli("launch", "--alloc", alloc, "-n", "1", sys.executable, "-S", "-c", hog, check=False)
    assert launched.returncode == 137
    assert "out of memory (limit 128 MB, peak 12" in launched.stderr
    assert "of rank 0" in launched.stderr

    def recorded() -> bool:
        return all(step["codes"] for step in cluster.get(f"/allocations/{alloc}/steps")["items"])

    eventually(recorded, "the step to be recorded")
    (step,) = cluster.get(f"/allocations/{alloc}/steps")["items"]
    assert (step["cause"], step["exit_code"]) == ("oom", 137)
    assert 100 < step["peak_memory_mb"] <= 129
    assert cluster.get(f"/allocations/{alloc}")["state"] == "Running"
    number = str(cluster.get(f"/allocations/{alloc}")["number"])
    shown = slurm(cluster, "sacct", "-n", "-P", "-j", number, "-o", "JobID,State")
    assert f"{number}.0|OUT_OF_MEMORY" in shown.splitlines()
    cluster.delete(f"/allocations/{alloc}")
    assert cluster.wait_end(alloc)["cause"] == "cancelled"


def test_what_a_run_and_its_steps_use_is_shown_while_they_run(cluster: LocalCluster) -> None:
    alloc = cluster.submit("exec sleep 300", resources=SHARE)["id"]
    eventually(lambda: cluster.get(f"/allocations/{alloc}")["state"] == "Running", "the allocation to run")
    hog = "x = bytearray(60 << 20); import time; time.sleep(300)"
    with launched(cluster, alloc, "-n", "1", sys.executable, "-S", "-c", hog) as step:

        def uses() -> dict[Any, Any]:
            return {use["step"]: use for use in cluster.get(f"/allocations/{alloc}/usage")["items"]}

        eventually(lambda: uses().get(0, {}).get("memory_mb", 0) > 60, "the step to be measured")
        found = uses()
        assert found[None]["memory_mb"] >= found[0]["memory_mb"]
        assert found[0]["pids"] >= 1
        assert found[None]["node"] == "n1"
        shown = cluster.cli("status", alloc, "--verbose").stdout
        assert "Uses now:" in shown
        assert f"Step {alloc}.0:" in shown
        row = next(line for line in cluster.cli("steps", alloc, "-o", "wide").stdout.splitlines() if "running" in line)
        assert "M " in row
        number = str(cluster.get(f"/allocations/{alloc}")["number"])
        listed = slurm(cluster, "sstat", "-a", "-n", "-P", "-j", number, "-o", "JobID,MaxRSS,MaxRSSNode,NTasks")
        rows = {line.split("|")[0]: line.split("|")[1:] for line in listed.splitlines()}
        assert int(rows[f"{number}.0"][0].removesuffix("K")) > 60 * 1024
        assert rows[f"{number}.0"][1:] == ["n1", "1"]
        assert f"{number}.batch" in rows
        cluster.delete(f"/allocations/{alloc}")
        cluster.wait_end(alloc)
        rest_of(step)
    assert cluster.get(f"/allocations/{alloc}/usage")["items"] == []


def test_memory_of_a_run_and_its_steps_comes_from_where_it_was_asked_for(cluster: LocalCluster) -> None:
    if "memory_policy" not in cluster.nodes()["n1"]["features"]:
        pytest.skip("this kernel has no memory policies")
    show = "cat /proc/self/numa_maps"
    done = cluster.run(show, resources={**SHARE, "constraints": {"memory_policy": "interleave"}})
    assert " interleave:" in cluster.logs(done["id"])
    run = cluster.submit("exec sleep 300", resources={**SHARE, "constraints": {"memory_policy": "bind:0"}})
    cluster.wait_state(run["id"], "Running")
    step = cluster.cli("launch", "--alloc", run["id"], "-n", "1", "sh", "-c", show)
    assert " bind:0 " in step.stdout
    cluster.delete(f"/allocations/{run['id']}")
    strange = cluster.run("true", resources={**SHARE, "constraints": {"memory_policy": "bind:9"}})
    assert (strange["cause"], "there is no NUMA node 9 on this node" in strange["message"]) == ("launch", True)
    wrong = cluster.cli("submit", "--memory-policy=near", "--", "true", check=False)
    assert (wrong.returncode != 0, '--memory-policy: "near" is not a memory policy' in wrong.stderr) == (True, True), (
        wrong.stderr
    )
