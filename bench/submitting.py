"""How fast submissions become durable: many at once (load from wrk, a C program), and one after the other."""

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.cluster import client_of, percentile, start_cluster, submission
from lattice.testing import LocalCluster
from lattice_sdk import Submission

LUA = """
wrk.method = "POST"
wrk.body = [==[%s]==]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
local bad = 0
response = function(status) if status ~= 201 then bad = bad + 1 end end
done = function(summary) io.write(string.format("requests=%%d duration_us=%%d errors=%%d\\n",
  summary.requests, summary.duration, summary.errors.status + summary.errors.read + summary.errors.timeout)) end
"""
CONNECTIONS = 32
SECONDS = 10


def submit_rate() -> dict[str, float]:
    """Acknowledged submissions per second, and whether each one is there afterwards."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is missing: tools/system-packages bench installs it")
    with start_cluster(nodes=0) as cluster:
        rate, acknowledged = _wrk(cluster)
        listed = cluster.get("/allocations/count")["total"]
        if listed < acknowledged:
            raise AssertionError(f"{acknowledged} acknowledged, {listed} there")
    return {"submit_rate": rate}


def _wrk(cluster: LocalCluster) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "submit.lua"
        script.write_text(LUA % (submission().decode(), cluster.token))
        script.chmod(0o600)
        done = subprocess.run(
            [
                "wrk",
                "-t1",
                f"-c{CONNECTIONS}",
                f"-d{SECONDS}s",
                "-s",
                str(script),
                f"{cluster.api_url}/api/v1/allocations",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r"requests=(\d+) duration_us=(\d+) errors=(\d+)", done.stdout)
    if found is None or int(found[3]):
        raise AssertionError(f"wrk saw errors: {done.stdout}")
    return int(found[1]) / (int(found[2]) / 1e6), int(found[1])


def submit_latency() -> dict[str, float]:
    with start_cluster(nodes=0) as cluster, client_of(cluster) as client:
        times = []
        for count in range(1200):
            begun = time.perf_counter()
            client.submit(Submission(entrypoint=["true"], name=f"b{count}"))
            times.append((time.perf_counter() - begun) * 1000)
        steady = times[200:]
    return {"submit_p50_ms": percentile(steady, 0.5), "submit_p99_ms": percentile(steady, 0.99)}
