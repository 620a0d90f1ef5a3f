"""One order for several things: each is tried, each refusal is told, the worst one is the exit code."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lattice.cli.context import Context
from lattice.cli.errors import OK, describe, exit_code
from lattice.cli.output import structured
from lattice_sdk.errors import ApiError, NotAuthenticated, Unavailable

R = TypeVar("R")


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
    """Give one order for each name and tell what became of it."""
    results, code = for_each(names, order, context)
    answer = results[0] if len(names) == 1 and results else results
    if results and not structured(context, answer):
        for result in results:
            context.say(told(result))
    return code
