"""Applies views to an environment: every patch in its declared order, and a story of which one set which variable."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lattice.images.metadata import Patch, View

SEPARATOR = ":"
# What only the node may say to a process.
RESERVED = "LATTICE_"
MAX_EXPANDED = 128 << 10

_VARIABLE = re.compile(r"\$\{@([^@{}]*)@\}")


class Change(NamedTuple):
    """What one patch did. `value` is the variable's new one, None when it is unset."""

    variable: str
    operation: str
    source: str  # the view, as IMAGE:VIEW
    value: str | None


def apply_views(
    environment: Mapping[str, str], views: Iterable[tuple[str, View]]
) -> tuple[dict[str, str], list[Change]]:
    """The environment after all views, each named by its source, and what every patch did to it."""
    patched, changes = dict(environment), []
    for source, view in views:
        for patch in view.patches:
            if patch.variable.startswith(RESERVED):
                continue
            value = _new_value(patch, patched)
            if value is None:
                patched.pop(patch.variable, None)
            else:
                patched[patch.variable] = value
            changes.append(Change(patch.variable, patch.operation, source, value))
    return patched, changes


def _new_value(patch: Patch, environment: Mapping[str, str]) -> str | None:
    if patch.operation == "unset":
        return None
    values = [_expand(each, environment) for each in patch.values]
    if not patch.is_list:
        return values[0]
    present = environment.get(patch.variable, "")
    if patch.operation == "append":
        values = [present, *values]
    elif patch.operation == "prepend":
        values = [*values, present]
    return SEPARATOR.join(filter(None, values))[:MAX_EXPANDED]


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """`${@VAR@}` stands for the value that VAR has at this moment, nothing when it has none. Values are not expanded again."""
    return _VARIABLE.sub(lambda found: environment.get(found[1], ""), text)[:MAX_EXPANDED]
