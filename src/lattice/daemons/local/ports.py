"""The ports of the servers. They are chosen once per start of the cluster, so that a restarted server
keeps its address."""

import errno
import os
import random
import socket
from pathlib import Path

from lattice.daemons.local.options import HOST, StartFailed

LOWEST = 15000
TRIES = 200


def choose_port(asked: int, flag: str, taken: frozenset[int] = frozenset()) -> int:
    """The requested port, or a free one for 0. Raises StartFailed if it is in use."""
    if asked == 0:
        return free_port(taken)
    problem = problem_with(asked)
    if problem is None:
        return asked
    if problem == errno.EADDRINUSE:
        raise StartFailed(
            f"port {asked} on {HOST} is in use by another program",
            hint=f"use {flag} 0 for a free port, or {flag} P for another one",
        )
    raise StartFailed(f"port {asked} on {HOST} cannot be used: {os.strerror(problem)}")


def free_port(taken: frozenset[int]) -> int:
    """A free port below the kernel's range for outgoing connections: one of those could take it while the
    server restarts."""
    top = max(_first_outgoing_port(), LOWEST + TRIES) - 1
    chosen = random.SystemRandom()
    for _ in range(TRIES):
        port = chosen.randint(LOWEST, top)
        if port not in taken and problem_with(port) is None:
            return port
    raise StartFailed(f"no free port found between {LOWEST} and {top}")


def problem_with(port: int) -> int | None:
    """The errno that a server would get."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError as error:
            return error.errno or errno.EINVAL
    return None


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768
