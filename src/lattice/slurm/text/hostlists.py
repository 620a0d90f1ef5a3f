"""Host lists in Slurm's notation, `n[1-3,5],m07`: parsed and formatted, preserving padding."""

import re
from collections.abc import Iterable

from lattice.slurm.text.numbers import whole

MAX_HOSTS = 100_000
_DIGITS = "0123456789"
_MAX_DIGITS = 15  # of a name that shares brackets with others
MAX_NAME = 128
MAX_TEXT = 1 << 20
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_OUTSIDE = re.compile(r"[\[\], \n]")


class BadHostlist(ValueError):
    """The text is not a host list; `place` is the offending character, counted from 1."""

    def __init__(self, message: str, place: int = 1) -> None:
        super().__init__(message)
        self.place = place


def expand(text: str, most: int = MAX_HOSTS) -> list[str]:
    """The names in order, including duplicates. Raises BadHostlist, also for more than `most` of them."""
    if len(text) > MAX_TEXT:
        raise BadHostlist(f"a list of hosts has at most {MAX_TEXT:,} characters")
    if sum(map(text.count, "[, \n")) > 2 * most:
        raise _too_many(most, 0)
    names: list[str] = []
    for start, item in _items(text):
        names += _expand_item(item, start, most)
        if len(names) > most:
            raise _too_many(most, start)
    return names


def most_named(text: str) -> int:
    """An upper bound of the number of hosts, from the ranges alone: does not expand the list and never fails."""
    if len(text) > MAX_TEXT:
        return MAX_HOSTS
    named = text.count(",") + text.count(" ") + text.count("\n") + 1
    for low, high in _RANGE.findall(text):
        named += max(0, int(high) - int(low))
    # Consecutive brackets multiply; such a list counts as the largest possible.
    return MAX_HOSTS if "][" in text or text.count("[") > text.count(",") + 1 else min(named, MAX_HOSTS)


def _too_many(most: int, at: int) -> BadHostlist:
    return BadHostlist(f"more than {most} hosts", at + 1)


def _check_length(length: int, at: int) -> None:
    if length > MAX_NAME:
        raise BadHostlist(f"the name at character {at + 1} is longer than {MAX_NAME} characters", at + 1)


def fold(names: Iterable[str]) -> str:
    """The shortest usual notation; consecutive hosts with the same prefix and width share brackets."""
    blocks: list[tuple[str, int, list[int]]] = []
    kept, kept_width, numbers = "", -1, list[int]()  # the last block
    for name in names:
        prefix = name.rstrip(_DIGITS)
        digits = name[len(prefix) :]
        if not 0 < len(digits) <= _MAX_DIGITS:
            kept, kept_width, numbers = name, -1, []
            blocks.append((kept, kept_width, numbers))
            continue
        width = len(digits) if digits[0] == "0" and len(digits) > 1 else 0
        if prefix == kept and kept_width >= 0 and _same_width(kept_width, width, digits):
            numbers.append(int(digits))
        else:
            kept, kept_width, numbers = prefix, width, [int(digits)]
            blocks.append((kept, kept_width, numbers))
    return ",".join(_block(*block) for block in blocks)


def _same_width(kept: int, width: int, digits: str) -> bool:
    """008, 009, 010 are one block; 8, 9, 10 are one too; 08 and 8 are not."""
    return kept == width or (kept > 0 and width == 0 and len(digits) == kept)


def _block(prefix: str, width: int, numbers: list[int]) -> str:
    if width < 0:
        return prefix
    spans = _spans(sorted(set(numbers)))
    text = ",".join(f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}" for low, high in spans)
    return f"{prefix}{text}" if len(spans) == 1 and spans[0][0] == spans[0][1] else f"{prefix}[{text}]"


def _spans(numbers: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def _items(text: str) -> list[tuple[int, str]]:
    """Splits the list at commas outside brackets; returns each piece with its position."""
    items, opened, start = [], -1, 0
    for found in _OUTSIDE.finditer(text):
        at, char = found.start(), found[0]
        if (char == "[" and opened >= 0) or (char == "]" and opened < 0):
            raise BadHostlist(f"brackets do not match at character {at + 1} of {text[:60]!r}", at + 1)
        if char == "[":
            opened = at
        elif char == "]":
            opened = -1
        elif opened < 0:
            items.append((start, text[start:at]))
            start = at + 1
    if opened >= 0:
        raise BadHostlist(
            f"brackets do not match in {text[:60]!r}: the one at character {opened + 1} is not closed", opened + 1
        )
    return [(at, item) for at, item in (*items, (start, text[start:])) if item]


def _expand_item(item: str, start: int, most: int) -> list[str]:
    head, bracket, rest = item.partition("[")
    _check_length(len(head), start)
    if not bracket:
        return [item]
    inside, _, tail = rest.partition("]")
    names: list[str] = []
    at = start + len(head) + 1
    for part in inside.split(","):
        names += [f"{head}{number}" for number in _numbers(part, at, most)]
        if len(names) > most:
            raise _too_many(most, at)
        at += len(part) + 1
    ends = _expand_item(tail, at, most) if tail else [""]
    # Counted before they are listed: brackets multiply.
    if len(names) * len(ends) > most:
        raise _too_many(most, start)
    _check_length(len(names[0]) + max(map(len, ends)), start)
    return [name + end for name in names for end in ends]


def _numbers(part: str, at: int, most: int) -> list[str]:
    low, dash, high = part.partition("-")
    first, last = whole(low), whole(high if dash else low)
    if first is None or last is None or last < first:
        raise BadHostlist(f"{part[:60]!r} at character {at + 1} is not a range of numbers", at + 1)
    if last - first >= most:
        raise _too_many(most, at)
    return [f"{number:0{len(low)}}" for number in range(first, last + 1)]
