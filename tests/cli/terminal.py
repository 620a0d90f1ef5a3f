"""A program on a terminal of its own, as a person uses it."""

import os
import pty
import re
import select
import signal
import time
from pathlib import Path

from lattice.testing import LocalCluster

DEADLINE_S = 60.0
CONTROL_C = "\x03"


class Terminal:
    """`lattice WORDS` with a terminal as its stdin, stdout, stderr and controlling terminal."""

    def __init__(
        self,
        cluster: LocalCluster,
        program: str,
        *words: str,
        cwd: Path | None = None,
        variables: dict[str, str] | None = None,
    ) -> None:
        environment = {**(variables or cluster.environment()), "TERM": "xterm", "COLUMNS": "200"}
        self.seen = ""
        self._code: int | None = None
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            try:
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
                os.chdir(cwd or cluster.directory)
                os.execve(program, ["lattice", *words], environment)  # noqa: S606 - on a terminal of its own
            finally:
                os._exit(127)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, pattern: str) -> "re.Match[str]":
        """Read until the screen has shown it."""
        deadline = time.monotonic() + DEADLINE_S
        while (match := re.search(pattern, self.seen)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.seen!r}"
            if not self._read(left):
                match = re.search(pattern, self.seen)
                assert match is not None, f"no {pattern!r} before the end: {self.seen!r}"
                return match
        return match

    def ends(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, self.seen
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code

    def close(self) -> None:
        """As the window does: the program loses its terminal."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._code is None:
            deadline = time.monotonic() + DEADLINE_S
            while (found := os.waitpid(self._pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                select.select([], [], [], 0.02)
            if found[0] == 0:
                os.kill(self._pid, signal.SIGKILL)
                found = os.waitpid(self._pid, 0)
            self._code = os.waitstatus_to_exitcode(found[1])

    def _read(self, within_s: float) -> bool:
        if not select.select([self._fd], [], [], within_s)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)
