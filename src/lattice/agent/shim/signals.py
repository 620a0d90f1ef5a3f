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
