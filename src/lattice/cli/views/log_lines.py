"""Lines of output: several streams in the order in which they were written, and those that match a pattern."""

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping

from lattice.cli.errors import UsageError

# A stamp and the blank behind it, as servers put them before each line.
STAMP = 25
# What is searched of a line, and how long a pattern may be: no line keeps the command busy for long.
MAX_SEARCHED = 64 << 10
MAX_PATTERN = 1_000


class Pattern:
    """`--grep`; without a pattern every line matches."""

    def __init__(self, text: str | None) -> None:
        if text is not None and len(text) > MAX_PATTERN:
            raise UsageError(f"--grep takes at most {MAX_PATTERN:,} characters")
        try:
            self._pattern = None if text is None else re.compile(text.encode())
        except re.error as error:
            hint = "put a backslash before signs that are meant as they are"
            raise UsageError(f'--grep: "{text}" is not a regular expression: {error}', hint=hint) from None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def matches(self, line: bytes) -> bool:
        return self._pattern is None or self._pattern.search(line[:MAX_SEARCHED].rstrip(b"\r\n")) is not None


class LineBuffer:
    """Puts pieces together to lines."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now, each with its end."""
        *ended, rest = piece.split(b"\n")
        if not ended:
            self._kept.append(rest)
            return []
        first = b"".join((*self._kept, ended[0], b"\n"))
        self._kept = [rest] if rest else []
        return [first, *(line + b"\n" for line in ended[1:])]

    def rest(self) -> bytes:
        """The last line, if it has no end."""
        kept, self._kept = b"".join(self._kept), []
        return kept


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    buffer = LineBuffer()
    for piece in pieces:
        yield from buffer.feed(piece)
    if rest := buffer.rest():
        yield rest


def in_order(streams: Mapping[str, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
    """Stamped lines of all streams by their stamps, each with the name of its stream."""

    def of(stream: str) -> Iterator[tuple[bytes, str, bytes]]:
        for line in lines_of(streams[stream]):
            yield line[: STAMP - 1], stream, line

    for _, stream, line in heapq.merge(*(of(stream) for stream in streams), key=lambda each: each[0]):
        yield stream, line
