"""Which endpoint of a service gets a request: the one with the fewest in flight; one that failed is left out for a while. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lattice.core.machine.parts.services import Endpoint

FIRST_OUT_S = 1.0
LONGEST_OUT_S = 30.0
KNOWN = 20_000


@dataclass(slots=True)
class _Standing:
    in_flight: int = 0
    last: int = 0  # a counter: which was chosen when
    failures: int = 0  # in a row
    out_until_s: float = 0.0


_NEW = _Standing()  # never changed


class Spreading:
    """`now_s` is a clock that never goes back. Each endpoint that was chosen is given back with `done`."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._known: OrderedDict[Endpoint, _Standing] = OrderedDict()
        self._turn = 0

    def choose(self, endpoints: Sequence[Endpoint], tried: Collection[Endpoint] = ()) -> Endpoint | None:
        """None when there is none. Those that failed lately, or were tried for this request, come last."""
        if not endpoints:
            return None
        now_s, known = self._now_s(), self._known

        def order(endpoint: Endpoint) -> tuple[bool, bool, int, int]:
            standing = known.get(endpoint, _NEW)
            return endpoint in tried, standing.out_until_s > now_s, standing.in_flight, standing.last

        chosen = min(endpoints, key=order)
        self._turn += 1
        standing = self._standing(chosen)
        standing.in_flight += 1
        standing.last = self._turn
        return chosen

    def done(self, endpoint: Endpoint, *, has_failed: bool) -> None:
        standing = self._standing(endpoint)
        standing.in_flight = max(0, standing.in_flight - 1)
        if has_failed:
            standing.out_until_s = self._now_s() + min(FIRST_OUT_S * 2**standing.failures, LONGEST_OUT_S)
            standing.failures = min(standing.failures + 1, 16)
        else:
            standing.failures = 0
            standing.out_until_s = 0.0

    def in_flight(self, endpoint: Endpoint) -> int:
        standing = self._known.get(endpoint)
        return 0 if standing is None else standing.in_flight

    def is_out(self, endpoint: Endpoint) -> bool:
        """Whether it failed lately."""
        standing = self._known.get(endpoint)
        return standing is not None and standing.out_until_s > self._now_s()

    def _standing(self, endpoint: Endpoint) -> _Standing:
        standing = self._known.get(endpoint)
        if standing is None:
            standing = self._known[endpoint] = _Standing()
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return standing
