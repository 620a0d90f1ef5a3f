"""Server-sent events: bytes in, events out, and a reader that takes up where it was cut off."""

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from lattice_sdk.errors import BadAnswer, LatticeError, Unreachable
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, LogChunk
from lattice_sdk.models.telemetry.metrics import MetricEvent
from lattice_sdk.retry import Attempts
from lattice_sdk.session import Request, Session, Stream, carried_error, explain
from lattice_sdk.transport import ProtocolError

SILENCE_S = 45.0  # servers send a comment at least every 15 s


BLIND = "blind"
POSITION = "position"


class ServerEvent(NamedTuple):
    name: str
    data: str
    id: str


class EventParser:
    """Cuts a byte stream into events. An event that is cut off at the end is dropped, as it must be."""

    def __init__(self) -> None:
        self.last_id = ""
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            event = self._take(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._finished()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self.last_id = value
        return None

    def _finished(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        if not data and not name:
            return None
        return ServerEvent(name or "message", "\n".join(data), self.last_id)


class EventReader:
    """An endless run of events, over as many connections as it takes.

    The first connection is made immediately, so that no event from now on is missed. Iteration
    ends with the server's event `end`; an event `error` is raised as the error it carries. Where the
    stream had to be taken up again without a position, an event BLIND says that some may be missing.
    """

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = replace(request, timeout_s=SILENCE_S, is_patient=True)
        self._last_id = ""
        self._is_stopped = False
        self._stream: Stream | None = session.open(self._request)

    def __iter__(self) -> Iterator[ServerEvent]:
        try:
            attempts: Attempts | None = None
            while True:
                why = "the stream was cut off"
                try:
                    for event in self._read():
                        attempts = None
                        if event.name == "end":
                            return
                        yield event
                except (OSError, ProtocolError) as error:
                    why = explain(error)
                if self._is_stopped:
                    return
                attempts = attempts or self._session.policy.begin()
                self._resume(attempts, why)
                if not self._last_id:
                    yield ServerEvent(BLIND, "", "")
        finally:
            self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.connection.close()
            self._stream = None

    def stop(self) -> None:
        """End the iteration in another thread."""
        self._is_stopped = True
        if (stream := self._stream) is not None:
            stream.connection.interrupt()

    def place(self, position: str) -> None:
        """Begin there if the stream has to be taken up again; for streams whose events do not say it themselves."""
        self._last_id = position

    def forget_position(self) -> None:
        """Begin at the beginning if the stream has to be taken up again."""
        self._last_id = ""

    def _read(self) -> Iterator[ServerEvent]:
        if self._stream is None:
            return
        parser = EventParser()
        for chunk in self._stream.answer.chunks():
            for event in parser.feed(chunk):
                if event.id:  # else the place that was set before stays
                    self._last_id = event.id
                if event.name == "error":
                    raise carried_event_error(event.data)
                yield event

    def _resume(self, attempts: Attempts, why: str) -> None:
        self.close()
        if not attempts.again(why):
            raise Unreachable((str(self._session.endpoint),), why, attempts.elapsed_s)
        headers = (("Last-Event-ID", self._last_id),) if self._last_id else ()
        self._stream = self._session.open(replace(self._request, headers=self._request.headers + headers))


def carried_event_error(data: str) -> LatticeError:
    """The exception for an event `error`."""
    try:
        carried = msgspec.json.decode(data)
        return carried_error(carried.get("error", carried) if isinstance(carried, dict) else carried)
    except msgspec.MsgspecError:
        return BadAnswer(f"the stream ended with an error: {data[:200]}")


class Watch:
    """Changes of state as they happen. An event of the kind GAP says that some may be missing."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Event]:
        for event in self._reader:
            if event.name != POSITION:  # it only says where to take up again
                yield Event(index=0, kind=GAP) if event.name == BLIND else decoded_event(event)

    def close(self) -> None:
        self._reader.close()

    def stop(self) -> None:
        """End the iteration in another thread."""
        self._reader.stop()


def decoded_event(event: ServerEvent) -> Event:
    """A change of state. Raises BadAnswer."""
    try:
        decoded = msgspec.json.decode(event.data, type=Event)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"cannot read an event: {error}") from None
    return decoded if decoded.kind else msgspec.structs.replace(decoded, kind=event.name)


class MetricStream:
    """Figures and alerts of an allocation as they come, until it has ended."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[MetricEvent]:
        for event in self._reader:
            if event.name != BLIND:
                yield decoded_metrics(event)

    def close(self) -> None:
        self._reader.close()

    def stop(self) -> None:
        """End the iteration in another thread."""
        self._reader.stop()


def decoded_metrics(event: ServerEvent) -> MetricEvent:
    """An event of a stream of figures. Raises BadAnswer."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(event.data, type=MetricEvent), kind=event.name)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"cannot read figures: {error}") from None


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    node: str = ""
    stream: str = "stdout"
    offset: int = 0
    data: str = ""
    data_b64: str | None = None


class _Restart(msgspec.Struct, frozen=True, kw_only=True):
    run: int = 0


class LogStream:
    """Output as it is written, run after run until the allocation has ended."""

    def __init__(self, reader: EventReader, *, restarted: Callable[[int], None] | None = None) -> None:
        self._reader = reader
        self._restarted = restarted

    def __iter__(self) -> Iterator[LogChunk]:
        for event in self._reader:
            if event.name == "restart":
                self._restart(event)
            elif event.name != BLIND:  # without a position the whole output comes again, from its beginning
                yield decoded_output(event)

    def close(self) -> None:
        self._reader.close()

    def stop(self) -> None:
        """End the iteration in another thread."""
        self._reader.stop()

    def _restart(self, event: ServerEvent) -> None:
        # The position belongs to the run that is over.
        self._reader.forget_position()
        if self._restarted is not None:
            self._restarted(restarted_run(event))


def restarted_run(event: ServerEvent) -> int:
    """The run that begins with an event `restart`."""
    return msgspec.json.decode(event.data or "{}", type=_Restart).run


def decoded_output(event: ServerEvent) -> LogChunk:
    """A piece of output. Raises BadAnswer."""
    try:
        output = msgspec.json.decode(event.data, type=_Output)
        raw = output.data_b64
        data = output.data.encode() if raw is None else a2b_base64(raw)
    except (msgspec.MsgspecError, Base64Error) as error:
        raise BadAnswer(f"cannot read a piece of output: {error}") from None
    return LogChunk(node=output.node, stream=output.stream, offset=output.offset, data=data)
