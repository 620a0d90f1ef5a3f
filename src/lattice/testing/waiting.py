"""Waiting for something that will be true soon, with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTime(AssertionError):
    """What was waited for did not happen; the text holds what was seen last."""


# Looked at often at first, and ever less often: asking a server costs time on it that what is waited for needs itself.
FIRST_S = 0.02
GROWTH = 1.2
LONGEST_S = 0.25


def eventually(look: Callable[[], T | None], what: str, *, within_s: float = 60.0, every_s: float | None = None) -> T:
    """The first true answer of `look`, asked again and again; NotInTime when there is none."""
    until = time.monotonic() + within_s
    pause_s = FIRST_S if every_s is None else every_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > until:
            raise NotInTime(f"not within {within_s:g} s: {what} (last seen: {seen!r})")
        time.sleep(pause_s)
        if every_s is None:
            pause_s = min(pause_s * GROWTH, LONGEST_S)
