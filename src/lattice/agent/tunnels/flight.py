"""Whether a connection to work carries a request or an answer at this moment: what a drain waits for."""

import time

QUIET_S = 0.5  # an answer without a further byte for this many seconds is complete


class Flight:
    """What went through a connection last: a request that has no answer yet, or an answer that may have more to say."""

    def __init__(self) -> None:
        self._is_asked = False
        self._answered_s = 0.0

    def inward(self) -> None:
        self._is_asked = True

    def outward(self) -> None:
        self._is_asked, self._answered_s = False, time.monotonic()

    def is_busy(self) -> bool:
        return self._is_asked or time.monotonic() - self._answered_s < QUIET_S
