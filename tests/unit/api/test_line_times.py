"""Lines with their times: stamped, of a span, in order."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.api.running.line_times import Lines, TimesUnknown, Wanted, in_order
from lattice.ports.nodes.agents import OutputPiece


def piece(offset: int, *written: tuple[int, bytes]) -> OutputPiece:
    marks, data = [], b""
    for at_ms, text in written:
        marks.append((offset + len(data), at_ms))
        data += text
    return OutputPiece(offset=offset, data=data, marks=tuple(marks))


def stamp(at_ms: int) -> bytes:
    return f"1970-01-01T00:00:0{at_ms // 1000}.{at_ms % 1000:03d}Z ".encode()


def test_each_line_has_the_time_of_its_first_byte() -> None:
    lines = Lines(Wanted(stamps=True))
    found = lines.feed(piece(0, (1000, b"a\nb\nc"), (2000, b"c\nd\n"))) + lines.feed(piece(9, (3000, b"e")))
    one, two, three = stamp(1000), stamp(2000), stamp(3000)
    assert found == one + b"a\n" + one + b"b\n" + one + b"cc\n" + two + b"d\n" + three + b"e"


def test_output_without_times_has_empty_stamps_and_no_span() -> None:
    bare = OutputPiece(offset=0, data=b"a\nb")
    assert Lines(Wanted(stamps=True)).feed(bare) == b"-".ljust(25) + b"a\n" + b"-".ljust(25) + b"b"
    with pytest.raises(TimesUnknown):
        Lines(Wanted(since_ms=1)).feed(bare)


def test_a_span_has_whole_lines_that_began_in_it() -> None:
    written = (
        (1000, b"a\nbegun "),
        (2000, b"before\nc\n"),
        (3000, b"d\nbegun "),
        (4000, b"inside\ne\n"),
        (5000, b"f\n"),
    )
    lines = Lines(Wanted(since_ms=2000, until_ms=3999))
    assert lines.feed(piece(0, *written)) == b"c\nd\nbegun inside\n"
    assert lines.is_past
    assert Lines(Wanted(until_ms=1000)).feed(piece(0, *written)) == b"a\nbegun before\n"
    assert Lines(Wanted(since_ms=5000)).feed(piece(0, *written)) == b"f\n"


PIECES = st.lists(
    st.lists(st.tuples(st.integers(1, 9000), st.text("ab\n", min_size=1, max_size=6).map(str.encode)), min_size=1),
    max_size=5,
)


@given(PIECES)
def test_no_byte_is_lost_and_every_line_is_stamped_once(written: list[list[tuple[int, bytes]]]) -> None:
    plain, stamped, offset = Lines(Wanted()), Lines(Wanted(stamps=True)), 0
    whole, passed, marked = b"", b"", b""
    for each in written:
        one = piece(offset, *each)
        offset += len(one.data)
        whole, passed, marked = whole + one.data, passed + plain.feed(one), marked + stamped.feed(one)
    assert passed == whole
    assert b"\n".join(line[25:] for line in marked.split(b"\n")) == whole


def ordered(sources: list[list[OutputPiece]], wanted: Wanted) -> list[bytes]:
    async def flow(pieces: list[OutputPiece]) -> AsyncIterator[OutputPiece]:
        for each in pieces:
            yield each

    async def all_of_them() -> list[bytes]:
        return [text async for text in in_order([flow(pieces) for pieces in sources], wanted)]

    return asyncio.run(all_of_them())


def test_sources_come_in_order_of_time_and_no_line_is_torn() -> None:
    first = [piece(0, (1000, b"one\nfo")), piece(6, (3000, b"ur\n"), (5000, b"six\n"))]
    second = [piece(0, (2000, b"two\n"), (4000, b"five")), piece(8, (4001, b"!\n"), (7000, b"late"))]
    assert ordered([first, second], Wanted()) == [b"one\n", b"four\n", b"two\n", b"five!\n", b"six\n", b"late"]
    assert ordered([first, second], Wanted(until_ms=4000)) == [b"one\n", b"four\n", b"two\n", b"five!\n"]
    assert ordered([], Wanted()) == []


def test_a_line_without_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lattice.api.running.line_times.MAX_LINE", 4)
    pieces = [piece(0, (1000, b"ab")), piece(2, (2000, b"cd")), piece(4, (3000, b"ef")), piece(6, (4000, b"g\nh"))]
    assert b"".join(ordered([pieces], Wanted())) == b"abcdefg\nh"
