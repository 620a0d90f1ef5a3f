"""Sends windows to a time-series store by remote write: in batches, in a thread of its own, with ten minutes of buffer.

A store that does not answer delays nothing but what waits for it; what is older than the buffer is dropped and counted.
"""

import asyncio
import logging
import ssl
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from msgspec import Struct

from lattice.agent.telemetry.collector import Listener, Target, Windows
from lattice.agent.telemetry.push.encoding import CONTENT, Sample, labelled, snappy_block, write_request
from lattice.agent.telemetry.push.marking import marked_opener
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.telemetry.rates import Name

KEEP_MS = 600_000
MAX_WAITING = 200_000
BATCH = 2_000
EVERY_S = 5.0
TIMEOUT_S = 10.0
RETRY_S = (2.0, 60.0)
STATS = ("mean", "p50", "p95", "p99", "max", "count")

_log = logging.getLogger(__name__)


class PushSettings(Struct, frozen=True, kw_only=True):
    """Where to, as which node; `token` gives the bearer token, each time again. `dscp` marks the packets; 0 = not."""

    endpoint: str
    node: str
    group: str = ""
    token: Callable[[], str] | None = None
    ca_file: str = ""
    dscp: int = 0


class StoreRefused(Exception):
    """The store will not take these samples, however often they are sent."""


class StoreUnreachable(Exception):
    """The store may take them later."""


class Measuring(Protocol):
    """What a pusher needs of a collector."""

    listeners: list[Listener]

    def now_ms(self) -> int: ...


class Pusher:
    """`run` for good. `dropped` and `sent` count samples."""

    def __init__(
        self, settings: PushSettings, collector: Measuring, send: Callable[[bytes], None] | None = None
    ) -> None:
        self._settings = settings
        self._collector = collector
        self._send = send or self._post
        self._waiting: deque[Sample] = deque()
        self._pool = ThreadPoolExecutor(1, "push")
        self._opener = marked_opener(settings.dscp, ssl.create_default_context(cafile=settings.ca_file or None))
        self.sent = self.dropped = 0
        self._is_failing = False
        collector.listeners.append(self.take)

    def take(self, target: Target, done: Windows, _figures: dict[Name, float]) -> None:
        """Windows that ended just now."""
        own = {"node": self._settings.node, "group": self._settings.group, **run_labels(target)}
        prefix = "lattice_node_" if target.key is None else "lattice_allocation_"
        self.offer(samples_of(prefix, own, done))

    def offer(self, samples: Iterable[Sample]) -> None:
        """These are sent with the next batch that has room."""
        self._waiting.extend(samples)
        self.forget_old()

    def forget_old(self) -> None:
        """Keeps ten minutes, and no more than fit."""
        oldest_ms = self._collector.now_ms() - KEEP_MS
        while self._waiting and (self._waiting[0].at_ms < oldest_ms or len(self._waiting) > MAX_WAITING):
            self._waiting.popleft()
            self.dropped += 1

    async def run(self) -> None:
        """Never returns."""
        delay_s, longest_s = RETRY_S
        while True:
            await asyncio.sleep(EVERY_S)
            while self._waiting:
                if await self.push_batch():
                    delay_s = RETRY_S[0]
                else:
                    await asyncio.sleep(delay_s)
                    delay_s = min(longest_s, delay_s * 2)

    async def push_batch(self) -> bool:
        """Sends the oldest samples; False when they have to wait."""
        self.forget_old()
        batch = [self._waiting[at] for at in range(min(BATCH, len(self._waiting)))]
        if not batch:
            return True
        body = snappy_block(write_request(batch))
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._send, body)
        except StoreUnreachable as error:
            self._complain(str(error))
            return False
        except StoreRefused as error:
            self._complain(str(error))
            self.dropped += len(batch)
        else:
            self.sent += len(batch)
            self._is_failing = False
        for sample in batch:
            if self._waiting and self._waiting[0] is sample:
                self._waiting.popleft()
        return True

    def _complain(self, why: str) -> None:
        """Once for each outage."""
        if not self._is_failing:
            _log.warning("cannot send metrics to the store: %s", why)
        self._is_failing = True

    def _post(self, body: bytes) -> None:
        """In the pusher's thread. Raises StoreUnreachable and StoreRefused."""
        headers = dict(CONTENT)
        try:
            if self._settings.token is not None:
                headers["Authorization"] = f"Bearer {self._settings.token()}"
            request = urllib.request.Request(self._settings.endpoint, body, headers, method="POST")  # noqa: S310 - checked
            with self._opener.open(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            with error:
                text = f"{error.code} {error.reason}"
            if 400 <= error.code < 500 and error.code not in (401, 403, 408, 429):
                raise StoreRefused(text) from None
            raise StoreUnreachable(text) from None
        except (OSError, ValueError) as error:
            raise StoreUnreachable(str(error)) from None


def samples_of(prefix: str, own: Mapping[str, str], done: Windows) -> list[Sample]:
    """Windows as the store takes them, at their ends."""
    found = []
    for (metric, device), window in done.items():
        labels = {**own, **({METRICS[metric].device or "device": device} if device else {})}
        at_ms = window.at_ms + window.length_ms
        for stat in STATS if window.count > 1 else ("mean",):
            value = float(getattr(window, stat))
            found.append(Sample(prefix + metric, labelled(labels | {"stat": stat}), value, at_ms))
    return found


def run_labels(target: Target) -> dict[str, str]:
    """Whose run it is, as its order says."""
    if target.key is None:
        return {}
    order = target.order
    labels = {"run": str(target.key.run)}
    if order is None:
        return labels | {"allocation": str(target.key.number)}
    tenant, _, rest = order.output_prefix.partition("/")
    project = rest.partition("/")[0]
    return labels | {
        "allocation": order.allocation_id,
        "tenant": tenant,
        "project": "" if project == "-" else project,
        "user": order.user,
        "vcluster": order.vcluster,
    }
