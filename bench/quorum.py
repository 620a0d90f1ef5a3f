"""Three servers: how fast they take submissions, how soon each is durable, what the loss of the leader costs, how a new one catches up."""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from bench.cluster import DEFAULT_TIMINGS, percentile, submission
from bench.submitting import LUA
from lattice.quorum.etcd.client import EtcdClient
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.testing import LocalCluster, eventually
from lattice.wire.pb import etcd_pb2 as pb
from lattice_sdk import Client, Submission

SERVERS = 3
CONNECTIONS = 64
SECONDS = 10
RATE = 100
CLIENTS = 20
KNOWN = 100_000
POWER_CUTS = 10
CALM_S = 4.0  # so long a process has to live for its next start to come at once


def _three(**settings: str) -> LocalCluster:
    return LocalCluster(nodes=0, servers=SERVERS, settings={**DEFAULT_TIMINGS, **settings})


def quorum_rate() -> dict[str, float]:
    """Connections are spread over the servers; every answer counts only with status 201."""
    with _three() as cluster:
        begun = time.perf_counter()
        done = _submit_by_wrk(cluster, SECONDS)
        took = time.perf_counter() - begun
        listed = cluster.get("/allocations/count")["total"]
        if listed < done:
            raise AssertionError(f"{done} acknowledged, {listed} there")
    return {"quorum_rate": done / took}


def _submit_by_wrk(cluster: LocalCluster, seconds: int) -> int:
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is missing: tools/system-packages bench installs it")
    urls = list(cluster.urls.values())
    shares = [CONNECTIONS // len(urls) + (number < CONNECTIONS % len(urls)) for number in range(len(urls))]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "submit.lua"
        script.write_text(LUA % (submission().decode(), cluster.token))
        script.chmod(0o600)
        running = [
            subprocess.Popen(
                ["wrk", "-t1", f"-c{share}", f"-d{seconds}s", "-s", str(script), f"{url}/api/v1/allocations"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for url, share in zip(urls, shares, strict=True)
        ]
        said = [process.communicate()[0] for process in running]
    found = [re.search(r"requests=(\d+) duration_us=\d+ errors=(\d+)", text) for text in said]
    if any(one is None or int(one[2]) for one in found):
        raise AssertionError(f"wrk saw errors: {said}")
    return sum(int(one[1]) for one in found if one is not None)


def quorum_latency() -> dict[str, float]:
    """Submissions at a fixed rate, the servers taking turns; a late start counts as waiting."""
    times: list[float] = []
    leader: list[float] = []
    with _three() as cluster:
        urls = cluster.urls
        name = cluster.leader()
        alone = asyncio.run(_puts(cluster, name))
        print(f"  a put to etcd alone: p50 {percentile(alone, 0.5):.1f} ms", file=sys.stderr)
        threads = [
            threading.Thread(target=_steady, args=(cluster, url, number, times, leader if server == name else None))
            for number, (server, url) in enumerate(urls.items())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {
        "quorum_p50_ms": percentile(times, 0.5),
        "quorum_p99_ms": percentile(times, 0.99),
        "quorum_leader_p50_ms": percentile(leader, 0.5),
    }


async def _puts(cluster: LocalCluster, leader: str, count: int = 100) -> list[float]:
    """What the disks and the three members take, in milliseconds, whatever is built upon them."""
    member = cluster.process("etcd", leader)
    assert member is not None
    certificates = CertificateFolder(cluster.directory / "servers" / leader / "data" / "certificates")
    times = []
    async with EtcdClient([member.addresses[0].removeprefix("https://")], certificates) as client:
        for _ in range(count):
            begun = time.perf_counter()
            await client.put(pb.PutRequest(key=b"bench", value=bytes(300)))
            times.append((time.perf_counter() - begun) * 1000)
    return times


def _steady(
    cluster: LocalCluster, url: str, number: int, times: list[float], also: list[float] | None, seconds: float = 12.0
) -> None:
    """One third of the rate by a few connections to one server; the first two seconds do not count."""
    lanes = 6
    every_s = SERVERS * lanes / RATE
    begin = time.perf_counter() + 0.2

    def lane(offset: int) -> None:
        with Client(url, token=cluster.token) as client:
            for count in itertools.count():
                due = begin + every_s * (count + (offset + number / SERVERS) / lanes)
                if due > begin + seconds:
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                client.submit(Submission(entrypoint=["true"]))
                if due > begin + 2.0:
                    took = (time.perf_counter() - due) * 1000
                    times.append(took)
                    if also is not None:
                        also.append(took)

    threads = [threading.Thread(target=lane, args=(offset,)) for offset in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def quorum_gap() -> dict[str, float]:
    """kill -9 of the leader and its etcd member under load; the longest time without an acknowledged submission."""
    moments: list[float] = []
    stop = threading.Event()

    def submit(number: int) -> None:
        urls = list(cluster.urls.values())
        first = number % SERVERS
        with Client(urls[first:] + urls[:first], token=cluster.token, retry_for=60) as client:
            while not stop.wait(0.05):
                acknowledged.add(client.submit(Submission(entrypoint=["true"])).id)
                moments.append(time.monotonic())

    acknowledged: set[str] = set()
    with _three() as cluster:
        threads = [threading.Thread(target=submit, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        time.sleep(2.0)
        leader = cluster.leader()
        killed = time.monotonic()
        cluster.kill("etcd", leader)
        cluster.kill("server", leader)
        time.sleep(8.0)
        stop.set()
        for thread in threads:
            thread.join()
        cluster.wait_serving()
        listed = {item["id"] for item in cluster.get("/allocations?limit=10000")["items"]}
    around = [moment for moment in sorted(moments) if moment >= killed - 0.5]
    gap = max(after - before for before, after in itertools.pairwise(around))
    return {"quorum_gap_s": gap, "quorum_lost": float(len(acknowledged - listed))}


def quorum_power_cut() -> dict[str, float]:
    """kill -9 of all servers and their members at once, again and again; the longest time until a write is acknowledged."""
    gaps: list[float] = []
    acknowledged: set[str] = set()
    with _three() as cluster:
        with Client(list(cluster.urls.values()), token=cluster.token, retry_for=60) as client:
            for _ in range(POWER_CUTS):
                time.sleep(CALM_S)
                gaps.append(_cut_power(cluster, client, acknowledged))
        cluster.wait_serving()
        listed = {item["id"] for item in cluster.get("/allocations?limit=10000")["items"]}
    print(f"  {', '.join(f'{gap:.2f}' for gap in gaps)} s", file=sys.stderr)
    return {"quorum_cut_s": max(gaps), "quorum_cut_lost": float(len(acknowledged - listed))}


def _cut_power(cluster: LocalCluster, client: Client, acknowledged: set[str]) -> float:
    acknowledged.add(client.submit(Submission(entrypoint=["true"])).id)
    begun = time.monotonic()
    doomed = [process.pid for process in cluster.file.processes if process.role in ("server", "etcd")]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):  # a member dies with its server
            os.kill(pid, signal.SIGKILL)
    acknowledged.add(client.submit(Submission(entrypoint=["true"])).id)
    return time.monotonic() - begun


def quorum_join() -> dict[str, float]:
    """A fourth server begins with nothing, while the others know 100,000 allocations; until it has them and votes."""
    with _three(**{"snapshots.every_commands": "20000"}) as cluster:
        while (known := cluster.get("/allocations/count")["total"]) < KNOWN:
            _submit_by_wrk(cluster, min(30, 2 + (KNOWN - known) // 1000))
        with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder, _fourth(cluster, Path(folder)) as process:
            begun = time.perf_counter()
            process()
            eventually(lambda: _has_caught_up(cluster), "the new server votes and has everything", within_s=300)
            return {"quorum_join_s": time.perf_counter() - begun}


def _has_caught_up(cluster: LocalCluster) -> bool:
    servers = cluster.get("/raft/members")["items"]
    votes = any(server["name"] == "s4" and server["role"] == "voter" for server in servers)
    members = {member["name"]: member for member in cluster.get("/raft/status")["members"]}
    if not votes or "s4" not in members:
        return False
    return bool(members["s4"]["healthy"] and members["s4"]["digest"] == members["s1"]["digest"])


@contextmanager
def _fourth(cluster: LocalCluster, folder: Path) -> Iterator["_Start"]:
    config, token = folder / "server.yaml", folder / "token"
    config.write_text(yaml.safe_dump(_config_of_fourth(cluster, folder)))
    cluster.cli("admin", "raft", "members", "add", "s4", "--out", str(token))
    starter = _Start(config, token, folder / "log")
    try:
        yield starter
    finally:
        starter.end()


class _Start:
    """The new server's process, once it is called."""

    def __init__(self, config: Path, token: Path, log: Path) -> None:
        program = str(Path(sys.executable).with_name("lattice-server"))
        self._words = [program, "--config", str(config), "--join", "--join-token-file", str(token)]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _config_of_fourth(cluster: LocalCluster, folder: Path) -> dict[str, object]:
    places = [f"127.0.0.1:{port}" for port in _free_ports(4)]
    peer = dict(zip(("rest", "grpc", "client", "peer"), (f"http://{places[0]}", *places[1:]), strict=True))
    secret = f"file://{cluster.directory / 'secret'}"
    quorum = {"kind": "etcd", "peers": [{"name": "s4", **peer}]}
    return {
        "name": "s4",
        "mode": "dev",
        "data_dir": str(folder / "data"),
        "api": {"rest_listen": places[0], "grpc_listen": places[1], "hmac_secret": secret},
        "quorum": {**quorum, "internal_listen": "127.0.0.1:0", "relay_listen": "127.0.0.1:0"},
        "object_store": {"directory": str(cluster.directory / "objects")},
    }


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
