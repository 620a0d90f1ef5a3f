"""Lines of output with the times at which they began: those of a span of time, with a stamp before each, several sources in order of time.

The marks of a piece cut it into stretches that were written at one time, so that the work grows with the marks and not with the lines.
"""

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lattice.ports.nodes.agents import OutputPiece
from lattice.wire.text.times import rfc3339

# As long as a stamp with its time, so that all of them can be cut off alike.
_UNKNOWN = b"-".ljust(24) + b" "
# A longer line is passed on before its end.
MAX_LINE = 1 << 20


class TimesUnknown(Exception):
    """This output has no times, and some were asked for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines, and whether with stamps. Times in ms; None = no bound."""

    since_ms: int | None = None
    until_ms: int | None = None
    stamps: bool = False

    @property
    def has_span(self) -> bool:
        return self.since_ms is not None or self.until_ms is not None

    @property
    def is_plain(self) -> bool:
        """Whether output goes through as it is."""
        return not self.stamps and not self.has_span

    def takes(self, at_ms: int) -> bool:
        if self.has_span and not at_ms:
            raise TimesUnknown
        return (self.since_ms is None or at_ms >= self.since_ms) and (self.until_ms is None or at_ms <= self.until_ms)


class Lines:
    """One source. Every line has the time of its first byte."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._is_new = True  # the next byte begins a line
        self._is_taken = True  # the line that is not over yet is wanted
        self.is_past = False  # the last line began behind the span

    def feed(self, piece: OutputPiece) -> bytes:
        """What is wanted of it."""
        return b"".join(text for _, text in self.stretches(piece))

    def stretches(self, piece: OutputPiece) -> list[tuple[int, bytes]]:
        """The same with the times of the stretches."""
        found = []
        for at_ms, data in _stretches(piece):
            if text := self._take(at_ms, data):
                found.append((at_ms, text))
        return found

    def _take(self, at_ms: int, data: bytes) -> bytes:
        head, rest = b"", data
        if not self._is_new:
            end = data.find(b"\n") + 1 or len(data)
            head, rest = data[:end] if self._is_taken else b"", data[end:]
            self._is_new = data.endswith(b"\n", 0, end)
        if not rest:
            return head
        until = self._wanted.until_ms
        self.is_past = until is not None and at_ms > until
        self._is_taken, self._is_new = self._wanted.takes(at_ms), rest.endswith(b"\n")
        if not self._is_taken:
            return head
        return head + (_stamped(at_ms, rest) if self._wanted.stamps else rest)


def _stretches(piece: OutputPiece) -> list[tuple[int, bytes]]:
    if not piece.marks:
        return [(0, piece.data)]
    starts = [max(0, position - piece.offset) for position, _ in piece.marks]
    starts[0] = 0
    ends = [*starts[1:], len(piece.data)]
    times = (at_ms for _, at_ms in piece.marks)
    return [
        (at_ms, piece.data[start:end]) for start, end, at_ms in zip(starts, ends, times, strict=True) if start < end
    ]


def _stamped(at_ms: int, lines: bytes) -> bytes:
    stamp = f"{rfc3339(at_ms)} ".encode() if at_ms else _UNKNOWN
    inside = lines[:-1].replace(b"\n", b"\n" + stamp)
    return stamp + inside + lines[-1:]


async def in_order(sources: Sequence[AsyncIterator[OutputPiece]], wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """Whole lines of all sources by their times; those of one time by source. Raises what a source raises."""
    flows = [_whole_lines(source, wanted) for source in sources]
    heap: list[tuple[int, int, bytes]] = []
    for index, flow in enumerate(flows):
        await _push(heap, index, flow)
    while heap:
        _, index, text = heapq.heappop(heap)
        yield text
        await _push(heap, index, flows[index])


async def _push(heap: list[tuple[int, int, bytes]], index: int, flow: AsyncGenerator[tuple[int, bytes], None]) -> None:
    with suppress(StopAsyncIteration):
        at_ms, text = await anext(flow)
        heapq.heappush(heap, (at_ms, index, text))


async def _whole_lines(source: AsyncIterator[OutputPiece], wanted: Wanted) -> AsyncGenerator[tuple[int, bytes], None]:
    """What is wanted of one source, with its times; a line is never cut, unless it is very long."""
    lines = Lines(wanted)
    kept, kept_at = b"", 0
    async for piece in source:
        for at_ms, text in lines.stretches(piece):
            if kept and len(kept) < MAX_LINE:
                end = text.find(b"\n") + 1
                kept, text = kept + (text[:end] if end else text), text[end:] if end else b""
                if not end:
                    continue
            if kept:
                yield kept_at, kept
                kept = b""
            end = text.rfind(b"\n") + 1
            if end:
                yield at_ms, text[:end]
            kept, kept_at = text[end:], at_ms
        if lines.is_past:
            break
    if kept:
        yield kept_at, kept
