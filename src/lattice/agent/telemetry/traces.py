"""Samples of mode debug, and what sensitive work touched, on their way to the object store.

Lines of JSON, compressed, an object when its first line is 10 s old.

Only what belongs to a run is stored: a node has no tenant. A store that is away costs lines, the oldest first, and nothing else.
docs/architecture/telemetry.md.
"""

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass, field

import msgspec

from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.telemetry.collector import Collector, Target, Windows
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.telemetry.rates import Name
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.files.samples import pack_lines, trace_name, trace_prefix

OBJECT_MS = 10_000
OBJECT_BYTES = 1 << 20
KEEP_BYTES = 4 << 20  # of a run, while the store is away
MAX_ENDED = 100  # runs that have ended and whose last lines wait
POLL_S = 0.5
RETRY_S = (2.0, 60.0)

_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


@dataclass(eq=False)
class _Trace:
    """The lines of a run that wait, each with its time."""

    order: StartOrder
    kept_bytes: int = KEEP_BYTES
    lines: deque[tuple[int, bytes]] = field(default_factory=deque)
    size: int = 0
    is_over: bool = False

    def add(self, at_ms: int, line: bytes) -> int:
        """Returns how many lines had to go for it."""
        self.lines.append((at_ms, line))
        self.size += len(line)
        dropped = 0
        while self.size > self.kept_bytes:
            self.size -= len(self.lines.popleft()[1])
            dropped += 1
        return dropped

    def is_due(self, now_ms: int) -> bool:
        return bool(self.lines) and (
            self.is_over or self.size >= OBJECT_BYTES or now_ms - self.lines[0][0] >= OBJECT_MS
        )

    def head(self) -> list[tuple[int, bytes]]:
        """The lines of the next object."""
        found, size = list[tuple[int, bytes]](), 0
        for item in self.lines:
            size += len(item[1])
            if found and size > OBJECT_BYTES:
                break
            found.append(item)
        return found

    def stored(self, lines: list[tuple[int, bytes]]) -> None:
        for item in lines:
            if self.lines and self.lines[0] is item:
                self.lines.popleft()
                self.size -= len(item[1])


class StoredLines:
    """`run` for good. `dropped` counts lines that no store took in time. `of_access`: they say what was touched."""

    of_access = False
    kept_bytes = KEEP_BYTES

    def __init__(self, collector: Collector, sink: ChunkSink, node: str) -> None:
        self._collector, self._sink, self._node = collector, sink, node
        self._traces: dict[RunKey, _Trace] = {}
        self._added = asyncio.Event()
        self._is_failing = False
        self.dropped = 0
        collector.ended.append(self._ended)

    def may_store(self, order: StartOrder) -> bool:
        """Whether there is a place for lines of this run."""
        return bool(trace_prefix(order.output_prefix)) and self._sink.takes(order.upload_grant)

    def add(self, key: RunKey, order: StartOrder, at_ms: int, line: bytes) -> int:
        """Returns how many lines had to go for it."""
        trace = self._traces.setdefault(key, _Trace(order, self.kept_bytes))
        dropped = trace.add(at_ms, line)
        self.dropped += dropped
        self._added.set()
        return dropped

    def left(self, key: RunKey, order: StartOrder, lines: list[bytes]) -> None:
        """All but these is stored now."""

    def _ended(self, target: Target) -> None:
        if target.key is not None and (trace := self._traces.get(target.key)) is not None:
            trace.is_over = True
            over = [key for key, each in self._traces.items() if each.is_over]
            for key in over[:-MAX_ENDED]:
                self.dropped += len(self._traces.pop(key).lines)

    async def run(self) -> None:
        """Never returns. While no line waits it sleeps until one is added."""
        delay_s, longest_s = RETRY_S
        while True:
            if not self._traces:
                self._added.clear()
                await self._added.wait()
            await asyncio.sleep(POLL_S)
            try:
                await self.turn()
            except (ObjectStoreError, OSError) as error:
                if not self._is_failing:
                    _log.warning("samples and records of runs wait for the object store: %s", error)
                self._is_failing = True
                await asyncio.sleep(delay_s)
                delay_s = min(longest_s, delay_s * 2)
            except Exception:  # noqa: BLE001 - the loop's edge: figures are not worth the agent
                _log.exception("samples or records of runs could not be stored")
                await asyncio.sleep(longest_s)
            else:
                self._is_failing, delay_s = False, RETRY_S[0]

    async def turn(self) -> None:
        """Stores what is due. Raises ObjectStoreError when the store does not take it now."""
        for key, trace in list(self._traces.items()):
            if trace.is_due(self._collector.now_ms()):
                # Behind the others next time: one that is refused for good must not keep theirs from the store.
                self._traces[key] = self._traces.pop(key)
                await self._store(trace)
                self.left(key, trace.order, [line for _, line in trace.lines])
            if trace.is_over and not trace.lines:
                with contextlib.suppress(KeyError):
                    del self._traces[key]

    async def _store(self, trace: _Trace) -> None:
        lines, order = trace.head(), trace.order
        packed = await asyncio.to_thread(pack_lines, [line for _, line in lines])
        name = f"{self._node}/{trace_name(lines[0][0], of_access=self.of_access)}"
        await self._sink.put(trace_prefix(order.output_prefix), name, order.upload_grant, packed)
        trace.stored(lines)


class DebugTraces(StoredLines):
    """Samples of mode debug."""

    def __init__(self, collector: Collector, sink: ChunkSink, node: str) -> None:
        super().__init__(collector, sink, node)
        collector.listeners.append(self.take)

    def take(self, target: Target, done: Windows, _figures: dict[Name, float]) -> None:
        """Windows that ended just now; those of mode debug are single samples."""
        order = target.order
        if target.mode is not Mode.DEBUG or target.key is None or order is None or not self.may_store(order):
            return
        # Not the window of mode prod that a new mode ends.
        fresh = {name: window for name, window in done.items() if window.length_ms == target.interval_ms}
        if not fresh:
            return
        at_ms = max(window.at_ms for window in fresh.values())
        figures = {f"{name}:{device}" if device else name: each.mean for (name, device), each in fresh.items()}
        line = _encoder.encode({"at_ms": at_ms, "interval_ms": target.interval_ms, "figures": figures}) + b"\n"
        self.add(target.key, order, at_ms, line)
