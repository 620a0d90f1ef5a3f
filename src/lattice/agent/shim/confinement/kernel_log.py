"""Whom the kernel killed for want of memory, as its log says it: the name of a process is gone with the process.

Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import os

KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
MAX_RECORDS = 10_000  # read in one go; the rest is read the next time
KEPT_VICTIMS = 256
_MARK = "oom-kill:"


class Victim:
    """A process that the kernel killed; `group` is the control group whose limit was reached, `member` the one it was in."""

    __slots__ = ("group", "member", "name", "pid")

    def __init__(self, group: str, member: str, name: str, pid: int) -> None:
        self.group, self.member, self.name, self.pid = group, member, name, pid

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name} (pid {self.pid})"


def parse_victim(record: str) -> Victim | None:
    """The victim that a line of the kernel's log names; None for any other line."""
    _, found, text = record.partition(_MARK)
    if not found:
        return None
    # task=NAME,pid=N,uid=N end the line, and NAME may hold anything but a line break.
    head, _, tail = text.split("\n", 1)[0].rpartition(",pid=")
    head, _, name = head.partition(",task=")
    words = dict(word.partition("=")[::2] for word in head.split(","))
    group = words.get("oom_memcg", "")
    pid = tail.split(",")[0]
    return Victim(group, words.get("task_memcg", group), name, int(pid)) if group and pid.isdigit() else None


def out_of_memory(limit_mb: int, peak_mb: float | None, victim: str) -> str:
    """Why the kernel killed something, in the words of the message."""
    peak = f", peak {peak_mb:.0f} MB" if peak_mb is not None else ""
    return f"limit {limit_mb} MB{peak}{f', {victim}' if victim else ''}"


class KernelLog:
    """Reads from where the log stood when this was made. Nothing is known where the log may not be read."""

    def __init__(self, path: str = KERNEL_LOG) -> None:
        self._victims: list[Victim] = []
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    def victims_in(self, *groups: str) -> list[Victim]:
        """Those that were in one of these groups (the last parts of their names), oldest first."""
        self._read()
        endings = tuple(f"/{group}" for group in groups)
        return [victim for victim in self._victims if victim.member.endswith(endings)]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        for _ in range(MAX_RECORDS if self._fd >= 0 else 0):
            try:
                record = os.read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # records were overwritten before they were read
            except OSError:
                self.close()
                return
            victim = parse_victim(record.decode("utf-8", "replace"))
            if victim is not None:
                self._victims = [*self._victims[-KEPT_VICTIMS:], victim]
