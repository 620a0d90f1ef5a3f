"""Figures that work itself shows, in the text format of Prometheus. Pure, and careful: the text comes from a user's program."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lattice.core.model.telemetry.windows import figure_of

MAX_SERIES = 100
MAX_LINE = 4_096
MAX_LABELS = 20
MAX_VALUE = 200
# Figures of these names are ours; a program cannot pass its own off as them.
RESERVED = "lattice_"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]{0,99})\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|\})')
_ESCAPED = re.compile(r"\\(.)")


class Shown(NamedTuple):
    """One figure."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str) -> list[Shown]:
    """What can be read; lines that cannot, and those beyond the bounds, are left out."""
    found = []
    for line in text.split("\n"):
        shown = _figure(line.strip()) if len(line) <= MAX_LINE else None
        if shown is not None:
            found.append(shown)
        if len(found) == MAX_SERIES:
            break
    return found


def _figure(line: str) -> Shown | None:
    name = _NAME.match(line)
    if name is None or name[0].startswith(RESERVED):
        return None
    rest, labels = line[name.end() :], dict[str, str]()
    if rest.startswith("{"):
        place = 1
        for label, text, end in _pairs(rest):
            labels[label], place = text, end
        if rest[place - 1] != "}":
            place += 1  # none, or a comma behind the last one
        if rest[place - 1 : place] != "}" or len(labels) > MAX_LABELS:
            return None
        rest = rest[place:]
    words = rest.split()
    if not words or rest[0] not in " \t":
        return None
    value = figure_of(words[0])
    return None if value is None else Shown(name[0], labels, value)


def _pairs(text: str) -> Iterator[tuple[str, str, int]]:
    """Label, value and the place behind, until the brace that closes them or something else."""
    place = 1
    while (found := _LABEL.match(text, place)) is not None:
        place = found.end()
        yield found[1], _ESCAPED.sub(_unescaped, found[2])[:MAX_VALUE], place
        if found[3] == "}":
            return


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
