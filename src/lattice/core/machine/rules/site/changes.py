"""What an administrative command changes, field by field, as the audit chain says it: `max_nodes: none -> 4; admins: ann -> ann, bob`.

From level 2 on: older servers did not say it, and their logs must give the same chain. See docs/architecture/core.md.
"""

from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct
from msgspec.structs import fields

from lattice.core.machine import commands as cmd
from lattice.core.machine.state import State
from lattice.core.model.site.deletion import Deletable

SINCE_LEVEL = 2
MAX_VALUE = 120  # characters of one value
_SILENT = frozenset({"created_at"})
Change = tuple[str, object, object]


def changes_of(state: State, command: cmd.AnyCommand) -> tuple[Change, ...]:
    """(field, before, after) of all that an administrative command would change; asked before it is carried out."""
    if state.level < SINCE_LEVEL:
        return ()
    match command:
        case cmd.SubmitAllocation():  # the most frequent is not compared with all the others
            return ()
        case cmd.SetTenant():
            return tuple(_fields(state.tenants.get(command.tenant.name), command.tenant))
        case cmd.SetProject():
            project = command.project
            return tuple(_fields(state.projects.get((project.tenant, project.name)), project))
        case cmd.SetVcluster():
            return tuple(_fields(state.vclusters.get(command.vcluster.name), command.vcluster))
        case cmd.SetReservation():
            return tuple(_fields(state.reservations.get(command.reservation.name), command.reservation))
        case cmd.DeleteReservation():
            return tuple(_fields(state.reservations.get(command.name), None))
        case cmd.DeleteRecord():
            return tuple(_fields(_record(state, command), None))
        case cmd.SetSetting():
            return (("value", state.settings.get(command.key, ""), command.value),)
        case cmd.SetBaseline():
            return tuple(_fields(state.drift.baselines.get(command.baseline.vcluster), command.baseline))
        case cmd.UnsetBaseline():
            return tuple(_fields(state.drift.baselines.get(command.vcluster), None))
        case _:
            return ()


def _record(state: State, command: cmd.DeleteRecord) -> Struct | None:
    """What is about to be deleted; of a node its history tells the rest."""
    match command.what:
        case Deletable.TENANT:
            return state.tenants.get(command.name)
        case Deletable.PROJECT:
            return state.projects.get((command.tenant, command.name))
        case Deletable.VCLUSTER:
            return state.vclusters.get(command.name)
        case Deletable.NODE:
            return None
        case _:
            assert_never(command.what)


def _fields(old: Struct | None, new: Struct | None) -> Iterator[Change]:
    known = new if new is not None else old
    for field in fields(known) if known is not None else ():
        before = getattr(old, field.name, None) if old is not None else _default(field.default)
        after = getattr(new, field.name, None) if new is not None else _default(field.default)
        if before != after and field.name not in _SILENT:
            yield field.name, before, after


def _default(value: object) -> object:
    return value if isinstance(value, str | int | float | tuple | bool) else None


def described(changes: tuple[Change, ...], most: int) -> str:
    """The changes in one line of bounded length: every field is named; where they are many, values are cut."""
    for limit in (MAX_VALUE, 40, 12):
        line = "; ".join(
            f"{name}: {_shown(before, limit)} -> {_shown(after, limit)}" for name, before, after in changes
        )
        if len(line) <= most:
            return line
    return ", ".join(name for name, _, _ in changes)[:most]


def _shown(value: object, limit: int) -> str:
    if isinstance(value, tuple):
        text = ", ".join("=".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value)
    else:
        text = "" if value is None else str(value)
    text = text or "none"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
