"""How long work will run, learnt from what the same user's work of the same name took.

A prediction only helps to order a queue: reservations and backfilling count with walltimes, so a wrong one delays no allocation
beyond what was promised. Memory is bounded; the pair that was learnt first is forgotten first.
See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.tables.slots import Interned, Ints

MAX_PAIRS = 65_536
Pair = tuple[str, str]  # user and name


class Predictor:
    """The mean of the last two runs of a pair. Pairs that wait in the queue have a number while they do."""

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = most
        self._runs: dict[Pair, tuple[int, int]] = {}
        self._waiting: Interned[Pair] = Interned()
        self._expected: Ints = np.zeros(64, np.int64)

    def learn(self, user: str, name: str, seconds: int) -> None:
        pair = (user, name)
        before = self._runs.get(pair)
        if before is None and len(self._runs) >= self._most:
            del self._runs[next(iter(self._runs))]
        self._runs[pair] = (max(1, seconds), before[0] if before else max(1, seconds))
        number = self._waiting.number_of(pair)
        if number is not None:
            self._expected[number] = self._mean(pair)

    def hold(self, user: str, name: str) -> int:
        """The number of a pair, which is its own until `drop`."""
        pair = (user, name)
        number = self._waiting.hold(pair)
        if number >= len(self._expected):
            self._expected = np.concatenate([self._expected, np.zeros_like(self._expected)])
        self._expected[number] = self._mean(pair)
        return number

    def drop(self, number: int) -> None:
        self._waiting.drop(number)

    def expected_s(self, numbers: Ints) -> Ints:
        """Seconds, 0 where nothing was learnt."""
        return self._expected.take(numbers)

    def _mean(self, pair: Pair) -> int:
        runs = self._runs.get(pair)
        return 0 if runs is None else max(1, sum(runs) // 2)
