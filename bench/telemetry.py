"""What measuring costs, how soon a closer look shows something, and a store that a thousand nodes send to."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.cluster import client_of, cpu_seconds, percentile, resident_mb, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice.testing.hollow import HollowNodes
from lattice_sdk.errors import LatticeError

PROGRAMS = Path(sys.executable).parent
RUNS, MEASURED_S = 10, 30
SWITCHES = 20
COMMANDS = 7
HOLLOW = 1000
WINDOW_S = 30
STATS = 6
METRICS_OF_NODE = 10
_BURN = "import hashlib, time\nblock = bytes(1 << 16)\nbegin = time.process_time()\nfor _ in range(12_000): hashlib.sha256(block)\nprint(time.process_time() - begin)"
_READ = (
    "import os, time\nfile = os.open('/dev/zero', os.O_RDONLY)\nbegin = time.process_time()\n"
    "for _ in range(600_000): os.read(file, 512)\nprint(time.process_time() - begin)"
)


def collection_cost() -> dict[str, float]:
    """CPU time of a program in a run that is measured by all sources, over that of the same program without an agent."""
    if os.geteuid() != 0:
        raise RuntimeError("BPF programs need root")
    programs = {"burn": _BURN, "read": _READ}
    ratios: dict[str, list[float]] = {name: [] for name in programs}
    with start_cluster(nodes=0) as cluster, client_of(cluster) as client:
        for turn in range(3):
            # Without the agent: its programs cost every task of the machine a little.
            alone = {name: min(_alone_s(program) for _ in range(2)) for name, program in programs.items()}
            with _agent(cluster, node=f"m{turn}"):
                cluster.run(["sleep", "2"])  # from the first run on, everything is counted
                for name, program in programs.items():
                    inside = []
                    for _ in range(2):
                        made = cluster.submit([sys.executable, "-S", "-c", program])["id"]
                        client.wait(made)
                        inside.append(float(cluster.cli("logs", made).stdout))
                    ratios[name].append(min(inside) / alone[name])
    return {"measured_burn_ratio": median(ratios["burn"]), "measured_read_ratio": median(ratios["read"])}


def _alone_s(program: str) -> float:
    return float(subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, check=True).stdout)


def collector_cost() -> dict[str, float]:
    """Agent and shim of a node with ten runs, all sources."""
    with start_cluster(nodes=0, **{"scheduling.cycle_interval_s": "1"}) as cluster, _agent(cluster, cpus=RUNS) as agent:
        cluster.cli("admin", "vcluster", "update", "default", "--node-sharing", "shared")
        names = [
            cluster.submit(["sleep", "300"], resources={"nodes": 1, "cpus": 1, "memory": "10M"})["id"]
            for _ in range(RUNS)
        ]
        client = client_of(cluster)
        wait_until(lambda: all(client.status(name).state == "Running" for name in names), 60, "ten runs")
        client.close()
        time.sleep(5)
        pids = [agent, *_shims(agent)]
        before = sum(map(cpu_seconds, pids))
        time.sleep(MEASURED_S)
        used = sum(map(cpu_seconds, pids)) - before
        return {
            "measured_node_cpu_percent": 100 * used / MEASURED_S,
            "measured_node_mb": sum(map(resident_mb, pids)),
        }


def closer_look() -> dict[str, float]:
    """From the request to change the mode to the first window of a second at an open stream; and `lattice top`."""
    with start_cluster(nodes=1) as cluster:
        times = [_switch_s(cluster) for _ in range(SWITCHES)]
        name = cluster.submit(["sleep", "600"])["id"]
        wait_until(lambda: _is_measured(cluster, name), 60, "the run is measured")
        return {"mode_switch_s": percentile(times, 0.99), "top_agents_s": _top_s(cluster, name, "from agents")}


def _switch_s(cluster: LocalCluster) -> float:
    """Of a run of its own: back in mode prod, the next window would come up to 30 s later."""
    name = cluster.submit(["sleep", "600"])["id"]
    wait_until(lambda: _is_measured(cluster, name), 60, "the run is measured")
    with client_of(cluster) as client, client_of(cluster) as second:
        stream = client.stream_metrics(name, ["cpus_used"])
        events = iter(stream)
        next(events)  # the run
        begun = time.perf_counter()
        second.update(name, {"telemetry": {"mode": "debug"}})
        while (event := next(events)).mode != "debug" or not 0 < event.length_s <= 1:
            continue
        taken = time.perf_counter() - begun
        stream.close()
        second.cancel(name)
        second.wait(name)
    return taken


def top_from_store() -> dict[str, float]:
    with _store() as url, start_cluster(nodes=0, **{"telemetry.tsdb_endpoint": url}) as cluster, _agent(cluster, url):
        name = cluster.submit(["sleep", "600"], telemetry={"mode": "debug"})["id"]
        wait_until(lambda: "from store" in cluster.cli("top", name, check=False).stdout, 60, "the store knows it")
        return {"top_store_s": _top_s(cluster, name, "from store")}


def hollow_store() -> dict[str, float]:
    """Server and store beside a thousand nodes that send a window each 30 s; what the store lacks of one of them."""
    with (
        _store() as url,
        start_cluster(nodes=0) as cluster,
        HollowNodes(cluster, HOLLOW, "--tsdb-endpoint", f"{url}/api/v1/write"),
    ):
        wait_until(lambda: len(cluster.nodes()) == HOLLOW, 120, "the nodes")
        time.sleep(10)
        (server,) = [process.pid for process in cluster.file.of_role("server")]
        # The windows that end next, and the time in which all nodes send them.
        end_s = (int(time.time()) // WINDOW_S + 1) * WINDOW_S
        before, begun = cpu_seconds(server), time.monotonic()
        time.sleep(max(0.0, end_s + WINDOW_S + 12 - time.time()))
        used = 100 * (cpu_seconds(server) - before) / (time.monotonic() - begun)
        _fetch(f"{url}/internal/force_flush")
        query = 'sum(count_over_time({__name__=~"lattice_node_.+"}[1s]))'
        asked = urllib.parse.urlencode({"query": query, "time": str(end_s), "nocache": "1"})
        result = json.loads(_fetch(f"{url}/api/v1/query?{asked}"))["data"]["result"]
        found = float(result[0]["value"][1]) if result else 0.0
        return {"hollow_server_cpu": used, "hollow_lost": HOLLOW * METRICS_OF_NODE * STATS - found}


def metrics_page() -> dict[str, float]:
    """`/metrics` of a server with 10,000 nodes."""
    with start_cluster(nodes=0) as cluster, HollowNodes(cluster, 10_000):
        wait_until(lambda: 'state="Ready"} 10000' in _fetch(f"{cluster.api_url}/metrics"), 300, "the nodes")
        time.sleep(5)
        times, page = [], ""
        for _ in range(9):
            begun = time.perf_counter()
            page = _fetch(f"{cluster.api_url}/metrics")
            times.append(1000 * (time.perf_counter() - begun))
            time.sleep(0.3)
        return {"metrics_page_ms": median(times), "metrics_page_kb": len(page) / 1000}


def _is_measured(cluster: LocalCluster, name: str) -> bool:
    with client_of(cluster) as client:
        try:
            return bool(client.query_metrics(name).items)
        except LatticeError:
            return False
        finally:
            time.sleep(0.5)


def _top_s(cluster: LocalCluster, name: str, source: str) -> float:
    times = []
    for _ in range(COMMANDS):
        begun = time.perf_counter()
        shown = cluster.cli("top", name).stdout
        times.append(time.perf_counter() - begun)
        assert source in shown, shown
    return median(times)


@contextmanager
def _agent(cluster: LocalCluster, store: str = "", cpus: int = 2, node: str = "m1") -> Iterator[int]:
    """An agent as it is installed: with BPF, unlike those of `lattice up`."""
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        words: list[str | Path] = [PROGRAMS / "lattice-agent", "--node-id", node, "--state-dir", Path(folder) / "state"]
        words += ["--servers", cluster.file.grpc, "--token-file", cluster.directory / "agent-token"]
        words += ["--cpus", str(cpus), "--metrics-listen", "off", "--allow-user", "root"]
        words += ["--tsdb-endpoint", f"{store}/api/v1/write"] if store else []
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            wait_until(lambda: node in cluster.nodes(), 60, "the node")
            cluster.wait_node(node, "Ready")
            yield process.pid
        finally:
            shims = _shims(process.pid)
            process.kill()
            process.wait()
            for shim in shims:
                os.kill(shim, 9)


def _shims(agent: int) -> list[int]:
    """The shim that this agent started, which outlives it."""
    words = _command(agent)
    folder = next((word for before, word in pairwise(words) if before == "--state-dir"), "")
    if not folder:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if (
            entry.name.isdigit()
            and int(entry.name) != agent
            and any(folder in word for word in _command(int(entry.name)))
        ):
            found.append(int(entry.name))
    return found


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


@contextmanager
def _store() -> Iterator[str]:
    program = shutil.which("victoria-metrics")
    if program is None:
        raise RuntimeError("victoria-metrics is not installed")
    from tests.s3_server import free_port

    port = free_port()
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        words = [f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=1d"]
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _answers(f"{url}/health"), 30, "the store")
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        _fetch(url)
    except OSError:
        return False
    return True


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - of this machine
        return str(answer.read().decode())
