"""How the predicted starts of what waits have moved: an observation of the leader, bounded, and not part of the log."""

from collections import OrderedDict
from collections.abc import Iterable

from lattice.core.scheduler.proposals import Reservation
from lattice.ports.scheduling import Prediction

MAX_KEPT = 10_000  # allocations and groups
MAX_POINTS = 16  # of each: the first, and the latest
LEAST_MOVE_MS = 1000


class Predictions:
    """What each cycle predicted, kept where it differs from the one before."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, list[Prediction]] = OrderedDict()

    def note(self, now: int, reservations: Iterable[Reservation]) -> None:
        for each in reservations:
            points = self._kept.setdefault(each.number, [])
            self._kept.move_to_end(each.number)
            if points and abs(points[-1].start - each.start_at) < LEAST_MOVE_MS:
                continue
            points.append(Prediction(at=now, start=each.start_at))
            if len(points) > MAX_POINTS:
                del points[1]
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def forget(self, numbers: Iterable[int]) -> None:
        """They wait no more; if they wait again, that is another wait."""
        for number in numbers:
            self._kept.pop(number, None)

    def of(self, number: int) -> tuple[Prediction, ...]:
        """Oldest first; empty where nothing was predicted since this server leads."""
        return tuple(self._kept.get(number, ()))
