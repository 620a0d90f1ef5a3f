"""What nodes measured, on their streams: who waits for an answer, and who follows. What a node says is made sensible first."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence, Sized

from lattice.api.grpc.agents import values
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.ports.nodes.telemetry import NodeFigures, TelemetryTold
from lattice.wire.agents.telemetry import (
    METRIC_ALERT,
    METRIC_SERIES,
    NODE_ALERT,
    NODE_FIGURES,
    RUN_FIGURE,
    TELEMETRY_TOLD,
)
from lattice.wire.pb import agent_pb2 as pb

ANSWERED_WITHIN_S = 5.0
MAX_SERIES = 2048
MAX_WINDOWS = 40_000  # an hour of ten a second, and some
MAX_ALERTS = 256
MAX_RUNS = 4096
MAX_FIGURE = 1e30
QUEUED = 256  # answers that a follower has not read; the oldest go


def _is_sensible(value: float) -> bool:
    """Finite, and such that sums of many still are."""
    return math.isfinite(value) and abs(value) <= MAX_FIGURE


def _figure(value: float) -> float:
    return value if _is_sensible(value) else 0.0


_alert_of = METRIC_ALERT.reader(texts=values.line, seconds=_figure)
_told_of = TELEMETRY_TOLD.reader(
    texts=values.line,
    seconds=_figure,
    series=METRIC_SERIES.reader(texts=values.line, seconds=_figure),
    alerts=_alert_of,
)
_figures_of = NODE_FIGURES.reader(
    runs=RUN_FIGURE.reader(texts=values.line, seconds=_figure),
    alerts=NODE_ALERT.reader(alert=_alert_of),
)


def told_of(message: pb.TelemetryTold) -> TelemetryTold:
    """What a node measured; what is beyond any node's, or of a metric that is not in the catalogue, is left out."""
    sensible = [
        each
        for each in message.series[:MAX_SERIES]
        if each.metric in METRICS
        and len(each.at_ms) <= MAX_WINDOWS
        and len({len(column) for column in _columns(each)}) == 1
        and all(_is_sensible(value) for column in _measured(each) for value in column)
    ]
    if len(sensible) != len(message.series):
        kept = [pb.MetricSeries.FromString(each.SerializeToString()) for each in sensible]
        del message.series[:]
        message.series.extend(kept)
    del message.alerts[MAX_ALERTS:]
    del message.sources[values.MAX_FEATURES :]
    del message.missing[values.MAX_FEATURES :]
    return _told_of(message)


def _columns(series: pb.MetricSeries) -> tuple[Sized, ...]:
    return (series.at_ms, series.length_ms, *_measured(series), series.count)


def _measured(series: pb.MetricSeries) -> tuple[Sequence[float], ...]:
    return (series.mean, series.p50, series.p95, series.p99, series.max)


def figures_of(message: pb.RunFigures) -> NodeFigures:
    """What a node says unasked; what is beyond any node's is left out."""
    del message.runs[MAX_RUNS:]
    del message.alerts[MAX_ALERTS:]
    # Asked of what was sent: a figure that is none would be read as 0, on which a service scales down.
    are_sensible = [all(map(_is_sensible, each.values)) for each in message.runs]
    read = _figures_of(message)
    return NodeFigures(
        runs=tuple(
            each
            for each, is_sensible in zip(read.runs, are_sensible, strict=True)
            if is_sensible and len(each.metrics) == len(each.values) <= len(METRICS)
        ),
        alerts=read.alerts,
    )


class TelemetryReader:
    """Answers to one question, in order; a slow reader misses the oldest."""

    def __init__(self) -> None:
        self._answers: deque[TelemetryTold] = deque(maxlen=QUEUED)
        self._is_lost = False
        self._arrived = asyncio.Event()

    def take(self, told: TelemetryTold) -> None:
        self._answers.append(told)
        self._arrived.set()

    def lose(self) -> None:
        self._is_lost = True
        self._arrived.set()

    async def next(self) -> TelemetryTold:
        """Raises AgentUnreachable when the stream is gone."""
        while not self._answers:
            if self._is_lost:
                raise AgentUnreachable("the connection to the node was lost")
            self._arrived.clear()
            await self._arrived.wait()
        return self._answers.popleft()


class TelemetryReaders:
    """Those of one stream, by ticket."""

    def __init__(self) -> None:
        self._readers: dict[int, TelemetryReader] = {}

    def open(self, ticket: int) -> TelemetryReader:
        reader = self._readers[ticket] = TelemetryReader()
        return reader

    def close(self, ticket: int) -> None:
        self._readers.pop(ticket, None)

    def take(self, message: pb.TelemetryTold) -> None:
        reader = self._readers.get(message.ticket)
        if reader is not None:
            reader.take(told_of(message))

    def lose(self) -> None:
        for reader in self._readers.values():
            reader.lose()


async def answers(reader: TelemetryReader, node: str) -> AsyncIterator[TelemetryTold]:
    """All of them up to the last; the first has to come soon. Raises AgentUnreachable."""
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            told = await reader.next()
    except TimeoutError:
        raise AgentUnreachable(f"node {node} does not answer") from None
    while True:
        yield told
        if told.ended or told.error:
            return
        told = await reader.next()
