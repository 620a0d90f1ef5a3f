"""Keeps all copies of a mover together below a rate."""

import threading
import time
from collections.abc import Callable

BURST_S = 0.25


class Pace:
    """`rate` in bytes per second; 0 = no limit. For several threads."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic) -> None:
        self.rate = 0.0
        self._sleep, self._now = sleep, now
        self._lock = threading.Lock()
        self._free_at = 0.0

    def spend(self, count: int) -> None:
        """Returns when that many bytes more are within the rate."""
        rate = self.rate
        if rate <= 0:
            return
        with self._lock:
            now = self._now()
            self._free_at = max(self._free_at, now - BURST_S) + count / rate
            wait_s = self._free_at - now
        if wait_s > 0:
            self._sleep(wait_s)
