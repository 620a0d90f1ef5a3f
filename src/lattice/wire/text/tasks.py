"""Task lists as people write them: `0-99`, `0-99:2`, `1,3,5-9`, each with `%N` for the maximum number of concurrent tasks.

Tasks of a group are named `a17_3`, several of them `a17_[3-7,9]` or `a17_3-7`.
"""

import re

from msgspec import Struct

from lattice.core.model import intervals
from lattice.core.model.ids import parse_allocation_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import TaskGroup
from lattice.wire.text.problems import BadField

MAX_TASKS = 100_000
MAX_INDEX = 999_999_999
MAX_BLOCKS = 10_000
MAX_PIECES = 1_000
MAX_COMPARED = 100_000
MAX_SINGLES = 60_000
_ITEM = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_HINT = "write 0-99, 0-99:2, 1,3,5-9 or 0-99%20 (at most 20 at a time)"

_SET_HINT = "name tasks as a17_3, a17_3-7, a17_[3-7,9] or a17_[0-98:2]"
_SHOWN_PIECES = 8

Blocks = tuple[tuple[int, int, int], ...]


class TaskRange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range of task indices as an object; both ends are included."""

    start: int = 0
    end: int
    step: int = 1
    concurrency: int = 0


def read_tasks(wanted: "str | TaskRange | None") -> tuple[Blocks, int]:
    """Blocks and the concurrency limit, in either notation; nothing for None. Raises BadField."""
    if wanted is None:
        return (), 0
    if isinstance(wanted, str):
        return parse_tasks(wanted)
    if min(wanted.start, wanted.end, wanted.concurrency) < 0:
        raise BadField("tasks", "start, end and concurrency cannot be negative", hint=_HINT)
    limit = f"%{wanted.concurrency}" if wanted.concurrency else ""
    return parse_tasks(f"{wanted.start}-{wanted.end}:{max(0, wanted.step)}{limit}")


def parse_tasks(text: str) -> tuple[Blocks, int]:
    """Blocks of (first, last, step) in the order written, and the concurrency limit (0 = none). Raises BadField."""
    listed, percent, most = text.strip().partition("%")
    concurrency = 0
    if percent:
        if not (most.isascii() and most.isdigit() and len(most) < 10 and int(most) > 0):
            raise BadField("tasks", f'cannot read "%{most[:40]}"', hint=_HINT)
        concurrency = int(most)
    items = listed.split(",")
    if len(items) > MAX_BLOCKS:
        limit = f"{MAX_BLOCKS:,} pieces"
        raise BadField("tasks", "too many single ranges", current=f"{len(items):,} pieces", limit=limit, hint=_HINT)
    blocks = tuple(_block(item) for item in items)
    size = sum((last - first) // step + 1 for first, last, step in blocks)
    if size > MAX_TASKS:
        raise BadField("tasks", "too many tasks", current=f"{size:,} tasks", limit=f"{MAX_TASKS:,} tasks")
    _refuse_repeats(blocks)
    return blocks, min(concurrency, size)


def _block(item: str) -> tuple[int, int, int]:
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        raise BadField("tasks", f'cannot read "{item.strip()[:40]}"', hint=_HINT)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise BadField("tasks", f"{first}-{last} runs backwards", hint=_HINT)
    if last > MAX_INDEX:
        raise BadField("tasks", f"index {last} is too large", limit=f"{MAX_INDEX:,}")
    if step < 1:
        raise BadField("tasks", "a step of 0 never ends", hint=_HINT)
    return first, last - (last - first) % step, step


def _refuse_repeats(blocks: Blocks) -> None:
    if len(blocks) == 1:
        return
    seen: set[int] = set()
    for first, last, step in blocks:
        block = range(first, last + 1, step)
        if not seen.isdisjoint(block):
            twice = min(seen.intersection(block))
            raise BadField("tasks", f"index {twice} occurs twice", hint=_HINT)
        seen.update(block)


def parse_task_set(text: str) -> tuple[int, Blocks] | None:
    """Group number and the blocks of indices of `a17_[3-7,9]` or `a17_3-7`; None when several tasks are not meant.

    Raises BadField when they are and cannot be read.
    """
    head, separator, tail = text.partition("_")
    number = parse_allocation_id(head)
    if number is None or not separator or (tail.isascii() and tail.isdigit()):
        return None
    listed = tail[1:-1] if tail.startswith("[") and tail.endswith("]") else tail
    pieces = listed.count(",") + 1
    if pieces > MAX_PIECES:
        limit = f"{MAX_PIECES:,} pieces"
        raise BadField("", f'"{text[:60]}" names too many tasks', current=f"{pieces:,} pieces", limit=limit)
    try:
        return number, tuple(_block(item) for item in listed.split(","))
    except BadField as problem:
        why = str(problem).removeprefix(f"{problem.field}: ")
        raise BadField("", f'cannot read "{text[:60]}": {why}', hint=_SET_HINT) from None


def positions_named(group: TaskGroup, blocks: Blocks, name: str) -> Intervals:
    """Where the tasks of these indices lie in the group. Raises BadField when one is named that it does not have."""
    if len(blocks) * len(group.indices) > MAX_COMPARED:
        hint = "name them in several requests"
        raise BadField("", f"{name} has tasks in too many ranges for as many pieces", hint=hint)
    # With steps every task is an interval of its own.
    singles = sum(min(group.size, (last - first) // step + 1) for first, last, step in blocks if step > 1)
    if singles > MAX_SINGLES:
        raise BadField("", f"{name}: names too many single tasks", current=f"{singles:,}", limit=f"{MAX_SINGLES:,}")
    found: list[tuple[int, int]] = []
    for first, last, step in blocks:
        piece = group.positions_of(first, last, step)
        if not piece:
            named = str(first) if first == last else f"{first}-{last}"
            raise BadField("", f"{name} has no task {named}", current=f"its tasks are {indices_text(group)}")
        found += piece
    return intervals.joined(found)


def indices_text(group: TaskGroup, wanted: Intervals | None = None) -> str:
    """The indices at these positions (of all tasks, if none are given) as people write them, cut short when there are many."""
    pieces: list[str] = []
    offset = 0
    for first, last, step in group.indices:
        count = (last - first) // step + 1
        inside = intervals.intersection(((offset, offset + count),), ((0, group.size),) if wanted is None else wanted)
        for start, stop in inside[: _SHOWN_PIECES + 1]:
            low, high = first + (start - offset) * step, first + (stop - 1 - offset) * step
            pieces.append(_piece(low, high, step))
        offset += count
    cut = pieces[:_SHOWN_PIECES]
    return ",".join([*cut, "..."] if len(pieces) > len(cut) else cut)


def _piece(low: int, high: int, step: int) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" if step == 1 else f"{low}-{high}:{step}"
