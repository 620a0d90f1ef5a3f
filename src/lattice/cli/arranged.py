"""How a list is arranged: which columns, in which order, with or without a header row."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lattice.cli.errors import UsageError
from lattice.cli.output import Column

R = TypeVar("R")

LIST_FORMATS = ("csv", "name")


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """Options of commands that print lists of their own kind."""

    columns: str = ""
    sort: str = ""
    no_headers: bool = False


def add_arranged(add: Callable[..., Any]) -> None:
    add("--columns", metavar="NAMES", help="show these columns (comma-separated), as named by -o wide")
    add("--sort", metavar="NAMES", help="sort by these columns (comma-separated); -NAME sorts in descending order")
    add("--no-headers", action="store_true", help="leave out the header row")


def allow_list_formats(parser: argparse.ArgumentParser) -> None:
    """Let -o take csv and name as well."""
    from lattice.cli.flags import FORMATS

    parser.add_argument(
        "-o",
        "--output",
        choices=(*FORMATS, *LIST_FORMATS),
        metavar="FORMAT",
        help="output format: table, wide, json, yaml, csv or name (default: table)",
    )


def chosen_columns(options: Arranged, columns: Sequence[Column[R]]) -> Sequence[Column[R]]:
    """Those that were asked for, in that order; UsageError for an unknown name."""
    if not options.columns:
        return columns
    return [
        _found(word, columns, "--columns")._replace(is_wide=False, is_sparse=False) for word in _words(options.columns)
    ]


def sorted_rows(options: Arranged, rows: Sequence[R], columns: Sequence[Column[R]]) -> list[R]:
    """By the texts of columns, numbers by their value; UsageError for an unknown name."""
    rows = list(rows)
    for word in reversed(_words(options.sort)):
        column = _found(word.removeprefix("-"), columns, "--sort")
        rows.sort(key=lambda row, text=column.text: natural(text(row)), reverse=word.startswith("-"))  # type: ignore[misc]
    return rows


def natural(text: str) -> list[tuple[int, int | str]]:
    """`a9` before `a10`."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for char in text + "\0":
        if char.isdecimal() and char.isascii():
            digits += char
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, char))
    return parts


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _found(word: str, columns: Sequence[Column[R]], flag: str) -> Column[R]:
    for column in columns:
        if column.head == word.upper():
            return column
    known = ", ".join(column.head for column in columns)
    raise UsageError(f'{flag}: there is no column "{word}"', hint=f"one of {known}")
