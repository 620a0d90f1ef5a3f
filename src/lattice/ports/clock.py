"""Time as the shells around the core see it. Replicated code never reads a clock: its time comes with the command."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read, one that never jumps."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC; may jump when the machine's clock is set."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
