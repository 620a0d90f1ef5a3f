"""One bad item for a loop: a function of it fails for that item alone."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest


class Poison(Exception):
    """What no loop expects."""


Patch = pytest.MonkeyPatch


def poison(patch: Patch, owner: object, name: str, is_bad: Callable[..., bool]) -> None:
    """Lets a function of the loop fail for some of its items."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def wrapped(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the function has them
        if is_bad(*args):
            raise Poison(name)
        return real(*args, **more)

    @functools.wraps(real)
    async def awaited(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the function has them
        return await wrapped(*args, **more)

    patch.setattr(owner, name, awaited if inspect.iscoroutinefunction(real) else wrapped)
