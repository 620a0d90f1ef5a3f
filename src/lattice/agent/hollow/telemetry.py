"""Figures of simulated nodes: made up from their names and the time, the same for all who ask, and pushed as real ones are."""

import asyncio
import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lattice.agent.messages import NodeFacts
from lattice.agent.telemetry.collector import Listener
from lattice.agent.telemetry.memory import KEEP_MS, as_series
from lattice.agent.telemetry.push.encoding import Sample
from lattice.agent.telemetry.push.pusher import Pusher, samples_of
from lattice.agent.telemetry.push.requests import PushSettings
from lattice.core.model.telemetry.rates import Name
from lattice.core.model.telemetry.windows import WINDOW_MS, Window
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import NOT_MEASURED, TelemetryAsk, TelemetryTold

SOURCE = "made up"
SAMPLES = 30  # that a window pretends to hold
_PERIOD_MS = 20 * 60 * 1000


def made_up(facts: NodeFacts, at_ms: int, *, of_node: bool) -> dict[Name, Window]:
    """What a window that begins then holds."""
    phase = zlib.crc32(facts.node_id.encode()) / 2**32
    wave = 0.5 + 0.4 * math.sin(2 * math.pi * (at_ms / _PERIOD_MS + phase))
    means: dict[Name, float] = {
        ("cpu_utilization", ""): 100 * wave,
        ("cpus_used", ""): facts.cpus * wave,
        ("memory_used", ""): facts.memory_mb * 2**20 * wave / 2,
        ("network_tx_bytes", ""): 1e8 * wave,
        ("network_rx_bytes", ""): 8e7 * wave,
        ("io_read_bytes", ""): 5e7 * wave,
        ("io_write_bytes", ""): 2e7 * wave,
    }
    if of_node:
        means |= {
            ("load1", ""): facts.cpus * wave,
            ("memory_total", ""): facts.memory_mb * 2.0**20,
            ("power_draw", ""): 200 + 300 * wave,
        }
    means |= {("gpu_utilization", str(gpu)): 100 * wave for gpu in range(facts.gpus)}
    return {
        name: Window(at_ms, WINDOW_MS, mean, mean, mean * 1.05, mean * 1.08, mean * 1.1, SAMPLES)
        for name, mean in means.items()
    }


def answer(facts: NodeFacts, runs: Sequence[RunKey], ask: TelemetryAsk, now_ms: int) -> TelemetryTold:
    """The windows of the period, an hour of them at most."""
    if ask.follow:
        return TelemetryTold(error="a simulated node streams no figures")
    if ask.key is not None and ask.key not in runs:
        return TelemetryTold(error=f"run {ask.key} {NOT_MEASURED}")
    wanted, found = frozenset(ask.metrics), dict[Name, list[Window]]()
    first_ms = max(ask.since_ms, now_ms - KEEP_MS) // WINDOW_MS * WINDOW_MS
    for at_ms in range(first_ms, now_ms, WINDOW_MS):
        for name, window in made_up(facts, at_ms, of_node=ask.key is None).items():
            if not wanted or name[0] in wanted:
                found.setdefault(name, []).append(window)
    return TelemetryTold(sources=(SOURCE,), now_ms=now_ms, series=as_series(found))


@dataclass
class _WallClock:
    """What a pusher needs of a collector."""

    listeners: list[Listener] = field(default_factory=list)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class HollowPush:
    """Sends a window of every node each 30 s, spread over the time until the next, as real agents do."""

    def __init__(
        self,
        facts: Sequence[NodeFacts],
        settings: PushSettings,
        send: Callable[[bytes], None] | None = None,
    ) -> None:
        self._facts = facts
        self._clock = _WallClock()
        self.pusher = Pusher(settings, self._clock, send)

    async def run(self) -> None:
        """Never returns."""
        pushing = asyncio.create_task(self.pusher.run())
        try:
            while True:
                await self._one_window()
        finally:
            pushing.cancel()

    async def _one_window(self) -> None:
        end_ms = self._clock.now_ms() // WINDOW_MS * WINDOW_MS
        steps = WINDOW_MS // 1000
        for step in range(steps):
            late_ms = end_ms + (step + 1) * 1000 - self._clock.now_ms()
            await asyncio.sleep(max(0.0, late_ms / 1000))
            for facts in self._facts[step::steps]:
                self.pusher.offer(self.samples(facts, end_ms - WINDOW_MS))

    def samples(self, facts: NodeFacts, at_ms: int) -> list[Sample]:
        labels = {"node": facts.node_id, "group": facts.group}
        return samples_of("lattice_node_", labels, made_up(facts, at_ms, of_node=True))
