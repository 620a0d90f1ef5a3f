"""Requests that the gateway carried to services, counted for a short while. See docs/architecture/scaling.md."""

from collections import deque
from math import ceil

from msgspec import Struct

SPAN_S = 30.0
MAX_SERVICES = 20_000
MAX_LATENCIES = 1_000  # in one second of one allocation; beyond it only the count rises


class RequestRates(Struct, frozen=True, kw_only=True):
    """Over the last half minute, or since the first request."""

    per_s: float
    latency_p99_s: float | None  # None = none has ended
    in_flight: int


class _Second:
    __slots__ = ("at", "count", "latencies")

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.latencies: list[float] = []


class _Counted:
    __slots__ = ("began_s", "in_flight", "seconds")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.in_flight = 0
        self.seconds: deque[_Second] = deque(maxlen=int(SPAN_S) + 1)

    def second(self, now_s: float) -> _Second:
        # A request counts from when it came, which may be before another one ended: it is then counted in the newest second.
        if not self.seconds or self.seconds[-1].at < int(now_s):
            self.seconds.append(_Second(int(now_s)))
        return self.seconds[-1]


class RequestBoard:
    """By allocation and run; times are those of one clock that never goes back."""

    def __init__(self) -> None:
        self._counted: dict[tuple[int, int], _Counted] = {}
        self._swept_s = 0.0

    def begun(self, number: int, run: int, now_s: float) -> None:
        counted = self._counted.get((number, run))
        if counted is None:
            counted = self._counted[number, run] = _Counted(now_s)
            if len(self._counted) > MAX_SERVICES:
                del self._counted[next(iter(self._counted))]
            self._sweep(now_s)
        counted.in_flight += 1
        counted.second(now_s).count += 1

    def _sweep(self, now_s: float) -> None:
        """Forgets what no rate counts any more: runs that are over are not asked for again."""
        if now_s - self._swept_s < SPAN_S:
            return
        self._swept_s = now_s
        for counted in self._counted.values():
            if counted.seconds and now_s - counted.seconds[-1].at > SPAN_S:
                counted.seconds.clear()

    def ended(self, number: int, run: int, now_s: float, took_s: float) -> None:
        counted = self._counted.get((number, run))
        if counted is None:
            return
        counted.in_flight = max(0, counted.in_flight - 1)
        latencies = counted.second(now_s).latencies
        if len(latencies) < MAX_LATENCIES:
            latencies.append(took_s)

    def rates(self, number: int, run: int, now_s: float) -> RequestRates:
        """Of a run without a request: none per second, which is known and not missing."""
        counted = self._counted.get((number, run))
        if counted is None:
            return RequestRates(per_s=0.0, latency_p99_s=None, in_flight=0)
        recent = [each for each in counted.seconds if now_s - each.at <= SPAN_S]
        latencies = sorted(took for each in recent for took in each.latencies)
        span_s = min(SPAN_S, max(1.0, now_s - counted.began_s))
        return RequestRates(
            per_s=sum(each.count for each in recent) / span_s,
            latency_p99_s=latencies[ceil(len(latencies) * 0.99) - 1] if latencies else None,
            in_flight=counted.in_flight,
        )
