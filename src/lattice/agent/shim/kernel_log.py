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
    """A process that the kernel killed; `group` is the control group whose limit was reached."""

    __slots__ = ("group", "name", "pid")

    def __init__(self, group: str, name: str, pid: int) -> None:
        self.group, self.name, self.pid = group, name, pid


def parse_victim(record: str) -> Victim | None:
    """The victim that a line of the kernel's log names; None for any other line."""
    _, found, text = record.partition(_MARK)
    if not found:
        return None
    # task=NAME,pid=N,uid=N end the line, and NAME may hold anything but a line break.
    head, _, tail = text.split("\n", 1)[0].rpartition(",pid=")
    head, _, name = head.partition(",task=")
    group = next((word[len("oom_memcg=") :] for word in head.split(",") if word.startswith("oom_memcg=")), "")
    pid = tail.split(",")[0]
    return Victim(group, name, int(pid)) if group and pid.isdigit() else None


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

    def victims_in(self, group: str) -> list[Victim]:
        """Those of the group of that name (its last part), oldest first."""
        self._read()
        return [victim for victim in self._victims if victim.group.rsplit("/", 1)[-1] == group]

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
