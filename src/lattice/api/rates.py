"""How much one user may ask for: requests by token buckets, streams by their number. Nothing waits; what is over is refused.

The server that executes a request counts it, once: a follower forwards it uncounted. Counts are per server and start from zero
with it. What an administrator sets through the API wins over the configuration.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from lattice.api.answers import EventAnswer, TextAnswer, TunnelAnswer
from lattice.api.errors import ApiError
from lattice.ports.site.identity import Identity

PREFIX = "rate_limits."
REQUESTS = "requests_per_second"
BURST = "requests_burst"
MAX_BUCKETS = 20_000
# The limit that each operation counts against.
PER_MINUTE = {
    "query_metrics": "query_metrics_per_minute",
    "running_metrics": "query_metrics_per_minute",
    "node_metrics": "query_metrics_per_minute",
    "diagnostics": "diagnostics_per_minute",
    "network_diagnostics": "diagnostics_per_minute",
    "storage_diagnostics": "diagnostics_per_minute",
    "compare": "compare_per_minute",
    "query_audit": "audit_per_minute",
    "export_audit": "audit_per_minute",
}
# Terminals are counted where they are launched: they stay when the request that opened them is over.
CONCURRENCY = {
    "stream_logs": "stream_logs_max_concurrent",
    "stream_metrics": "stream_metrics_max_concurrent",
    "watch": "watch_max_concurrent",
    "wait": "wait_max_concurrent",
    "follow_step": "follow_step_max_concurrent",
    "connect_port": "connect_port_max_concurrent",
}
# What figures call a stream that counts against a limit.
STREAM_TYPES: Mapping[str, str] = {
    "stream_logs_max_concurrent": "logs",
    "stream_metrics_max_concurrent": "metrics",
    "watch_max_concurrent": "watch",
    "wait_max_concurrent": "wait",
    "follow_step_max_concurrent": "steps",
    "connect_port_max_concurrent": "ports",
}
DEFAULTS: Mapping[str, int] = {
    "attach_max_concurrent": 5,
    "stream_logs_max_concurrent": 10,
    "stream_metrics_max_concurrent": 5,
    "watch_max_concurrent": 20,
    "query_metrics_per_minute": 60,
    "diagnostics_per_minute": 30,
    "compare_per_minute": 10,
    "audit_per_minute": 60,
    REQUESTS: 1000,
    BURST: 5000,
}
# These stand in the servers' configuration alone, not among the settings of the cluster.
OF_SERVERS: Mapping[str, int] = {
    "wait_max_concurrent": 1000,
    "follow_step_max_concurrent": 1000,
    "connect_port_max_concurrent": 256,
}
# A developer's loops and benches are not to notice them.
GENEROUS: Mapping[str, int] = {
    **DEFAULTS,
    "stream_logs_max_concurrent": 1000,
    "watch_max_concurrent": 1000,
    "audit_per_minute": 0,
    REQUESTS: 0,
}
# Wrong tokens from one address: a burst is a mistake in a script; after it, each waits for its answer.
LOGINS_PER_SECOND = 1.0
LOGINS_BURST = 20
LOGIN_DELAY_S = 1.0
_LOGINS = "refused_logins"
_T = TypeVar("_T")


class _Bucket(Struct):
    tokens: float
    at: float


class RateLimits:
    """`figures` by name, 0 = no limit; `changed` are the settings of the cluster, which win."""

    def __init__(
        self,
        figures: Mapping[str, int],
        now: Callable[[], float],
        changed: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._figures = figures
        self._now = now
        self._changed = changed
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._open: dict[tuple[str, str], int] = {}

    def figure(self, name: str) -> int:
        said = self._changed().get(PREFIX + name)
        return int(said) if said is not None else self._figures.get(name, OF_SERVERS.get(name, 0))

    def spend(self, identity: Identity, operation: str) -> None:
        """Counts a request; raises ApiError with the time after which the next one is allowed."""
        if identity.kind == "agent":
            return
        per_second = self.figure(REQUESTS)
        if per_second:
            self._take(identity.user, REQUESTS, per_second, max(self.figure(BURST), 1))
        name = PER_MINUTE.get(operation)
        if name is None:
            return
        per_minute = self.figure(name)
        if per_minute:
            self._take(identity.user, name, per_minute / 60, per_minute)

    def _take(self, user: str, name: str, per_second: float, most: int) -> None:
        now = self._now()
        bucket = self._buckets.get((user, name))
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[user, name] = _Bucket(most, now)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            raise _too_many_requests(name, per_second, (1 - bucket.tokens) / per_second)
        bucket.tokens -= 1

    def refused(self, source: str) -> float:
        """Counts a caller from this address whose token was no good; how long he waits for the answer."""
        if not source:
            return 0.0
        try:
            self._take(source, _LOGINS, LOGINS_PER_SECOND, LOGINS_BURST)
        except ApiError:
            return LOGIN_DELAY_S
        return 0.0

    def _make_room(self, now: float) -> None:
        """Forgets those who have not asked for a minute, which is as good as a full bucket."""
        if len(self._buckets) >= MAX_BUCKETS:
            self._buckets = {key: each for key, each in self._buckets.items() if now - each.at < 60}

    def enter(self, identity: Identity, operation: str) -> "Lease":
        """Counts a stream until the lease is closed; raises ApiError."""
        name = CONCURRENCY.get(operation)
        if name is None:
            return _FREE
        most = self.figure(name)
        key = (identity.user, name)
        count = self._open.get(key, 0)
        if most and count >= most:
            raise ApiError(
                "too_many",
                f"maximum concurrent sessions reached ({count}/{most}). Close an existing session to open a new one.",
                current=f"{count}",
                limit=f"{most} per user ({name})",
            )
        self._open[key] = count + 1
        return Lease(lambda: self._leave(key))

    def streams(self) -> dict[str, int]:
        """How many are open, by type; of all users together."""
        counts = dict.fromkeys(STREAM_TYPES.values(), 0)
        for (_, name), count in self._open.items():
            counts[STREAM_TYPES[name]] += count
        return counts

    def _leave(self, key: tuple[str, str]) -> None:
        left = self._open[key] - 1
        if left:
            self._open[key] = left
        else:
            del self._open[key]


def _too_many_requests(name: str, per_second: float, wait_s: float) -> ApiError:
    wait = max(1, math.ceil(wait_s))
    rate = f"{per_second:g} per second" if name == REQUESTS else f"{round(per_second * 60):g} per minute"
    return ApiError(
        "too_many",
        f"too many requests; the next one is allowed in {wait} s",
        limit=f"{rate} and user ({name})",
        hint=f"try again in {wait} s",
        retry_after_s=wait,
    )


class Lease:
    """One stream that counts; closing it twice is harmless."""

    def __init__(self, leave: Callable[[], None] | None) -> None:
        self._leave = leave

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    async def around(self, work: Awaitable[object]) -> object:
        """What the work answers with; the lease ends with the stream that it opens, or immediately when it opens none."""
        try:
            answer = await work
        except BaseException:
            self.close()
            raise
        if self._leave is None:
            return answer
        if isinstance(answer, EventAnswer):
            return EventAnswer(_Leased(answer.events, self))
        if isinstance(answer, TextAnswer):
            return TextAnswer(_Leased(answer.pieces, self))
        if isinstance(answer, TunnelAnswer):
            return TunnelAnswer(answer.connect, self.close)
        self.close()
        return answer


_FREE = Lease(None)


class _Leased(AsyncGenerator[_T, None]):
    """A stream that gives its lease back at its end, also when it was never begun."""

    def __init__(self, inner: AsyncGenerator[_T, None], lease: Lease) -> None:
        self._inner = inner
        self._lease = lease

    async def asend(self, value: None) -> _T:
        try:
            return await self._inner.asend(value)
        except BaseException:
            self._lease.close()
            raise

    async def athrow(self, *error: Any) -> _T:  # noqa: ANN401 - as generators have it
        try:
            return await self._inner.athrow(*error)
        finally:
            self._lease.close()

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._lease.close()

    def __del__(self) -> None:
        self._lease.close()
