"""The log's time, which a server stamps on entries and its loops use. It advances steadily, whatever the machine's clock does.

Times in the log never go back. A log whose last entry is ahead of the clock would therefore block until the clock has caught
up, and with it everything that compares a recorded time with the current time: back-offs, dependencies, walltimes, accounting. So the
log's time continues from its last entry by a monotonic clock, a little slower until the machine's clock has caught up.

A jump of the clock beyond the limit is ignored: the log's time continues as if it had not happened, and `jump_s` reports it, until the
clock comes back or a caller that has compared it with other servers calls `accept`.
"""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from lattice.ports.clock import Clock

STEP_LIMIT_S = 60.0
# How much slower the log's time runs than real time while it is ahead of the clock.
SLEW = 0.05
# No machine that runs a release has an earlier time (2025-01-01).
EARLIEST_MS = 1_735_689_600_000
YEARS_OFF_MS = 366 * 86_400_000


boot_s: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
"""Seconds since boot, including time in suspend; it cannot be set."""


class LogClock:
    """Implements `Clock`. Jumps of the machine's clock above `step_limit_s` are ignored.

    `steady_s` is a clock that cannot be set: a server passes `boot_s`, so that a suspended machine does not look like a jump.
    """

    def __init__(
        self, clock: Clock, step_limit_s: float = STEP_LIMIT_S, steady_s: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self.monotonic_s = clock.monotonic_s
        self._limit_ms = step_limit_s * 1000
        self._steady_s = steady_s or clock.monotonic_s
        self._read_s = self._steady_s()
        self._offset_ms = self._offset_at(
            self._read_s
        )  # from the steady clock to the machine's, as far as it is trusted
        self._now_ms = self._read_s * 1000 + self._offset_ms
        self._jump_ms = 0.0
        self._on_jump: list[Callable[[float], None]] = []

    @property
    def jump_s(self) -> float:
        """The size of the ignored jump of the machine's clock; 0 if there is none."""
        return self._jump_ms / 1000

    def on_jump(self, callback: Callable[[float], None]) -> None:
        """Calls back with the size of each detected jump in seconds."""
        self._on_jump.append(callback)

    def now_ms(self) -> int:
        # Every request reads the time several times: written out for the usual case, that the clock has not jumped.
        steady_s = self._steady_s()
        offset_ms = self._clock.now_ms() - steady_s * 1000
        if not self._jump_ms and -self._limit_ms <= offset_ms - self._offset_ms <= self._limit_ms:
            self._offset_ms = offset_ms
        else:
            self._watch_jumps(offset_ms)
        right_ms = steady_s * 1000 + self._offset_ms
        slow_ms = self._now_ms + max(0.0, (steady_s - self._read_s) * 1000) * (1 - SLEW)
        self._read_s = steady_s
        self._now_ms = right_ms if right_ms > slow_ms else slow_ms
        return int(self._now_ms)

    def note(self, at: int) -> None:
        """Ensures that the log's time is not behind this time of an entry."""
        if at > self._now_ms and at > self.now_ms():
            self._now_ms = float(at)

    def accept(self) -> None:
        """Accepts the machine's clock as right."""
        self._offset_ms = self._offset_at(self._steady_s())
        self._jump_ms = 0.0

    def _offset_at(self, steady_s: float) -> float:
        return self._clock.now_ms() - steady_s * 1000

    def _watch_jumps(self, offset_ms: float) -> None:
        had_jumped = self._jump_ms != 0.0
        jump_ms = offset_ms - self._offset_ms
        if abs(jump_ms) <= self._limit_ms:
            self._offset_ms, self._jump_ms = offset_ms, 0.0
            return
        self._jump_ms = jump_ms
        if not had_jumped:
            for callback in self._on_jump:
                callback(jump_ms / 1000)


def years_off(now_ms: int, last_at_ms: int) -> str:
    """Why a server with this clock must not continue a log whose last entry is of that time (0 = none); empty if it may.

    Once such a clock has stamped an entry, every later one is of its time, too.
    """
    if now_ms < EARLIEST_MS:
        return f"the clock of this machine says {_day(now_ms)}, before Lattice existed"
    if not last_at_ms or abs(now_ms - last_at_ms) <= YEARS_OFF_MS:
        return ""
    direction = "before" if now_ms < last_at_ms else "after"
    return f"the clock of this machine says {_day(now_ms)}, more than a year {direction} the last entry of the log ({_day(last_at_ms)})"


def _day(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (OverflowError, ValueError):
        return f"{at_ms / 1000:.0f} s after 1970"


def clock_fault(ahead_s: Iterable[float], limit_s: float) -> str:
    """The problem with this server's clock, given how far the others' are ahead of it; empty if there is none.

    The median of all clocks counts as right, and of two the one that is behind: a time in the log that is ahead cannot be
    revoked, one that is behind is harmless.
    """
    all_of_them = sorted((*ahead_s, 0.0))
    right_s = all_of_them[(len(all_of_them) - 1) // 2]
    if abs(right_s) <= limit_s:
        return ""
    direction = "behind" if right_s > 0 else "ahead of"
    return f"its clock is {abs(right_s):.1f} s {direction} the other servers', more than {limit_s:g} s"
