"""Ports of running work: how fast bytes come through a forward, and requests through the gateway."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

from bench.cluster import client_of, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice_sdk import Client, Submission
from lattice_sdk.models.records import ResourceRequest

SIZE = 200_000_000
CLIENTS, REQUESTS = 32, 100
ALONE = 100
STARTS = 100
# Gives SIZE bytes to who says so, and one kilobyte to everybody else.
SERVER = """
import asyncio, sys
PAGE = b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n" + bytes(1000)
async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            if head.startswith(b"GIVE"):
                left, block = int(head[5:]), bytes(1 << 18)
                while left > 0:
                    writer.write(block[:left])
                    await writer.drain()
                    left -= len(block)
                break
            writer.write(PAGE)
            if b"connection: close" in head.lower():
                break
    except asyncio.IncompleteReadError:
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
    await server.serve_forever()
asyncio.run(main())
"""


def forwarding() -> dict[str, float]:
    """200 MB through one connection of `lattice forward`; then 32 clients at the gateway, and one at a time with and without it."""
    with tempfile.TemporaryDirectory() as folder, start_cluster(nodes=2) as cluster:
        said = Path(folder) / "port"
        alloc = cluster.submit([sys.executable, "-c", SERVER, str(said)])["id"]
        wait_until(said.exists, 30, "the server")
        port = int(said.read_text())
        return {"forward_mb_s": _forward(cluster, alloc, port), **_gateway(cluster, alloc, port)}


def starts_beside_tunnel() -> dict[str, float]:
    """Starts on a node whose forward carries all it can, against the same node while nothing is carried."""
    with tempfile.TemporaryDirectory() as folder, start_cluster(nodes=1) as cluster, client_of(cluster) as client:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        said = Path(folder) / "port"
        small = {"cpus": 1, "memory": "200MB"}
        alloc = cluster.submit([sys.executable, "-c", SERVER, str(said)], resources=small)["id"]
        wait_until(said.exists, 30, "the server")
        idle = percentile((_start(folder, client, f"idle{count}") for count in range(STARTS)), 0.99)
        with _forwarded(cluster, alloc, int(said.read_text())) as local, _draining(local):
            beside = percentile((_start(folder, client, f"beside{count}") for count in range(STARTS)), 0.99)
    print(f"  p99 idle {idle:.1f} ms, beside a full tunnel {beside:.1f} ms", file=sys.stderr)
    return {"start_beside_tunnel": beside / idle}


def _start(folder: str, client: Client, name: str) -> float:
    """Milliseconds from the submission to the process."""
    stamp = Path(folder) / name
    script = f'echo "$EPOCHREALTIME" > {stamp}.new && mv {stamp}.new {stamp}'
    small = ResourceRequest(cpus=1, memory="100MB")
    sent = time.time()
    allocation = client.submit(Submission(entrypoint=["bash", "-c", script], resources=small))
    wait_until(stamp.exists, 30, name)
    client.wait(allocation.id, timeout=30)
    return (float(stamp.read_text()) - sent) * 1000


@contextlib.contextmanager
def _draining(local: int) -> Iterator[None]:
    """Somebody takes whatever comes, on end."""
    connection = socket.create_connection(("127.0.0.1", local))
    connection.sendall(b"GIVE %d\r\n\r\n" % 10**13)
    connection.recv(1 << 18, socket.MSG_WAITALL)

    def drain() -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1 << 18):
                pass

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        yield
        if not reader.is_alive():
            raise AssertionError("the tunnel ended before the measurement")
    finally:
        connection.shutdown(socket.SHUT_RDWR)
        reader.join()
        connection.close()


@contextlib.contextmanager
def _forwarded(cluster: LocalCluster, alloc: str, port: int) -> Iterator[int]:
    """The port of this machine that leads there."""
    words = [str(Path(sys.executable).with_name("lattice")), "forward", alloc, f"0:{port}"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, **cluster.environment()}
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split()[0].rpartition(":")[2])
        finally:
            process.kill()


def _forward(cluster: LocalCluster, alloc: str, port: int) -> float:
    with _forwarded(cluster, alloc, port) as local:
        begun, got = time.perf_counter(), 0
        with socket.create_connection(("127.0.0.1", local)) as connection:
            connection.sendall(b"GIVE %d\r\n\r\n" % SIZE)
            while data := connection.recv(1 << 18):
                got += len(data)
        took = time.perf_counter() - begun
    if got != SIZE:
        raise AssertionError(f"{got:,} bytes of {SIZE:,}")
    return SIZE / took / 1e6


def _gateway(cluster: LocalCluster, alloc: str, port: int) -> dict[str, float]:
    opened = cluster.cli("open", alloc, str(port)).stdout.strip()
    jar = CookieJar()
    with build_opener(HTTPCookieProcessor(jar)).open(opened) as answer:
        answer.read()
    headers = {"Cookie": "; ".join(f"{each.name}={each.value}" for each in jar)}
    place = urlsplit(opened)
    direct = _ask("127.0.0.1", port, "/", {}, ALONE)
    through = _ask(place.hostname or "", place.port or 0, place.path, headers, ALONE)
    threads = [
        threading.Thread(target=_ask, args=(place.hostname, place.port, place.path, headers, REQUESTS))
        for _ in range(CLIENTS)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = CLIENTS * REQUESTS / (time.perf_counter() - begun)
    return {"gateway_rate": rate, "gateway_added_ms": percentile(through, 0.5) - percentile(direct, 0.5)}


def _ask(host: str, port: int, path: str, headers: dict[str, str], count: int) -> list[float]:
    connection = http.client.HTTPConnection(host, port)
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200 or len(answer.read()) != 1000:
            raise AssertionError(f"answered {answer.status}")
        times.append((time.perf_counter() - begun) * 1000)
    connection.close()
    return times
