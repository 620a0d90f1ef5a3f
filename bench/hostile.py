"""What one request or many connections can take from a server: its time, its memory, its answers to others."""

import asyncio
import http.client
import json
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.server import server_on
from lattice.api.auth.tokens import sign_token

HEADS, HEAD_BYTES = 1000, 1 << 20
HALF_SENT, ASKED = 2000, 400
_MB = 1 << 20

Request = tuple[str, str, Any]


def longest_hold() -> dict[str, float]:
    """Asks for the health over and over beside one hostile request after the other; the slowest answer is the hold."""
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder, server_on(Path(folder)) as (_, port, _):
        headers = {"Authorization": f"Bearer {_token(Path(folder))}", "Content-Type": "application/json"}
        _ask(port, headers, ("POST", "/allocations", {"entrypoint": ["true"], "tasks": "0-99999", "hold": True}))
        worst = {}
        for name, request in _hostile():
            worst[name] = _hold_ms(port, lambda request=request: _ask(port, headers, request))  # type: ignore[misc]
    for name, held in sorted(worst.items(), key=lambda each: -each[1])[:6]:
        print(f"  {held:6.1f} ms {name}", file=sys.stderr)
    return {"longest_hold_ms": max(worst.values())}


def _hold_ms(port: int, ask: Callable[[], None]) -> float:
    worst, is_over = 0.0, threading.Event()

    def watch() -> None:
        nonlocal worst
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not is_over.is_set():
            begun = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            worst = max(worst, time.perf_counter() - begun)
        connection.close()

    watching = threading.Thread(target=watch)
    watching.start()
    time.sleep(0.05)
    ask()
    time.sleep(0.05)
    is_over.set()
    watching.join()
    return worst * 1000


def _ask(port: int, headers: dict[str, str], request: Request) -> None:
    method, path, body = request
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(method, f"/api/v1{path}", sent, headers)
    connection.getresponse().read()
    connection.close()


def _hostile() -> Iterator[tuple[str, Request]]:
    """Requests as large as the limits allow, each of a kind that once was, or could be, expensive."""
    noise = random.Random(1).randbytes(700_000).hex()
    names = ",".join(f"node{number:05}" for number in range(10_000))
    for name, fields in {
        "script that compresses": {"script": "#!/bin/sh\n" + "true\n" * 700_000},
        "script that does not": {"script": "#!/bin/sh\n# " + noise},
        "arguments": {"entrypoint": ["x" * 400] * 9_900},
        "environment": {"environment": {f"V{number}": "x" * 900 for number in range(4_000)}},
        "walltime": {"lifecycle": {"walltime": "1" * 4_000_000 + "x"}},
        "nodes folded": {"resources": {"constraints": {"nodes": "n[0-9998]"}}},
        "nodes with long names": {"resources": {"constraints": {"nodes": "x" * 120 + "[0-9998]"}}},
        "nodes unfolded": {"resources": {"constraints": {"nodes": names}}},
        "commas for nodes": {"resources": {"constraints": {"nodes": "," * 262_144}}},
        "tasks": {"tasks": ",".join(map(str, range(0, 20_000, 2)))},
        "dependencies": {"depends_on": ",".join(f"a{number}" for number in range(1_000))},
        "tags": {"tags": {f"k{number}": "v" * 1000 for number in range(4_000)}},
    }.items():
        yield f"submit, {name}", ("POST", "/allocations", {"entrypoint": ["true"], "hold": True} | _one_program(fields))
    member = {"entrypoint": ["true"], "hold": True, "resources": {"constraints": {"nodes": "n[0-9998]"}}}
    yield "batch of node lists", ("POST", "/allocations/batch", {"submissions": [member] * 500})
    yield "batch of nothing", ("POST", "/allocations/batch", b'{"submissions":[' + b"{}," * 1_300_000 + b"{}]}")
    ids = [f"a{number}" for number in range(10_000)]
    yield "cancel many", ("POST", "/allocations/cancel", {"ids": ids})
    pieces = ",".join(str(number) for number in range(0, 2_000, 2))
    yield "cancel pieces of a group", ("POST", "/allocations/cancel", {"ids": [f"a1_[{pieces}]"] * 500})
    yield "steps of pieces", ("POST", "/allocations/cancel", {"ids": ["a1_[" + "0-99999:2," * 900 + "1]"]})
    yield "lists in lists", ("POST", "/allocations/cancel", b'{"ids":' + b"[" * 4_000_000)
    yield "filter", ("GET", "/nodes?filter=State=a" + "%20" * 15_000 + "b", None)
    yield "filters by name", ("GET", "/nodes?" + "&".join(["filter=Name=n[0-299]"] * 64), None)
    yield "node set", ("GET", "/nodes?nodes=n[0-99998]", None)
    for name, argv in {
        "features": ["-C", "a|" * 60_000, "--wrap=true"],
        "node lists": [*["-w", "n[0-9998]"] * 200, "--wrap=true"],
        "export": ["--export=" + "A=1," * 30_000, "--wrap=true"],
    }.items():
        yield f"sbatch, {name}", ("POST", "/slurm/commands", {"program": "sbatch", "argv": argv})
    directives = "#!/bin/sh\n" + "#SBATCH -J x\n" * 300_000
    yield "sbatch, directives", ("POST", "/slurm/commands", {"program": "sbatch", "script": directives})
    yield "hostnames", ("POST", "/slurm/commands", {"program": "scontrol", "argv": ["show", "hostnames", "n[0-99998]"]})
    yield "scancel", ("POST", "/slurm/commands", {"program": "scancel", "argv": ["1"] * 30_000})
    yield "squeue", ("POST", "/slurm/commands", {"program": "squeue", "argv": ["-j", "1," * 20_000 + "1"]})


def _one_program(fields: dict[str, Any]) -> dict[str, Any]:
    return {"entrypoint": None, **fields} if "script" in fields else fields


def endless_heads() -> dict[str, float]:
    """The most that the server grows by while nobody it knows sends heads to it."""
    _allow_descriptors()
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder, server_on(Path(folder)) as (process, port, _):
        before = _rss(process.pid)
        peak = asyncio.run(_send_heads(port, lambda: _rss(process.pid)))
    return {"endless_heads_mb": (peak - before) / _MB}


async def _send_heads(port: int, memory: Callable[[], int]) -> int:
    peak = 0

    async def send() -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n")
            for _ in range(HEAD_BYTES // 4096):
                writer.write(b"x-endless: " + b"a" * 4083 + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
            await asyncio.sleep(2)
            writer.close()

    sending = asyncio.gather(*(send() for _ in range(HEADS)))
    while not sending.done():
        peak = max(peak, memory())
        await asyncio.wait((asyncio.ensure_future(sending),), timeout=0.05)
    return max(peak, memory())


def half_sent() -> dict[str, float]:
    """The share of requests that are answered while others are held half sent."""
    _allow_descriptors()
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder, server_on(Path(folder)) as (_, port, _):
        token = _token(Path(folder))
        return {"half_sent_percent": asyncio.run(_answered(port, token)) * 100 / ASKED}


async def _answered(port: int, token: str) -> int:
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(HALF_SENT)]
    for _, writer in held:
        writer.write(b"POST /api/v1/allocations HTTP/1.1\r\nhost: x\r\nx-half: ")
    answered = 0
    head = f"GET /api/v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    for _ in range(ASKED):
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head.encode())
                answered += (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()
    for _, writer in held:
        writer.close()
    return answered


def _rss(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024


def _token(folder: Path) -> str:
    secret = (folder / "secret").read_text().strip().encode()
    return sign_token(secret, user="bench", issued_at_s=int(time.time()), lifetime_s=3600, scope="admin")


def _allow_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
