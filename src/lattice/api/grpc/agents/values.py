"""Bounds of what agents say: figures that are finite and fit, texts that are printable lines.

What a node says of itself is refused when it makes no sense. What it says of work is made sensible instead: a report that is refused would
be repeated for ever, and the end of a run would never be known.
"""

import math
from collections.abc import Callable, Iterable

MAX_TEXT = 4096
MAX_SECONDS = 1e10  # three centuries
MAX_MEMORY_MB = 1 << 40  # far beyond any node, and sums over all nodes still fit into 64 bits
MAX_AMOUNT = 1 << 53
MAX_EXIT_CODE = 255
MAX_SIGNAL = 64
KILLED = 9
MAX_FEATURES = 256
MAX_FEATURE = 128


class BadMessage(ValueError):
    """An agent said something that makes no sense; the text may be sent back to it."""


def seconds(value: float) -> float:
    """The figure, or the nearest that can be meant."""
    if 0.0 <= value <= MAX_SECONDS:
        return value
    return MAX_SECONDS if MAX_SECONDS < value < math.inf else 0.0


def joules(value: float) -> float:
    """The same of energy."""
    if 0.0 <= value <= MAX_AMOUNT:
        return value
    return float(MAX_AMOUNT) if MAX_AMOUNT < value < math.inf else 0.0


def memory_mb(value: int) -> int:
    return value if value <= MAX_MEMORY_MB else MAX_MEMORY_MB


def megabytes(value: float) -> float:
    """The same with a fraction."""
    if 0.0 <= value <= MAX_MEMORY_MB:
        return value
    return float(MAX_MEMORY_MB) if MAX_MEMORY_MB < value < math.inf else 0.0


def amount(value: int) -> int:
    """Bytes or processes: sums of many must stay whole numbers that every client can read."""
    return value if value <= MAX_AMOUNT else MAX_AMOUNT


def exit_code(value: int) -> int:
    """The code; the highest where there is no such code, never the one of a success."""
    return value if 0 <= value <= MAX_EXIT_CODE else MAX_EXIT_CODE


def signal(value: int) -> int:
    """The signal; SIGKILL where there is no such signal."""
    return value if 0 <= value <= MAX_SIGNAL else KILLED


def line(text: str) -> str:
    """The text on one line, with a question mark for every character that cannot be shown."""
    cut = text[:MAX_TEXT]
    return cut if cut.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in cut)


def checked(what: str) -> Callable[[str], str]:
    """Gives back the text; raises BadMessage when it is no printable line."""

    def check(text: str) -> str:
        if len(text) > MAX_TEXT or not text.isprintable():
            raise BadMessage(f"{what} is not a printable line of up to {MAX_TEXT} characters")
        return text

    return check


def features(names: Iterable[str]) -> tuple[str, ...]:
    """The features of a node, by name; raises BadMessage."""
    found = sorted(set(names))
    if len(found) > MAX_FEATURES:
        raise BadMessage(f"{len(found):,} features; a node may have {MAX_FEATURES}")
    for name in found:
        if not name or len(name) > MAX_FEATURE or not name.isprintable() or " " in name:
            raise BadMessage(f"{name[:MAX_FEATURE]!r} cannot be a feature: up to {MAX_FEATURE} characters, no blanks")
    return tuple(found)
