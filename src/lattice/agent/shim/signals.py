"""Signals to processes that may be dying, and to no others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

# Fewer than the descriptors that the shim keeps in reserve.
PIDFD_BATCH = 32


def open_pidfds(pids: list[int]) -> dict[int, int]:
    found = {}
    for pid in pids:
        try:
            found[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
    return found


def send_signals(pidfd: int, numbers: tuple[int, ...]) -> None:
    try:
        for number in numbers:
            signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        return


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal now; one that has none would die of it, or ignore it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line[7:], 16) >> (number - 1) & 1)
    except (OSError, ValueError):
        return False
    return False


def hint_members(members: Callable[[], list[int]], number: int, seen: set[int], *, dry: bool = False) -> set[int]:
    """Signal those processes that catch the signal and were not seen before; all are seen then. Returns the signalled ones.

    With `dry` nothing is sent: those are returned that would be signalled.
    The pidfd comes first, so what is read of the process, and its membership, is of the one that is signalled.
    """
    caught: set[int] = set()
    pids = [pid for pid in members() if pid not in seen]
    seen.update(pids)
    for start in range(0, len(pids) if number else 0, PIDFD_BATCH):
        fds = open_pidfds([pid for pid in pids[start : start + PIDFD_BATCH] if catches(pid, number)])
        still = set(members()) if fds else set()
        for pid, fd in fds.items():
            if pid in still and catches(pid, number):
                if not dry:
                    send_signals(fd, (number,))
                caught.add(pid)
            os.close(fd)
    return caught


def signal_members(members: Callable[[], list[int]], numbers: tuple[int, ...]) -> None:
    """Signal every process that `members` names, and no other.

    A pid may be reused between reading it and using it. A pidfd cannot: it is opened first, then
    membership is read again, so a stranger's pidfd is never used.
    """
    pids = members()
    for start in range(0, len(pids), PIDFD_BATCH):
        fds = open_pidfds(pids[start : start + PIDFD_BATCH])
        still = set(members())
        for pid, fd in fds.items():
            if pid in still:
                send_signals(fd, numbers)
            os.close(fd)
