"""One line on a terminal: how many calls are done."""

import contextlib
import time
from typing import TextIO

CLEAR = "\r\x1b[K"
PAUSE_S = 0.1


class ProgressLine:
    """Shown where the stream is a terminal, or as `shown` says."""

    def __init__(self, stream: TextIO, *, shown: bool | None) -> None:
        self._stream = stream
        self._is_shown = stream.isatty() if shown is None else shown
        self._total = 0
        self._drawn_at = 0.0

    def add(self, count: int) -> None:
        self._total += count

    def show(self, left: int, running: int) -> None:
        """`left` of all calls are not done; their tasks are running as counted."""
        now = time.monotonic()
        if not self._is_shown or (left and now - self._drawn_at < PAUSE_S):
            return
        self._drawn_at = now
        done = self._total - left
        self._write(f"{CLEAR}{done}/{self._total} done, {running} tasks running" if left else CLEAR)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stream is no reason to lose results
            self._stream.write(text)
            self._stream.flush()
