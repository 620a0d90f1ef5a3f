"""Applies views to an environment: every patch in its declared order, and a story of which one set which variable."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lattice.images.metadata import Patch, View
from lattice.images.references import BadReference

SEPARATOR = ":"
# What only the node may say to a process.
RESERVED = "LATTICE_"
MAX_EXPANDED = 128 << 10  # characters of one variable
MAX_WRITTEN = 4 << 20  # and of all that the views write, whether it lasts or is written over

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
    """The environment after all views, each named by its source, and what every patch did to it.

    Raises BadReference where it would become too large: values may repeat each other, and views may come from anybody.
    """
    patched, changes, written = dict(environment), list[Change](), 0
    for source, view in views:
        for patch in view.patches:
            if patch.variable.startswith(RESERVED):
                continue
            value = _new_value(patch, patched)
            if value is None:
                patched.pop(patch.variable, None)
            else:
                patched[patch.variable] = value
                written += len(value)
                if written > MAX_WRITTEN:
                    raise BadReference(f"view {source} and those before it write more than {MAX_WRITTEN:,} characters")
            changes.append(Change(patch.variable, patch.operation, source, value))
    return patched, changes


def _new_value(patch: Patch, environment: Mapping[str, str]) -> str | None:
    if patch.operation == "unset":
        return None
    values = [_expand(patch.variable, each, environment) for each in patch.values]
    if not patch.is_list:
        return values[0]
    present = environment.get(patch.variable, "")
    if patch.operation == "append":
        values = [present, *values]
    elif patch.operation == "prepend":
        values = [*values, present]
    values = [each for each in values if each]
    _check_size(patch.variable, sum(map(len, values)) + len(values))
    return SEPARATOR.join(values)


def _expand(variable: str, text: str, environment: Mapping[str, str]) -> str:
    """`${@VAR@}` stands for the value that VAR has at this moment, nothing when it has none. Values are not expanded again."""
    names = [found[1] for found in _VARIABLE.finditer(text)]
    _check_size(variable, len(text) + sum(len(environment.get(name, "")) for name in names))
    return _VARIABLE.sub(lambda found: environment.get(found[1], ""), text)


def _check_size(variable: str, size: int) -> None:
    if size > MAX_EXPANDED:
        raise BadReference(f"a view makes {variable[:40]} longer than {MAX_EXPANDED:,} characters")
