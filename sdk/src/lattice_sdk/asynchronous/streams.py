"""Server-sent events on the event loop, taken up again where they were cut off: the counterpart of `streams.py`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from msgspec.structs import replace

from lattice_sdk.asynchronous.session import AsyncSession
from lattice_sdk.asynchronous.transport import AsyncAnswer
from lattice_sdk.errors import Unreachable
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, LogChunk, LogLine
from lattice_sdk.models.steps import StepResult
from lattice_sdk.models.telemetry.metrics import MetricEvent
from lattice_sdk.retry import Attempts
from lattice_sdk.session import Request, explain
from lattice_sdk.step_streams import StepDecoder, StepEvent
from lattice_sdk.streams import (
    BLIND,
    POSITION,
    SILENCE_S,
    EventParser,
    ServerEvent,
    carried_event_error,
    decoded_event,
    decoded_metrics,
    decoded_output,
    restarted_run,
)
from lattice_sdk.transport import ProtocolError


class AsyncEventReader:
    """An endless run of events, over as many connections as it takes; see `EventReader`."""

    def __init__(self, session: AsyncSession, request: Request) -> None:
        self._session = session
        self._request = replace(request, timeout_s=SILENCE_S)
        self._last_id = ""
        self._answer: AsyncAnswer | None = None

    async def begin(self) -> None:
        """Makes the first connection, so that what happens from now on is not missed."""
        if self._answer is None:
            self._answer = await self._session.open(self._request)

    async def events(self) -> AsyncGenerator[ServerEvent, None]:
        try:
            await self.begin()
            attempts: Attempts | None = None
            while True:
                why = "the stream was cut off"
                try:
                    async for event in self._read():
                        attempts = None
                        if event.name == "end":
                            return
                        yield event
                except (OSError, ProtocolError) as error:
                    why = explain(error)
                attempts = attempts or self._session.policy.begin()
                await self._resume(attempts, why)
                if not self._last_id:
                    yield ServerEvent(BLIND, "", "")
        finally:
            await self.close()

    async def close(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def forget_position(self) -> None:
        """Begin at the beginning if the stream has to be taken up again."""
        self.place("")

    def place(self, position: str) -> None:
        """Where to take the stream up again, instead of after the event that came last."""
        self._last_id = position

    async def _read(self) -> AsyncIterator[ServerEvent]:
        if self._answer is None:
            return
        parser = EventParser()
        async for chunk in self._answer.chunks():
            for event in parser.feed(chunk):
                if event.id:  # else the place that was set before stays
                    self._last_id = event.id
                if event.name == "error":
                    raise carried_event_error(event.data)
                yield event

    async def _resume(self, attempts: Attempts, why: str) -> None:
        await self.close()
        pause_s = attempts.next_pause_s(why)
        if pause_s is None:
            raise Unreachable((str(self._session.endpoint),), why, attempts.elapsed_s)
        await asyncio.sleep(pause_s)
        headers = (("Last-Event-ID", self._last_id),) if self._last_id else ()
        self._answer = await self._session.open(replace(self._request, headers=self._request.headers + headers))


class AsyncStepStream:
    """Iterate over it with `async for`; afterwards `result` says how the step ended."""

    def __init__(self, reader: AsyncEventReader) -> None:
        self._reader = reader
        self._decoder = StepDecoder(reader.place)

    async def __aiter__(self) -> AsyncIterator[StepEvent]:
        async for event in self._reader.events():
            for said in self._decoder.take(event):
                yield said

    @property
    def result(self) -> StepResult | None:
        return self._decoder.result

    @property
    def node(self) -> int:
        """Where in the step's `nodes` the node is from which the latest output or gap came."""
        return self._decoder.node

    async def close(self) -> None:
        await self._reader.close()


async def changes(reader: AsyncEventReader) -> AsyncGenerator[Event, None]:
    """Changes of state as they happen; an event of the kind GAP says that some may be missing."""
    async for event in reader.events():
        if event.name != POSITION:  # it only says where to take up again
            yield Event(index=0, kind=GAP) if event.name == BLIND else decoded_event(event)


async def metric_events(reader: AsyncEventReader) -> AsyncGenerator[MetricEvent, None]:
    async for event in reader.events():
        if event.name != BLIND:
            yield decoded_metrics(event)


async def chunks(
    reader: AsyncEventReader, restarted: Callable[[int], None] | None = None
) -> AsyncGenerator[LogChunk, None]:
    """Output as it is written, run after run until the allocation has ended."""
    async for event in reader.events():
        if event.name == "restart":
            reader.forget_position()  # it belongs to the run that is over
            if restarted is not None:
                restarted(restarted_run(event))
        elif event.name != BLIND:  # without a position the whole output comes again, from its beginning
            yield decoded_output(event)


async def lines(pieces: AsyncIterator[LogChunk]) -> AsyncGenerator[LogLine, None]:
    """The same line by line, for each node by itself; what has no end yet comes when the output is over."""
    unfinished: dict[tuple[str, str], bytes] = {}
    async for piece in pieces:
        source = (piece.node, piece.stream)
        *whole, rest = (unfinished.pop(source, b"") + piece.data).split(b"\n")
        if rest:
            unfinished[source] = rest
        for line in whole:
            yield _line(source, line)
    for source, rest in unfinished.items():
        yield _line(source, rest)


def _line(source: tuple[str, str], data: bytes) -> LogLine:
    return LogLine(node=source[0], stream=source[1], message=data.decode("utf-8", "replace"))
