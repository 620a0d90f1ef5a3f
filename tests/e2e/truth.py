"""A program that does known things and counts them, and what was measured of it in the same moment."""

import json
import os
import subprocess
import sys
import textwrap
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lattice.testing import eventually
from lattice_sdk import Client
from lattice_sdk.models.telemetry.metrics import MetricEvent
from tests.conftest import require_program
from tests.monitoring_stack import fetch

MB = 1 << 20
SECONDS = 20
CPUS, WRITTEN_MB_PER_S, SENT_MB_PER_S, HELD_MB = 1.5, 50, 10, 300
METRICS = ("cpus_used", "memory_used", "io_write_bytes", "network_tx_bytes")
# Does all of it as fast as it should or the machine lets it, and notes every moment what it did so far.
WORK = textwrap.dedent(f"""
    import hashlib, os, socket, threading, time
    host, _, port = os.environ["PEER"].rpartition(":")
    peer = socket.create_connection((host, int(port)))
    held = bytearray({HELD_MB} << 20)
    held[::4096] = b"x" * len(held[::4096])
    piece, block = bytes(1 << 16), bytes(1 << 20)
    file = os.open(os.environ["FOLDER"] + "/written", os.O_CREAT | os.O_WRONLY)
    note = open(os.environ["FOLDER"] + "/notes", "w", buffering=1)
    begin, written, sent = time.monotonic(), 0, 0

    def burn():
        while True:
            if time.process_time() < (time.monotonic() - begin) * {CPUS}:
                hashlib.sha256(block)
            else:
                time.sleep(0.002)

    for _ in range(2):
        threading.Thread(target=burn, daemon=True).start()
    while (now := time.monotonic() - begin) < 300:
        if written < now * {WRITTEN_MB_PER_S << 20}:
            written += os.write(file, block)
            if written % (64 << 20) == 0:
                os.ftruncate(file, 0)
                os.lseek(file, 0, 0)
        if sent < now * {SENT_MB_PER_S << 20}:
            peer.sendall(piece)
            sent += len(piece)
        else:
            time.sleep(0.002)
        print(time.time(), time.process_time(), written, sent, file=note)
""")


class Point(NamedTuple):
    """A window of a second: when it ended, and its mean."""

    at_s: float
    mean: float


@contextmanager
def peer_host(folder: Path) -> Iterator[str]:
    """The address of a host of its own, in a network namespace, that takes everything."""
    ip, space, link = require_program("ip"), f"lattice-truth-{os.getpid()}", f"tru{os.getpid() % 100_000}"

    def do(*words: str) -> None:
        subprocess.run([ip, *words], check=True, capture_output=True)

    do("netns", "add", space)
    try:
        do("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        do("addr", "add", "10.213.78.1/30", "dev", link)
        do("link", "set", link, "up")
        do("-n", space, "addr", "add", "10.213.78.2/30", "dev", "eth0")
        do("-n", space, "link", "set", "eth0", "up")
        take = f"""
            import socket
            server = socket.create_server(("10.213.78.2", 0))
            open({str(folder / "port")!r}, "w").write(str(server.getsockname()[1]))
            taken, _ = server.accept()
            while taken.recv(1 << 20): pass
        """
        words = [ip, "netns", "exec", space, sys.executable, "-S", "-c", textwrap.dedent(take)]
        with subprocess.Popen(words) as process:
            try:
                eventually(lambda: (folder / "port").exists() and (folder / "port").read_text(), "the peer listens")
                yield f"10.213.78.2:{(folder / 'port').read_text()}"
            finally:
                process.kill()
    finally:
        do("netns", "del", space)


def notes(folder: Path) -> list[tuple[float, ...]]:
    """When, CPU seconds, bytes written, bytes sent: each so far."""
    try:
        lines = (folder / "notes").read_text().splitlines()
    except FileNotFoundError:
        return []
    rows = (tuple(map(float, line.split())) for line in lines[:-1])
    return [row for row in rows if len(row) == 4]


def expected(rows: list[tuple[float, ...]], end_s: float) -> dict[str, float]:
    first, last = _at(rows, end_s - SECONDS), _at(rows, end_s)
    rates = [(after - before) / SECONDS for before, after in zip(first, last, strict=True)]
    # The interpreter has some megabytes of its own.
    return dict(zip(METRICS, (rates[0], (HELD_MB + 8) * MB, rates[1], rates[2]), strict=True))


def _at(rows: list[tuple[float, ...]], at_s: float) -> list[float]:
    """What it had done by then: between two notes as much as their distance says. On a busy machine they are far apart."""
    after = next(row for row in rows if row[0] >= at_s)
    before = next((row for row in reversed(rows) if row[0] < at_s), after)
    share = (at_s - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
    return [old + share * (new - old) for old, new in zip(before[1:], after[1:], strict=True)]


def mean(points: list[Point], end_s: float) -> float:
    """Each counts as long as it is since the one before: a busy machine takes its samples late."""
    chosen = sorted(point for point in points if end_s - SECONDS < point.at_s <= end_s + 0.5)
    assert len(chosen) >= SECONDS / 2, points
    begin_s = end_s - SECONDS
    weights = [
        point.at_s - before for point, before in zip(chosen, [begin_s, *(each.at_s for each in chosen)], strict=False)
    ]
    return sum(point.mean * weight for point, weight in zip(chosen, weights, strict=True)) / sum(weights)


def collect(found: dict[str, list[Point]], event: MetricEvent) -> None:
    if event.kind == "figures" and event.mode == "debug":
        at_s = datetime.fromisoformat(event.at).timestamp() + event.length_s
        for figure in event.figures:
            found.setdefault(figure.metric, []).append(Point(at_s, figure.mean))


def from_top(client: Client, name: str, end_s: float) -> dict[str, list[Point]] | None:
    """What `lattice top` shows of it, once the store answers for the whole of it."""
    shown = client.query_metrics(name, metrics=METRICS, points=True)
    found = {
        row.metric: [
            Point(datetime.fromisoformat(point.at).timestamp() + point.length_s, point.mean) for point in row.points
        ]
        for row in shown.items
    }
    is_whole = shown.source == "store" and len(found) == len(METRICS)
    return found if is_whole and all(points[-1].at_s >= end_s for points in found.values()) else None


def from_store(url: str, name: str, end_s: float) -> dict[str, list[Point]]:
    """As anybody with access to the store may ask it."""
    found = {}
    for metric in METRICS:
        query = f'lattice_allocation_{metric}{{allocation="{name}",stat="mean"}}[{SECONDS + 5}s]'
        asked = urllib.parse.urlencode({"query": query, "time": f"{end_s + 1:.3f}", "nocache": "1"})
        (series,) = json.loads(fetch(f"{url}/api/v1/query?{asked}"))["data"]["result"]
        found[metric] = [Point(float(at_s), float(text)) for at_s, text in series["values"]]
    return found
