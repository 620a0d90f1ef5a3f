"""A bar that fills while a replay runs; only where somebody looks."""

import time
from collections.abc import Callable
from typing import TextIO

_WIDTH = 40
_EVERY_S = 0.1
_SOON_S = 5.0


class Bar:
    """Draws over one line of a terminal, at most ten times a second."""

    def __init__(self, stream: TextIO, total: int, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._total = total
        self._clock = clock
        self._began = clock()
        self._drawn = float("-inf")

    def __call__(self, done: int) -> None:
        now = self._clock()
        if now - self._drawn < _EVERY_S:
            return
        self._drawn = now
        share = done / self._total if self._total else 1.0
        filled = "#" * int(share * _WIDTH)
        rate = done / (now - self._began) if now > self._began else 0.0
        left_s = (self._total - done) / rate if rate else 0.0
        end = f"about {time.strftime('%H:%M', time.localtime(time.time() + left_s))}" if left_s > _SOON_S else ""
        self._stream.write(f"\r[{filled:{_WIDTH}}] {done:,}/{self._total:,} done, {rate:,.0f}/s {end}\x1b[K")
        self._stream.flush()

    def clear(self) -> None:
        """Leaves the line empty."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()
