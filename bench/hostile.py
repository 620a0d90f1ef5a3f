"""What one request or many connections can take from a server: its time, its memory, its answers to others."""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.heaviest import Asking, heaviest, prepare
from bench.holding import Hold, HoldFile
from bench.server import free_port, server_on
from lattice.api.auth.tokens import sign_token

HEADS, HEAD_BYTES = 1000, 1 << 20
HALF_SENT, ASKED = 2000, 400
SETTLE_S = 0.05  # for what a request leaves behind, and before the next
_MB = 1 << 20


def longest_hold() -> dict[str, float]:
    """One request after the other, each as large as its limits allow, beside a server whose loop measures itself."""
    held: dict[str, Hold] = {}
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as name:
        folder = Path(name)
        file = HoldFile(folder / "holds")
        grpc_port = free_port()
        program = (sys.executable, "-m", "bench.holding", str(folder / "holds"))
        with server_on(folder, program=program, grpc_port=grpc_port) as (_, port, _):
            asking = Asking(port, grpc_port, _token(folder))
            prepare(asking)
            for what, ask in heaviest(asking):
                time.sleep(SETTLE_S)
                file.reset()
                ask()
                time.sleep(SETTLE_S)
                held[what] = file.read()
    for what, hold in sorted(held.items(), key=lambda each: -each[1].cpu_ms)[:8]:
        print(f"  {hold.cpu_ms:6.1f} ms, {hold.wall_ms:6.1f} ms by the clock: {what}", file=sys.stderr)
    return {
        "longest_hold_ms": max(hold.cpu_ms for hold in held.values()),
        "longest_hold_wall_ms": max(hold.wall_ms for hold in held.values()),
    }


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
