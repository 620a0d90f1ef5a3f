"""One order for several things: each is tried, each refusal is printed, and the worst one is the exit code."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, describe, exit_code
from lattice.cli.output import structured
from lattice_sdk.client import Client
from lattice_sdk.errors import ApiError, NotAuthenticated, Unavailable
from lattice_sdk.models.records import Allocation

R = TypeVar("R")

TASKS = "allocation, task group, or tasks of a group: a17_3, a17_[3-7,9]"
ONE_TASK = "allocation, or task of a group: a17, a17_3"
_SEVERAL = re.compile(r"a?\d+_.*[^\d].*")
_DAG = re.compile(r"d(ag-)?\d+", re.ASCII)


def for_each(names: Iterable[str], order: Callable[[str], R], context: Context) -> tuple[list[R], int]:
    """The results of those that worked, and the exit code."""
    results, code = [], OK
    for name in names:
        try:
            results.append(order(name))
        except (NotAuthenticated, Unavailable):
            raise
        except ApiError as error:
            context.streams.complain(describe(error))
            code = max(code, exit_code(error))
    return results, code


def order_each(names: Sequence[str], order: Callable[[str], R], told: Callable[[R], str], context: Context) -> int:
    """Give one order for each name and print its outcome."""
    results, code = for_each(names, order, context)
    answer = results[0] if len(names) == 1 and results else results
    if results and not structured(context, answer):
        for result in results:
            context.say(told(result))
    return code


def names_several(name: str) -> bool:
    """Whether tasks of a group are named together: `a17_[3-7,9]`, `a17_3-7`."""
    return _SEVERAL.fullmatch(name) is not None


def is_dag(name: str) -> bool:
    """Whether it is the id of a DAG: `d17`."""
    return _DAG.fullmatch(name) is not None


def order_allocations(
    names: Sequence[str],
    order: Callable[[str], Allocation],
    told: Callable[[Allocation], str],
    context: Context,
) -> int:
    """Give one order for each name; several tasks of a group are called as they were named."""

    def ordered(name: str) -> tuple[str, Allocation]:
        return name, order(name)

    results, code = for_each(names, ordered, context)
    found = [allocation for _, allocation in results]
    if found and not structured(context, found[0] if len(names) == 1 else found):
        for name, allocation in results:
            context.say(f"{name if names_several(name) else allocation.id} {told(allocation)}")
    return code


@dataclass(frozen=True, kw_only=True)
class OrderOptions:
    ids: tuple[str, ...] = ()


def allocation_order(
    word: str, told: str, order: Callable[[Client], Callable[[str], Allocation]], takes: str
) -> Command[OrderOptions]:
    """A command that gives one order for each allocation it names: `lattice hold a17 a18`."""

    def fill(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", metavar="ID", help=takes)

    def run(options: OrderOptions, context: Context) -> int:
        return order_allocations(options.ids, order(context.client), lambda _: told, context)

    several = (f"lattice {word} 'a17_[3-7,9]'",) if takes is TASKS else ()
    return Command(
        options=OrderOptions,
        fill=fill,
        run=run,
        examples=(f"lattice {word} a17", *several, f"lattice {word} a17 a18 -o json"),
    )
