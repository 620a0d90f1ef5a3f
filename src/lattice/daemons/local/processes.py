"""Processes of a local cluster, found by their arguments and identified so that no other process is signalled.

A pid alone may belong to another process by the time it is used. Here a process is a pid with its start
time, and every signal goes through a pidfd that was opened before the start time was read again."""

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lattice.daemons.local.layout import Layout

KILL_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Process:
    pid: int
    started: int  # clock ticks since boot


@dataclass(frozen=True)
class Member:
    """A process of the cluster, and its role."""

    role: str
    name: str
    process: Process


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_of(pid: int) -> Process | None:
    """The process behind the pid; None when it has ended, reaped or not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The second field is the name in parentheses and may contain anything, including spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in {"Z", "X", "x"} else Process(pid, int(fields[19]))


def is_alive(process: Process) -> bool:
    return process_of(process.pid) == process


def open_pidfd(process: Process) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has already ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_alive(process):
        return fd
    os.close(fd)
    return None


def arguments_of(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            return file.read().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def option(arguments: list[str], name: str) -> str | None:
    for word, following in pairwise([*arguments, ""]):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def role_of(arguments: list[str], layout: Layout) -> tuple[str, str] | None:
    """Role and name of a process with these arguments in this cluster."""
    if not arguments:
        return None
    programs = {os.path.basename(word) for word in arguments[:6]}
    if "lattice-server" in programs:
        return _server_role(option(arguments, "--config"), layout)
    if "lattice-mover" in programs:
        return ("mover", "mover") if option(arguments, "--token-file") == str(layout.mover_token) else None
    if os.path.basename(arguments[0]) == "etcd":
        data = Path(option(arguments, "--data-dir") or "/")
        return ("etcd", option(arguments, "--name") or "") if layout.servers in data.parents else None
    if "lattice-supervisor" in programs and "run" in arguments:
        folder = os.path.realpath(option(arguments, "--dir") or "")
        return ("supervisor", "supervisor") if folder == str(layout.root) else None
    state = option(arguments, "--state-dir")
    if state is None or os.path.dirname(state) != str(layout.agents):
        return None
    if "lattice-agent" in programs:
        return "agent", os.path.basename(state)
    if "shim.py" in programs:
        return "shim", os.path.basename(state)
    return None


def _server_role(config: str | None, layout: Layout) -> tuple[str, str] | None:
    if config == str(layout.server_config):
        return "server", "server"
    folder = Path(config or "/").parent
    return ("server", folder.name) if folder.parent == layout.servers else None


def find_members(layout: Layout) -> list[Member]:
    """Every process of the cluster except the caller, whether or not cluster.json lists it."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        pid = int(name)
        # Few processes have a role, and this is done several times a second: only theirs are looked at a second time,
        # so that the role is that of the process whose start time was read.
        if role_of(arguments_of(pid), layout) is None:
            continue
        process = process_of(pid)
        role = role_of(arguments_of(pid), layout)
        if process is not None and role is not None:
            found.append(Member(*role, process))
    return found


def shim_of(layout: Layout, node: str) -> Process | None:
    """The node's shim from its pid file, unless the pid now belongs to another process."""
    try:
        pid = int((layout.state_of(node) / "shim.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    process = process_of(pid)
    if process is None or role_of(arguments_of(pid), layout) != ("shim", node):
        return None
    return process


def stop(processes: Iterable[Process], patience_s: float) -> list[Process]:
    """Sends SIGTERM, and SIGKILL after `patience_s`; returns the processes that survived both."""
    fds = {process: fd for process in processes if (fd := open_pidfd(process)) is not None}
    try:
        for fd in fds.values():
            # A stopped process handles SIGTERM only after SIGCONT.
            _signal(fd, signal.SIGTERM, signal.SIGCONT)
        left = _wait(fds, patience_s)
        for process in left:
            _signal(fds[process], signal.SIGKILL)
        return _wait({process: fds[process] for process in left}, KILL_PATIENCE_S)
    finally:
        for fd in fds.values():
            os.close(fd)


def _signal(fd: int, *numbers: int) -> None:
    with suppress(ProcessLookupError):
        for number in numbers:
            signal.pidfd_send_signal(fd, number)


def _wait(fds: dict[Process, int], patience_s: float) -> list[Process]:
    until = time.monotonic() + patience_s
    poller = select.poll()
    waiting = {fd: process for process, fd in fds.items()}
    for fd in waiting:
        poller.register(fd, select.POLLIN)
    while waiting and (left := until - time.monotonic()) > 0:
        for fd, _ in poller.poll(left * 1000):
            poller.unregister(fd)
            del waiting[fd]
    return list(waiting.values())
