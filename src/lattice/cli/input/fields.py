"""Fields of tenants, vClusters and projects as flags: what was typed becomes what the API takes."""

import argparse
import math
from collections.abc import Sequence
from typing import NamedTuple

from lattice.cli.errors import UsageError
from lattice.cli.input.constraints import expand_names

TEXT = "TEXT"
INTEGER = "N"
FLOAT = "X"
DURATION = "TIME"
LIST_OF_NAMES = "NAMES"
NODE_SET = "NODES"
LIFETIME = "WALLTIME"  # a duration that there always is
NO_LIMIT = frozenset({"none", "unlimited"})


class Field(NamedTuple):
    """A field of the API, the kind of its value, and what it means."""

    name: str
    kind: str
    meaning: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")


def add_fields(parser: argparse.ArgumentParser, noun: str, fields: Sequence[Field]) -> None:
    """Add the name, as an argument or --name, and one flag per field."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"name of the {noun}")
    parser.add_argument("--name", metavar="NAME", help="same as the positional NAME")
    for field in fields:
        limit = "; none = no limit" if field.kind in {INTEGER, FLOAT, DURATION} else ""
        parser.add_argument(field.flag, metavar=field.kind, help=field.meaning + limit)


def chosen_name(words: tuple[str, ...], flag: str, noun: str) -> str:
    names = [*words, *([flag] if flag else [])]
    if len(names) != 1:
        raise UsageError(f"give the name of one {noun}", hint="as an argument, or with --name=NAME")
    return names[0]


def given_fields(options: object, fields: Sequence[Field], *, is_change: bool = False) -> dict[str, object]:
    """The fields that were typed, by their names in the API."""
    typed = {field: getattr(options, field.name) for field in fields}
    given = {field.name: field_value(field, text) for field, text in typed.items() if text is not None}
    if is_change and not given:
        flags = ", ".join(field.flag for field in fields)
        raise UsageError("nothing to change", hint=f"use one of {flags}")
    return given


def field_value(field: Field, text: str) -> object:
    if field.kind == LIST_OF_NAMES:
        return [name for name in text.split(",") if name and name != "all"]
    if field.kind == NODE_SET:
        return [] if text == "all" else expand_names(text)
    if field.kind in {TEXT, DURATION, LIFETIME}:
        return None if field.kind == DURATION and text in NO_LIMIT else text
    if text in NO_LIMIT:
        return None
    try:
        return int(text) if field.kind == INTEGER else finite(text)
    except ValueError:
        kind = "a whole number" if field.kind == INTEGER else "a number"
        raise UsageError(f'{field.flag} takes {kind}, not "{text}"') from None


def finite(text: str) -> float:
    """The number that was typed. Raises ValueError for `nan` and `inf`, which JSON has no words for and would send as nothing."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
