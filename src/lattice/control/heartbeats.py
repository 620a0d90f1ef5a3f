"""How many heartbeats of one node are heard: a few per interval, and what comes beyond is neither noted nor worth a server's time."""

from dataclasses import dataclass

BURST = 20.0
PER_INTERVAL = 4.0
LEAST_PER_S = 1.0


def beats_per_s(interval_s: float) -> float:
    """What a node may send for good at this interval; those that beat seldom may still be asked out of turn."""
    return max(LEAST_PER_S, PER_INTERVAL / interval_s) if interval_s > 0 else LEAST_PER_S


@dataclass(slots=True)
class Allowance:
    """A bucket of heartbeats; a node keeps it over all its streams, so that reconnecting does not fill it."""

    per_s: float
    left: float = BURST
    filled_at: float = 0.0

    def take(self, now: float) -> bool:
        """Whether another one may be heard now; one that was brought by others may be older than the last."""
        if now > self.filled_at:
            self.left = min(BURST, self.left + (now - self.filled_at) * self.per_s)
            self.filled_at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True
