"""Waiting for something that will be true soon, with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTime(AssertionError):
    """What was waited for did not happen; the text holds what was seen last."""


def eventually(look: Callable[[], T | None], what: str, *, within_s: float = 60.0, every_s: float = 0.05) -> T:
    """The first true answer of `look`, asked again and again; NotInTime when there is none."""
    until = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > until:
            raise NotInTime(f"not within {within_s:g} s: {what} (last seen: {seen!r})")
        time.sleep(every_s)
