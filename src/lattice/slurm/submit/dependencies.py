"""Dependency expressions: `afterok:17:18,afterany:19_2?after:20+5,singleton`."""

import re
from typing import NamedTuple

KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr")
SINGLETON = "singleton"
MAX_COUNT = 1000
_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,9}|\*))?(?:\+(\d{1,9}))?$", re.ASCII)


class Wait(NamedTuple):
    """One condition on one job or array task; `delay_min` counts from its start."""

    kind: str
    number: int
    task: int | None = None
    delay_min: int = 0


class Dependency(NamedTuple):
    """All of `waits` must hold, or with `any_of` one of them; a singleton waits for jobs of the same name and user."""

    waits: tuple[Wait, ...]
    any_of: bool = False
    is_singleton: bool = False


def parse_dependency(text: str) -> Dependency | None:
    """None for an invalid expression; `,` and `?` cannot be combined."""
    if "," in text and "?" in text:
        return None
    any_of = "?" in text
    waits: list[Wait] = []
    is_singleton = False
    for item in text.split("?" if any_of else ","):
        if item.lower() == SINGLETON:
            is_singleton = True
            continue
        found = _waits(item)
        if not found:
            return None
        waits += found
        if len(waits) > MAX_COUNT:
            return None
    return Dependency(tuple(waits), any_of, is_singleton)


def _waits(item: str) -> list[Wait]:
    kind, *jobs = item.split(":")
    # A bare list of ids means afterany.
    if kind.lower() not in KINDS:
        kind, jobs = "afterany", [kind, *jobs]
    found = [_JOB.match(job) for job in jobs]
    waits = []
    for match in found:
        if match is None or (match[3] and kind.lower() != "after"):
            return []
        task = int(match[2]) if match[2] and match[2] != "*" else None
        waits.append(Wait(kind.lower(), int(match[1]), task, int(match[3] or 0)))
    return waits
