"""Sends windows to a time-series store by remote write: in batches, in a thread of its own, with ten minutes of buffer.

A store that does not answer delays nothing but what waits for it; what is older than the buffer is dropped and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from lattice.agent.collectors.figures import FigureRelay
from lattice.agent.telemetry.collector import Listener, Target, Windows
from lattice.agent.telemetry.push.encoding import Sample, labelled, snappy_block, write_request
from lattice.agent.telemetry.push.exposition import Shown
from lattice.agent.telemetry.push.requests import (
    PushSettings,
    StoreRefused,
    StoreRequests,
    StoreUnreachable,
    push_for_good,
)
from lattice.agent.telemetry.push.scraping import samples_of_shown
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.telemetry.rates import Name
from lattice.wire.agents.collecting import MAX_SERIES, Figures

KEEP_MS = 600_000
MAX_WAITING = 200_000
BATCH = 2_000
EVERY_S = 5.0
HANDED_S = 60.0  # then the collector is not waited for
MAX_HANDED = 20_000  # samples at a time
STATS = ("mean", "p50", "p95", "p99", "max", "count")

_log = logging.getLogger(__name__)


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
        self.send = send or StoreRequests(settings).post
        self._waiting: deque[Sample] = deque()
        self._pool = ThreadPoolExecutor(1, "push")
        self.sent = self.dropped = 0
        self._is_failing = False
        self._relay: FigureRelay | None = None
        self._handed: dict[
            int, tuple[int, list[Sample]]
        ] = {}  # when, and what, until the collector says that it is stored
        self._number = 0
        collector.listeners.append(self.take)

    def take(self, target: Target, done: Windows, _figures: dict[Name, float]) -> None:
        """Windows that ended just now."""
        own = {"node": self._settings.node, "group": self._settings.group, **run_labels(target)}
        prefix = "lattice_node_" if target.key is None else "lattice_allocation_"
        samples = samples_of(prefix, own, done)
        # What somebody watches closely takes no way round.
        if target.mode is Mode.DEBUG or not self._hand(samples):
            self.offer(samples)

    def go_by(self, relay: FigureRelay) -> None:
        """Windows go by way of the node's collector, while it takes them."""
        self._relay = relay
        relay.taken = self._taken
        relay.closed = self._take_back

    def _hand(self, samples: list[Sample]) -> bool:
        if self._relay is None or not self._relay.is_open or not 0 < len(samples) <= MAX_HANDED:
            return False
        series = write_request(samples)
        self._number = (self._number + 1) % (1 << 32)
        if len(series) > MAX_SERIES or not self._relay.hand(Figures(self._number, series)):
            return False
        self._handed[self._number] = (self._collector.now_ms(), samples)
        return True

    def _taken(self, number: int) -> None:
        self.sent += len(self._handed.pop(number, (0, ()))[1])

    def _take_back(self, before_ms: int | None = None) -> None:
        """What the collector did not acknowledge goes directly; the store takes the same sample twice."""
        for number, (at_ms, samples) in list(self._handed.items()):
            if before_ms is None or at_ms < before_ms:
                del self._handed[number]
                self.offer(samples)

    def take_shown(self, target: Target, shown: Iterable[Shown]) -> None:
        """Figures that a run shows of itself."""
        own = {"node": self._settings.node, "group": self._settings.group, **run_labels(target)}
        self.offer(samples_of_shown(shown, own, self._collector.now_ms()))

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

        def take_back_old() -> None:
            self._take_back(self._collector.now_ms() - int(1000 * HANDED_S))

        await push_for_good(EVERY_S, self._waiting, self.push_batch, take_back_old)

    async def push_batch(self) -> bool:
        """Sends the oldest samples; False when they have to wait."""
        self.forget_old()
        batch = [self._waiting[at] for at in range(min(BATCH, len(self._waiting)))]
        if not batch:
            return True
        body = snappy_block(write_request(batch))
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self.send, body)
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
