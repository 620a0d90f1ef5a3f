"""The screen of a terminal: drawn again, it is the same screen."""

import random

import pytest

from lattice.wire.text.screen import Screen

PIECES = (
    b"abc", b"\r\n", b"\x1b[H", b"\x1b[2J", b"\x1b[3;4H", b"\x1b[1;32m", b"\x1b[0m", b"\x1b[K", b"\x1b[L", b"\x1b[M", b"\x1b[2P",
    b"\x1b[3@", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[2;4r", b"\x1bM", "你".encode(), b"\t", b"\b", b"\x1b[A", b"\x1b7", b"\x1b8",
    b"\x1b[48;5;17m", b"\x1b[J", "e\u0301".encode(), b"\x1b", b"[", b"\xff", b"\x1b[9999999999999999999C", b"\x1b]2;title\x07",
)  # fmt: skip


def screen(*pieces: bytes, rows: int = 4, columns: int = 12) -> Screen:
    made = Screen(rows, columns)
    for piece in pieces:
        made.feed(piece)
    return made


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"one\r\ntwo", ["one", "two", "", ""]),
        (b"abcdefghijklmno", ["abcdefghijkl", "mno", "", ""]),
        (b"1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        (b"abcdef\x1b[3D\x1b[K", ["abc", "", "", ""]),
        (b"1\r\n2\r\n3\x1b[2;1H\x1b[L", ["1", "", "2", "3"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\r\nx", ["1", "3", "x", "4"]),
        (b"shell\x1b[?1049h\x1b[Hvim", ["vim", "", "", ""]),
        (b"shell\x1b[?1049h\x1b[Hvim\x1b[?1049l!", ["shell!", "", "", ""]),
        (b"abc\b\bX", ["aXc", "", "", ""]),
        ("你好".encode(), ["你好", "", "", ""]),
        (b"ab\x1b[31", ["ab", "", "", ""]),
    ],
    ids=["lines", "wrap", "scroll", "erase", "insert", "region", "alternate", "back", "backspace", "wide", "cut off"],
)
def test_what_programs_write_is_on_the_screen(written: bytes, lines: list[str]) -> None:
    assert screen(written).lines() == lines
    assert screen(*(bytes([byte]) for byte in written)).lines() == lines


def test_a_drawn_screen_is_the_same_screen_wherever_it_is_drawn() -> None:
    source = random.Random(20)
    for _ in range(400):
        before = screen(*source.choices(PIECES, k=source.randint(1, 60)))
        after = screen(b"junk\r\n\x1b[5m\x1b[2;3r", before.drawing())
        assert after.lines() == before.lines()
        assert after.drawing() == screen(before.drawing()).drawing()


def test_a_smaller_window_keeps_the_lines_around_the_cursor() -> None:
    made = screen(b"1\r\n2\r\n3\r\n4")
    made.resize(2, 12)
    assert made.lines() == ["3", "4"]
    made.resize(3, 20)
    assert made.lines() == ["3", "4", ""]


def test_modes_of_keys_and_mouse_are_handed_on() -> None:
    drawing = screen(b"\x1b[?2004h\x1b[?1h\x1b[?25l\x1b=").drawing()
    for sequence in (b"\x1b[?2004h", b"\x1b[?1h", b"\x1b[?25l", b"\x1b="):
        assert sequence in drawing
