"""The shape of a command: a record of options, a filler for its parser, and a function that runs it."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

from lattice.cli.context import Context, Process

O = TypeVar("O")  # noqa: E741

Values = dict[str, Any]
Completer = Callable[[Values, argparse.ArgumentParser, Process], Values]


def takes_nothing(_parser: argparse.ArgumentParser) -> None:
    """For commands that have no options of their own."""


class Command(Struct, Generic[O], frozen=True, kw_only=True):
    """`options` is a dataclass with a default for everything that may be left out.

    `fill` adds arguments whose destinations are fields of `options`. `complete` may add values to
    those of the command line before the record is made. With `takes_tail` what follows `--` becomes
    the field `tail` and is not parsed. With `takes_rest` the first word that is no flag ends the flags:
    it and all that follow, a `--` among them too, become `rest` as they are. Flags in `dashed` take the next word
    as their value even when it begins with a dash. Commands for which a vCluster makes a difference have the flag
    `--vcluster`. Flags in `fixed` are refused by name, with what to do instead: users expect that they change something that stays as it
    was submitted. Commands that `list` things have `--columns`, `--sort`, `--no-headers`, `-o csv` and `-o name`.
    """

    options: type[O]
    run: Callable[[O, Context], int]
    examples: tuple[str, ...]
    fill: Callable[[argparse.ArgumentParser], None] = takes_nothing
    complete: Completer | None = None
    takes_tail: bool = False
    takes_rest: bool = False
    dashed: frozenset[str] = frozenset()
    fixed: Mapping[str, str] = {}
    has_vcluster: bool = False
    lists: bool = False


def short_command(
    options: type[O],
    fill: Callable[[argparse.ArgumentParser], None],
    run: Callable[[O, Context], int],
    *examples: str,
    lists: bool = False,
) -> Command[O]:
    """For nouns with many small verbs, which share one record of options."""
    return Command(options=options, fill=fill, run=run, examples=examples, lists=lists)
