"""Records in one line each: what differs from the default, in the order of the fields, times counted from the beginning."""

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import fields

from lattice.core.machine.outcomes import Rejected
from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.work.allocations import Allocation, Part, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.dependencies import Dependency
from lattice.ports.nodes.agents import RunKey

NUMBERS = frozenset({"number", "group", "holder", "numbers", "lost", "members"})
OF_ALLOCATIONS = (
    "run parts hold waits_for intent lost_node requeue_count restart_count avoided started_at paused_at deadline_at "
    "ended_at cause exit_code signal message"
)
OF_NODES = "holder claimant vcluster down_cause drain_wanted reason reason_by boot_failures wipe"


class Wording:
    """`began_at` is the moment from which times are counted, in milliseconds."""

    def __init__(self, began_at: int) -> None:
        self._began_at = began_at

    def line(self, record: msgspec.Struct, name: str = "", *, leave: Iterable[str] = ()) -> str:
        """A command, event, stimulus or instruction."""
        shown = [field.name for field in fields(record) if field.name not in leave]
        return " ".join([name or _name(record), *self._pairs(record, shown)])

    def refusal(self, refused: Rejected) -> str:
        more = self._of(refused, "code", "message")
        return f"refused ({refused.code}): {refused.message}" + (f" ({more})" if more else "")

    def record(self, record: Allocation | TaskGroup | Node | Dag) -> str:
        """What became of it."""
        match record:
            case Allocation():
                named = [allocation_id(record.number), record.state.value]
                return " ".join([*named, *self._pairs(record, OF_ALLOCATIONS.split())])
            case Node():
                return " ".join([record.id, record.state.value, *self._pairs(record, OF_NODES.split())])
            case Dag():
                return " ".join(
                    [dag_id(record.number), record.state.value, *self._pairs(record, ["members", "counts"])]
                )
            case TaskGroup():
                return self._group(record)

    def _group(self, group: TaskGroup) -> str:
        words = [allocation_id(group.number), "group", *self._pairs(group.template, ["hold"])]
        for name in ("pending", "held", "held_by_operator", "blocked"):
            words += [f"{name}={_indices(group, getattr(group, name))}"] if getattr(group, name) else []
        if group.given_up:
            words.append(f"given_up={_indices(group, tuple((each.start, each.stop) for each in group.given_up))}")
        counts = ["concurrency", "live", "holding", "completed", "failed", "cancelled", "cause", "exit_code"]
        return " ".join([*words, *self._pairs(group, counts)])

    def _pairs(self, record: msgspec.Struct, names: Iterable[str]) -> list[str]:
        defaults = {field.name: field.default for field in fields(record)}
        pairs: list[str] = []
        for name in names:
            value = getattr(record, name)
            if value is None or value == defaults[name] or value in ((), {}, b"") or isinstance(value, bytes):
                continue
            pairs.append(name if value is True else f"{name}={self._value(name, value)}")
        return pairs

    def _value(self, name: str, value: object) -> str:  # noqa: C901, PLR0912 - one arm per kind
        match value:
            case bool():
                return str(value).lower()
            case Enum():
                return str(value.value) or '""'
            case RunKey():
                return str(value)
            case Allocation() | TaskGroup():
                return allocation_id(value.number)
            case Dag():
                return dag_id(value.number)
            case Dependency():
                return f"{value.label}:{value.condition.value}"
            case Share():
                return value.node if value.whole else f"{value.node}({self._of(value, 'node', 'whole')})"
            case Part():
                more = self._of(value, "node", "phase", "seq")
                return f"{value.node}:{value.phase.value}" + (f"({more})" if more else "")
            case msgspec.Struct():
                return "{" + self._of(value) + "}"
            case int() if name == "dag":
                return dag_id(value)
            case int() if name in NUMBERS:
                return allocation_id(value)
            case int() if name.endswith("_at") or name == "since":
                return f"{(value - self._began_at) / 1000:+g}s" if value else "0"
            case float():
                return f"{value:g}"
            case dict():
                return ",".join(f"{self._value('', k)}:{self._value('', v)}" for k, v in sorted(value.items()))
            case frozenset():
                return ",".join(self._value(name, each) for each in sorted(value))
            case tuple():
                return self._several(name, value)
            case _:
                text = str(value)
                return text if text and " " not in text else json.dumps(text)

    def _several(self, name: str, values: tuple[Any, ...]) -> str:
        """Clauses read `a1:success|a2:any,a3:success`; pairs are joined by colons."""
        if values and isinstance(values[0], tuple):
            within = "|" if name == "waits_for" else ":"
            return ",".join(within.join(self._value(name, each) for each in pair) or "never" for pair in values)
        return ",".join(self._value(name, each) for each in values)

    def _of(self, record: msgspec.Struct, *leave: str) -> str:
        return " ".join(self._pairs(record, [field.name for field in fields(record) if field.name not in leave]))


def _name(record: msgspec.Struct) -> str:
    tag = record.__struct_config__.tag
    return tag if isinstance(tag, str) else type(record).__name__


def _indices(group: TaskGroup, positions: Intervals) -> str:
    """Task indices one by one: scenarios are small, and groups have holes."""
    return ",".join(str(group.index_at(place)) for start, stop in positions for place in range(start, stop))
