"""Command lines of the listing programs: options and words in any order; exit code 1 for an invalid line."""

import re
from collections.abc import Iterable, Sequence

from lattice.slurm.faults import Fault
from lattice.slurm.submit.getopt import Given, Grammar
from lattice.slurm.submit.options import Option, Takes

ALIKE = (
    Option("help", takes=Takes.NOTHING),
    Option("usage", takes=Takes.NOTHING),
    Option("version", "V", Takes.NOTHING),
    Option("verbose", "v", Takes.NOTHING),
)

MAX_ITEMS = 20_000
_MARKS = re.compile(r"[\[\],]")


def flag(name: str, short: str = "", *also: str) -> Option:
    return Option(name, short, Takes.NOTHING, also=also)


def value(name: str, short: str = "", *also: str) -> Option:
    return Option(name, short, Takes.VALUE, also=also)


def maybe(name: str, short: str = "", *also: str) -> Option:
    """An option whose value may be missing, or follow as a word."""
    return Option(name, short, Takes.MAYBE, also=also)


class ListingLine:
    """The options that were given, by name, and the words between them."""

    def __init__(self, given: Iterable[Given], words: Sequence[str]) -> None:
        self.given = tuple(given)
        self.words = list(words)

    def has(self, *names: str) -> bool:
        return any(each.option.name in names for each in self.given)

    def last(self, name: str, default: str = "") -> str:
        """The value given last."""
        return next((each.value for each in reversed(self.given) if each.option.name == name), default)

    def items(self, name: str, default: str = "") -> tuple[str, ...]:
        """All given values, split at commas."""
        values = [each.value for each in self.given if each.option.name == name] or [default]
        return tuple(item.strip() for text in values for item in text.split(",") if item.strip())

    def which(self, *names: str) -> str:
        """The one of these options that was given last; empty if none was."""
        return next((each.option.name for each in reversed(self.given) if each.option.name in names), "")


def read_line(grammar: Grammar, argv: Sequence[str]) -> ListingLine:
    """Raises Fault, with exit code 1, for unknown options."""
    given: list[Given] = []
    words: list[str] = []
    at, is_over = 0, False
    try:
        while at < len(argv) and not is_over:
            found, at, is_over = grammar.options(argv, at)
            given += found
            # Everything after `--` is a word.
            words += argv[at:] if is_over else argv[at : at + 1]
            at += 1
    except Fault as fault:
        raise Fault(*fault.lines, code=1) from None
    return ListingLine(given, words)


def items_outside_brackets(text: str) -> list[str]:
    """`7,8_[1,3]` is two items. Raises Fault when there are too many."""
    if text.count(",") + text.count("[") + text.count("]") > MAX_ITEMS:
        raise Fault(f"error: more than {MAX_ITEMS:,} items in one list")
    items, depth, start = [], 0, 0
    for found in _MARKS.finditer(text):
        at, char = found.start(), found[0]
        if char != ",":
            depth += 1 if char == "[" else -1
        elif depth <= 0:
            items.append(text[start:at])
            start = at + 1
    return [item.strip() for item in (*items, text[start:]) if item.strip()]
