"""How long `lattice tui` takes to its first rows, on a terminal of its own, with a long queue."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from statistics import median

from bench.cluster import client_of, start_cluster
from lattice.testing import LocalCluster
from lattice_sdk import Submission

QUEUED = 10_000
DEADLINE_S = 30.0


def tui_first_rows() -> dict[str, float]:
    with start_cluster(nodes=1) as cluster:
        with client_of(cluster) as client:
            requests = [Submission(entrypoint=["sleep", "600"], name=f"work-{count}") for count in range(QUEUED)]
            for start in range(0, QUEUED, 500):
                client.submit_batch(requests[start : start + 500])
        return {"tui_first_rows_s": median(_taken_s(cluster) for _ in range(5))}


def _taken_s(cluster: LocalCluster) -> float:
    """From the start of the program until the newest row is on the screen."""
    program = str(Path(sys.executable).with_name("lattice"))
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, ["lattice", "tui"], {**cluster.environment(), "TERM": "xterm-256color"})  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = b""
    wanted = f"work-{QUEUED - 1}".encode()
    try:
        while wanted not in seen:
            if not select.select([terminal], [], [], DEADLINE_S)[0] or time.perf_counter() - begun > DEADLINE_S:
                raise AssertionError(f"no rows within {DEADLINE_S:g} s: {seen[-500:]!r}")
            seen += os.read(terminal, 65536)
        return time.perf_counter() - begun
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
