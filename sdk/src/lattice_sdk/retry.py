"""When to ask again, how long to pause, and when to give up."""

import os
from collections.abc import Callable
from time import monotonic, sleep

from msgspec import Struct

DEFAULT_RETRY_FOR_S = 60.0
NOTE_AFTER_S = 1.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


def silent(_message: str) -> None:
    """Discards the note."""


def jitter() -> float:
    """A factor between a half and one, so that many clients do not come back together."""
    return 0.5 + os.urandom(1)[0] / 510


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long one call may be retried; `note` is called once a second has passed."""

    retry_for_s: float = DEFAULT_RETRY_FOR_S
    note: Callable[[str], None] = silent
    clock: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep
    jitter: Callable[[], float] = jitter

    def begin(self) -> "Attempts":
        return Attempts(self)


class Attempts:
    """The history of one call: when it began, how often it failed, whether it was reported."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._began_at = policy.clock()
        self._failures = 0
        self._is_noted = False

    @property
    def elapsed_s(self) -> float:
        return self._policy.clock() - self._began_at

    def again(self, why: str) -> bool:
        """Pause and say True, or say False when the time is over."""
        pause_s = self.next_pause_s(why)
        if pause_s is None:
            return False
        self._policy.pause(pause_s)
        return True

    def next_pause_s(self, why: str) -> float | None:
        """How long to pause before the next try; None when the time is over."""
        left = self._policy.retry_for_s - self.elapsed_s
        if left <= 0:
            return None
        if self.elapsed_s >= NOTE_AFTER_S:
            self.tell(f"{why}; trying again for up to {left:.0f} s")
        pause: float = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S) * self._policy.jitter()
        self._failures = min(self._failures + 1, 10)
        return min(pause, left)

    def tell(self, message: str) -> None:
        """Report the message, unless one was reported before."""
        if not self._is_noted:
            self._is_noted = True
            self._policy.note(message)
