"""Terminals as people use them: `lattice attach` on a pseudo-terminal of its own, keys, the first prompt, and a flood of output."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from bench.cluster import percentile, start_cluster
from lattice.testing import LocalCluster

KEYS = 300
OPENINGS = 7
FLOOD_BYTES = 200_000_000
WAIT_S = 60.0
LATTICE = str(Path(sys.executable).parent / "lattice")


class Terminal:
    """`lattice attach` in a pseudo-terminal; the first thing that it shows is timed."""

    def __init__(self, cluster: LocalCluster, *words: str) -> None:
        self.master, child = pty.openpty()
        environment = {**cluster.environment(), "PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "$ "}
        self._process = subprocess.Popen(
            [LATTICE, "attach", *words],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
        )
        os.close(child)

    def until(self, wanted: bytes) -> None:
        seen, deadline = b"", time.monotonic() + WAIT_S
        while wanted not in seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{wanted!r} did not come: {seen[-200:]!r}")
            seen += os.read(self.master, 1 << 16)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self.master)


def terminals() -> dict[str, float]:
    with start_cluster(1) as cluster:
        name = str(cluster.submit(["sleep", "3600"])["id"])
        cluster.wait_state(name, "Running")
        prompts = sorted(_first_prompt(cluster, name) for _ in range(OPENINGS))
        p50, p99 = _keys(cluster, name)
        return {
            "terminal_prompt_s": prompts[OPENINGS // 2],
            "terminal_key_p50_ms": p50,
            "terminal_key_p99_ms": p99,
            "terminal_flood_mb_s": _flood(cluster, name),
            "terminal_killed_s": _killed(cluster, name),
        }


def _first_prompt(cluster: LocalCluster, name: str) -> float:
    began = time.perf_counter()
    terminal = Terminal(cluster, name, "--command", "PS1='$ ' exec sh")
    try:
        terminal.until(b"$ ")
        took = time.perf_counter() - began
        os.write(terminal.master, b"exit\n")
        terminal.until(b"exit")
    finally:
        terminal.close()
    return took


def _keys(cluster: LocalCluster, name: str) -> tuple[float, float]:
    """Milliseconds from a key to its echo, median and 99th percentile."""
    terminal = Terminal(cluster, name, "--command", "echo ready; exec cat > /dev/null")
    took = []
    try:
        terminal.until(b"ready")
        for number in range(KEYS):
            if number % 60 == 59:
                os.write(terminal.master, b"\n")
                terminal.until(b"\n")
            began = time.perf_counter()
            os.write(terminal.master, b"k")
            terminal.until(b"k")
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.02)
    finally:
        terminal.close()
    return percentile(took, 0.5), percentile(took, 0.99)


def _killed(cluster: LocalCluster, name: str) -> float:
    """Seconds from kill -9 of the server until a line that was typed at that moment comes back, whole and once."""
    terminal = Terminal(cluster, name, "--command", "stty -echo; echo ready; exec cat")
    try:
        terminal.until(b"ready")
        began = time.perf_counter()
        cluster.kill("server")
        os.write(terminal.master, b"typed while it was away\n")
        terminal.until(b"typed while it was away")
        return time.perf_counter() - began
    finally:
        terminal.close()


def _flood(cluster: LocalCluster, name: str) -> float:
    """Megabytes per second of a command that only writes."""
    line = [LATTICE, "attach", name, "--command", f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x"]
    environment = {**cluster.environment(), "PATH": os.environ["PATH"]}
    began, size = time.perf_counter(), 0
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment) as process:
        while process.stdout is not None and (piece := process.stdout.read(1 << 20)):
            size += len(piece)
    # A client that is too slow is moved ahead, so fewer bytes may come than were written.
    return size / 1e6 / (time.perf_counter() - began)
