"""How soon a process that died is started again: immediately, until it keeps dying."""

QUICK_S = 2.0
FREE_DEATHS = 3
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 2.0


class RestartPolicy:
    def __init__(self) -> None:
        self._quick_deaths = 0

    def delay_after(self, lived_s: float) -> float:
        """Seconds to wait after a process died, by its lifetime."""
        self._quick_deaths = self._quick_deaths + 1 if lived_s < QUICK_S else 0
        excess = self._quick_deaths - FREE_DEATHS
        return 0.0 if excess <= 0 else min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(excess - 1, 10))
