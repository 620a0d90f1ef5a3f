"""`#LATTICE` lines: options that a script carries for itself, written as on the command line.

They stand before the first command of the script, one or several options to a line, quoted as in a
shell. What stands on the command line beats them.
"""

import shlex
from typing import NamedTuple

from lattice.cli.errors import UsageError

MARK = "#LATTICE"
FOREIGN_MARK = "#SBATCH"


class Directive(NamedTuple):
    line: int
    words: list[str]


class Directives(NamedTuple):
    """The directives of a script, and how many lines look like directives but do not count."""

    found: list[Directive]
    late: list[int]
    foreign: int


def read_directives(script: str, title: str) -> Directives:
    """All directives; UsageError names the line whose quotes do not match."""
    found, late, foreign, is_head = [], [], 0, True
    for number, line in enumerate(script.splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            is_head = False
        elif _is_marked(line, MARK) and is_head:
            found.append(Directive(number, _words(line[len(MARK) :], f"{title}, line {number}")))
        elif _is_marked(line, MARK):
            late.append(number)
        elif _is_marked(line, FOREIGN_MARK) and is_head:
            foreign += 1
    return Directives(found, late, foreign)


def _is_marked(line: str, mark: str) -> bool:
    rest = line[len(mark) :]
    return line.startswith(mark) and (not rest or rest[0].isspace())


def _words(text: str, place: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{place}: {str(error).lower()}") from None
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]
