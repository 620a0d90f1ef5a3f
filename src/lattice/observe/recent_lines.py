"""The last log lines of this process, in memory: an operator needs no shell on its machine to read them."""

import time
from collections import deque

MAX_BYTES = 1 << 20
MAX_LINE = 8192


class RecentLines:
    """Bounded in bytes; the oldest leave first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines: deque[tuple[float, str]] = deque()
        self._bytes = 0

    def add(self, at: float, line: str) -> None:
        """A line that was logged at this moment, in seconds since 1970."""
        kept = line[:MAX_LINE]
        self._lines.append((at, kept))
        self._bytes += len(kept)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._lines.popleft()[1])

    def since(self, seconds: float, *, most_bytes: int = MAX_BYTES) -> list[str]:
        """Lines of the last `seconds`, oldest first; where they are too large, the newest of them."""
        begin, size = time.time() - seconds, 0
        found: list[str] = []
        for at, line in reversed(self._lines):
            size += len(line)
            if at < begin or size > most_bytes:
                break
            found.append(line)
        return found[::-1]


RECENT = RecentLines()  # of this process
