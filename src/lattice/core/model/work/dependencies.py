"""What an allocation waits for before it may start, and what a predecessor's end means for that.

Dependencies are clauses, all of which must be met; a clause is met by any one of its alternatives. What is still open stands
in `waits_for`: a clause that was met is gone from it, an alternative that never can be met as well, and a clause without
alternatives means that the allocation can never start. See docs/architecture/dependencies.md.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.intervals import Intervals


class Condition(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"
    CORRESPONDING = "corresponding"  # task by task, between two groups
    AFTER = "after"  # it has started, or ended without
    MUTEX = "mutex"  # the one before it under the same mutex has ended; made by the rules, never asked for


class Ending(StrEnum):
    """How a predecessor ended, as far as its successors care."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # cancelled because its own dependencies could not be met


class Dependency(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One alternative: the allocation, task, group or DAG with this number ended (or started) as `condition` says."""

    number: int
    condition: Condition = Condition.SUCCESS
    delay_s: int = 0  # with AFTER: delay after the start
    is_dag: bool = False

    @property
    def label(self) -> str:
        return dag_id(self.number) if self.is_dag else allocation_id(self.number)


Clause = tuple[Dependency, ...]
Clauses = tuple[Clause, ...]


class EndedWork(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How a predecessor ended that may have left the hot state; looked up by the proposer of the submission.

    Of a group that corresponding tasks wait for also its indices, and the positions of the tasks that completed.
    """

    number: int
    ending: Ending
    indices: tuple[tuple[int, int, int], ...] = ()
    completed: Intervals = ()


class TaskWait(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tasks of a group that wait for the task of the same index in group `number`; `indices` are those of that group."""

    number: int
    indices: tuple[tuple[int, int, int], ...]
    blocked: Intervals = ()


Ranges = tuple[tuple[int, int, int], ...]  # of task indices: first, last, step

# The ranges that were asked for last, and the position at which each of them starts: a group is mostly asked for task by task.
_last_starts: tuple[Ranges, list[int]] = ((), [0])


def _starts(indices: Ranges) -> list[int]:
    """The position at which each range starts, and how many there are in all."""
    global _last_starts
    known, starts = _last_starts
    if known is not indices:
        starts = [0]
        for first, last, step in indices:
            starts.append(starts[-1] + (last - first) // step + 1)
        _last_starts = (indices, starts)
    return starts


def index_at(indices: tuple[tuple[int, int, int], ...], position: int) -> int:
    """The task index at a place in the ranges (first, last, step) of a group."""
    starts = _starts(indices)
    place = bisect_right(starts, position) - 1
    if position < 0 or position >= starts[-1]:
        raise IndexError(position)
    first, _, step = indices[place]
    return first + (position - starts[place]) * step


def position_in(indices: tuple[tuple[int, int, int], ...], index: int) -> int | None:
    """The place of a task index in the ranges (first, last, step) of a group; None when it is not among them."""
    offset = 0
    for first, last, step in indices:
        if first <= index <= last and (index - first) % step == 0:
            return offset + (index - first) // step
        offset += (last - first) // step + 1
    return None


def is_met(condition: Condition, ending: Ending | None, *, is_started: bool = False) -> bool | None:
    """Whether the condition holds: True, False when it never will, None while that is open."""
    if ending is None:
        return True if condition is Condition.AFTER and is_started else None
    if condition in (Condition.SUCCESS, Condition.CORRESPONDING):
        return ending is Ending.COMPLETED
    if condition is Condition.FAILURE:
        # What was skipped did not fail: a handler for the failure of a handler that was not needed is not needed either.
        return ending in (Ending.FAILED, Ending.CANCELLED)
    return True


def without(clauses: Clauses, dependency: Dependency, verdict: bool | None) -> Clauses:
    """The clauses that are left once the dependency is met, or never can be."""
    if verdict is None:
        return clauses
    if verdict:
        return tuple(clause for clause in clauses if dependency not in clause)
    return tuple(tuple(each for each in clause if each != dependency) for clause in clauses)


def renumbered(clauses: Clauses, dependency: Dependency, number: int) -> Clauses:
    """The clauses with another predecessor in the place of this one."""
    other = replace(dependency, number=number)
    return tuple(tuple(other if each == dependency else each for each in clause) for clause in clauses)


def numbers_in(clauses: Clauses) -> list[int]:
    """Each predecessor once, in order of mention."""
    return list(dict.fromkeys(each.number for clause in clauses for each in clause))


def is_hopeless(clauses: Clauses) -> bool:
    return () in clauses


_WAITING = {
    Condition.SUCCESS: "{} to complete",
    Condition.CORRESPONDING: "the corresponding task of {} to complete",
    Condition.FAILURE: "{} to fail",
    Condition.ANY: "{} to end",
    Condition.AFTER: "{} to start",
    Condition.MUTEX: "{}, which has the same mutex, to end",
}
HOPELESS = "its dependency can never be satisfied"
_SHOWN = 5  # clauses that a sentence names
_NO_NAMES: Mapping[int, str] = {}


def waiting_sentence(clauses: Clauses, names: Mapping[int, str] = _NO_NAMES) -> str:
    """What the open clauses wait for, in words; empty when there are none. `names`, by number, stand in the place of ids."""
    if not clauses:
        return ""
    if is_hopeless(clauses):
        return HOPELESS
    shown = [
        " or ".join([_WAITING[each.condition].format(names.get(each.number) or each.label) for each in clause])
        for clause in clauses[:_SHOWN]
    ]
    more = f" and {len(clauses) - _SHOWN} more" if len(clauses) > _SHOWN else ""
    return f"waiting for {', and for '.join(shown)}{more}"


def find_cycle(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """Names along one cycle, the first one repeated at the end; empty when there is none. Linear in names and needs."""
    done: set[str] = set()
    path: dict[str, None] = {}
    for root in needs:
        stack = [] if root in done else [(root, iter(needs[root]))]
        path = dict.fromkeys(name for name, _ in stack)
        while stack:
            name, rest = stack[-1]
            after = next((each for each in rest if each in needs and each not in done), None)
            if after is None:
                done.add(name)
                path.pop(name)
                stack.pop()
            elif after in path:
                names = list(path)
                # Needs point backwards; people read a cycle in the direction in which work would flow.
                return [after, *reversed(names[names.index(after) :])]
            else:
                path[after] = None
                stack.append((after, iter(needs[after])))
    return []
