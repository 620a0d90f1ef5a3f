"""Tasks of a group as few bars: on each node, those that follow one another closely are one."""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from lattice.core.model.work.allocations import Allocation, AllocationState

NO_END = 2**62

BarKind = Literal["past", "running", "predicted"]


class Span(Struct, frozen=True):
    """Where and when an allocation ran, runs or is predicted to run; `end` 0 = it has none."""

    record: Allocation
    kind: BarKind
    start: int
    end: int
    nodes: tuple[str, ...]
    tasks: int | None = None  # of a folded one, of which `failed` failed
    failed: int | None = None


class _Run:
    """Tasks of one kind that follow one another on a node."""

    __slots__ = ("end", "failed", "last", "start", "tasks")

    def __init__(self, span: Span) -> None:
        self.start, self.end, self.tasks, self.failed, self.last = span.start, 0, 0, 0, span
        self.take(span)

    def take(self, span: Span) -> None:
        self.end = max(self.end, span.end or NO_END)
        self.tasks += 1
        self.failed += span.record.state is AllocationState.FAILED
        self.last = span


def folded(spans: Iterable[Span], reach_ms: int) -> Iterator[Span]:
    """The same, with tasks of a group that lie no farther apart than this on a node as one; nodes with the same bars share them."""
    groups: dict[tuple[int, BarKind], list[Span]] = {}
    for span in spans:
        if span.record.group:
            groups.setdefault((span.record.group, span.kind), []).append(span)
        else:
            yield span
    for tasks in groups.values():
        yield from _of_group(tasks, reach_ms)


def _of_group(tasks: list[Span], reach_ms: int) -> Iterator[Span]:
    runs: dict[str, list[_Run]] = {}
    for task in sorted(tasks, key=lambda span: span.start):
        for node in task.nodes:
            known = runs.setdefault(node, [])
            if known and task.start <= known[-1].end + reach_ms:
                known[-1].take(task)
            else:
                known.append(_Run(task))
    alike: dict[tuple[int, int, int, int], tuple[_Run, list[str]]] = {}
    for node, known in runs.items():
        for run in known:
            alike.setdefault((run.start, run.end, run.tasks, run.failed), (run, []))[1].append(node)
    for run, nodes in alike.values():
        end = 0 if run.end >= NO_END else run.end
        yield Span(run.last.record, run.last.kind, run.start, end, tuple(nodes), run.tasks, run.failed)
