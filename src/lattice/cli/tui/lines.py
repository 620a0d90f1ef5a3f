"""Lines of text with tones: what every view is made of. Nothing in here knows of a terminal."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lattice.cli.output import ELLIPSIS, cell_width, printable

GOOD, WARN, BAD, DIM, STRONG, ACCENT, PLAIN = "good", "warn", "bad", "dim", "strong", "accent", ""
CURSOR, HEAD = "cursor", "head"

TONES = {
    "Running": GOOD,
    "Ready": GOOD,
    "Completed": DIM,
    "Cancelled": DIM,
    "Pending": WARN,
    "Starting": WARN,
    "Stopping": WARN,
    "Degraded": WARN,
    "Draining": WARN,
    "Drained": WARN,
    "Failed": BAD,
    "Down": BAD,
}


def tone_of(state: str) -> str:
    return TONES.get(state.partition(" ")[0], PLAIN)


class Span(NamedTuple):
    text: str
    tone: str = PLAIN


Line = tuple[Span, ...]
EMPTY: Line = ()


def line(text: str, tone: str = PLAIN) -> Line:
    """What others wrote is made harmless here: no character of it steers the terminal."""
    return (Span(printable(text), tone),)


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_width(span.text) for span in spans)


def cut(text: str, room: int) -> str:
    """At most `room` cells."""
    if cell_width(text) <= room:
        return text
    kept = ""
    for char in text:
        if cell_width(kept + char) > room - 1:
            break
        kept += char
    return kept + ELLIPSIS if room > 0 else ""


def padded(text: str, room: int, *, is_right: bool = False) -> str:
    """Exactly `room` cells."""
    text = cut(text, room)
    spare = " " * (room - cell_width(text))
    return spare + text if is_right else text + spare


def fitted(spans: Sequence[Span], room: int) -> Line:
    """At most `room` cells of a line."""
    kept: list[Span] = []
    for span in spans:
        left = room - width_of(kept)
        if left <= 0:
            break
        kept.append(Span(cut(span.text, left), span.tone))
    return tuple(kept)


def both_ends(left: Sequence[Span], right: Sequence[Span], room: int) -> Line:
    """The left part at the left, and the right part at the right where there is room for both."""
    spare = room - width_of(left) - width_of(right)
    if spare < 2:
        return fitted(left, room)
    return (*left, Span(" " * spare), *right)


def wrapped(text: str, room: int, tone: str = PLAIN, indent: str = "") -> list[Line]:
    """A long text on as many lines as it takes, broken at spaces where there are any."""
    lines: list[Line] = []
    for part in printable_lines(text):
        rest = part
        while True:
            if cell_width(rest) <= room:
                lines.append((Span(rest, tone),))
                break
            head = cut(rest, room + 1)[:-1] or rest[:1]
            space = head.rfind(" ")
            if space > max(len(indent), room // 3):
                head = head[:space]
            lines.append((Span(head, tone),))
            rest = indent + rest[len(head) :].lstrip(" ")
    return lines


def printable_lines(text: str) -> list[str]:
    return [printable(part.expandtabs(8)) for part in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def title(text: str) -> list[Line]:
    return [EMPTY, (Span(text, STRONG),)]


def pairs(rows: Iterable[tuple[str, str]], width: int) -> list[Line]:
    """Names and values, the values below each other."""
    shown = [(name, text) for name, text in rows if text]
    room = max((cell_width(name) for name, _ in shown), default=0) + 2
    lines: list[Line] = []
    for name, text in shown:
        parts = wrapped(text, max(10, width - room))
        lines.append((Span(padded(printable(name), room), DIM), *parts[0]))
        lines += [(Span(" " * room), *part) for part in parts[1:]]
    return lines


BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """A share between 0 and 1 as a bar that is `cells` wide."""
    eighths = round(max(0.0, min(1.0, share)) * cells * 8)
    full, rest = divmod(eighths, 8)
    return padded("█" * full + (_EIGHTHS[rest] if rest else ""), cells)


def meter(label: str, share: float, text: str, *, room: int = 20, tone: str = ACCENT) -> Line:
    return (Span(padded(printable(label), room), DIM), Span(bar(share), tone), Span(f" {printable(text)}"))
