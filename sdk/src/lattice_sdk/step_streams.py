"""A step as it runs: what its tasks write, each byte once, over as many connections as it takes, and how it ended."""

import struct
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from lattice_sdk.errors import BadAnswer
from lattice_sdk.models.steps import Step, StepResult
from lattice_sdk.streams import EventReader, ServerEvent

STDOUT, STDERR = 1, 2
_RECORD = struct.Struct(">BII")


class TaskOutput(NamedTuple):
    """What one task wrote; `stream` is STDOUT or STDERR."""

    rank: int
    stream: int
    data: bytes


class OutputGap(NamedTuple):
    """This many bytes of one node are gone: they were not read in time."""

    node: int
    size: int


class ScreenDrawn(NamedTuple):
    """Draws the screen of a terminal as it is now, whatever was shown before."""

    rows: int
    columns: int
    data: bytes


class TerminalNotice(NamedTuple):
    """A sentence for the person at the terminal; it is no output."""

    text: str


class _Notice(msgspec.Struct, frozen=True, kw_only=True):
    text: str


class _Screen(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    next: int
    data: str
    rows: int = 24
    columns: int = 80


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    next: int
    data: str


class _Gap(msgspec.Struct, frozen=True, kw_only=True):
    node: int
    next: int
    bytes: int


_output = msgspec.json.Decoder(_Output)
_gap = msgspec.json.Decoder(_Gap)
_screen = msgspec.json.Decoder(_Screen)
_notice = msgspec.json.Decoder(_Notice)
_step = msgspec.json.Decoder(Step)
_result = msgspec.json.Decoder(StepResult)

StepEvent = TaskOutput | OutputGap | ScreenDrawn | TerminalNotice | Step


class StepDecoder:
    """Events of a step's stream in, what they say out; `place` hears where to take the stream up again."""

    def __init__(self, place: Callable[[str], None]) -> None:
        self._set_place = place
        self._places: dict[int, int] = {}
        self.result: StepResult | None = None
        self.node = 0

    def take(self, event: ServerEvent) -> list[StepEvent]:
        """What this event says. Raises BadAnswer."""
        try:
            return list(self._taken(event))
        except (msgspec.MsgspecError, ValueError, struct.error) as error:
            raise BadAnswer(f"cannot read what a step wrote: {error}") from None

    def _taken(self, event: ServerEvent) -> Iterator[StepEvent]:
        if event.name == "message":
            output = _output.decode(event.data)
            self._place(output.node, output.next)
            yield from _records(a2b_base64(output.data))
        elif event.name == "gap":
            gap = _gap.decode(event.data)
            self._place(gap.node, gap.next)
            yield OutputGap(gap.node, gap.bytes)
        elif event.name == "screen":
            screen = _screen.decode(event.data)
            self._place(screen.node, screen.next)
            yield ScreenDrawn(screen.rows, screen.columns, a2b_base64(screen.data))
        elif event.name == "notice":
            yield TerminalNotice(_notice.decode(event.data).text)
        elif event.name == "step":
            yield _step.decode(event.data)
        elif event.name == "result":
            self.result = _result.decode(event.data)

    def _place(self, node: int, place: int) -> None:
        self.node = node
        self._places[node] = place
        self._set_place(",".join(f"{number}:{at}" for number, at in self._places.items()))


class StepStream:
    """Iterate over it; afterwards `result` says how the step ended. A `Step` comes when its state has changed."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._decoder = StepDecoder(reader.place)

    def __iter__(self) -> Iterator[StepEvent]:
        for event in self._reader:
            yield from self._decoder.take(event)

    @property
    def result(self) -> StepResult | None:
        return self._decoder.result

    @property
    def node(self) -> int:
        """Where in the step's `nodes` the node is from which the latest output or gap came."""
        return self._decoder.node

    def close(self) -> None:
        self._reader.close()

    def stop(self) -> None:
        """End the iteration in another thread."""
        self._reader.stop()


def _records(data: bytes) -> Iterator[TaskOutput]:
    place = 0
    while place < len(data):
        stream, rank, length = _RECORD.unpack_from(data, place)
        place += _RECORD.size + length
        if stream in (STDOUT, STDERR):  # others say what is no output, such as the size of a terminal
            yield TaskOutput(rank, stream, data[place - length : place])
