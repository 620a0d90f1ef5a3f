"""`lattice logs --step`: what the tasks of a step wrote, of one rank or of all."""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError
from lattice.cli.views.log_lines import LineBuffer, Pattern
from lattice.cli.views.task_output import MergedOutput
from lattice_sdk.step_streams import STDERR, STDOUT, OutputGap, TaskOutput

ENDED = "ended"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of a step is shown."""

    rank: int | None = None
    node: str = ""
    streams: tuple[str, ...] = ("stdout", "stderr")
    tail: int | None = None  # of each stream and node
    pattern: Pattern


def show_step(context: Context, allocation: str, number: int, wanted: Wanted, *, follow: bool) -> int:
    """Prints from the beginning of what its nodes keep; with `follow` until the step has ended."""
    step = context.client.get_step(allocation, number)
    if step.state != ENDED and not follow:
        raise CommandError(f"{step.id} is {step.state}", hint="--follow prints its output until it ends")
    if wanted.rank is not None and not 0 <= wanted.rank < max(step.tasks, 1):
        raise CommandError(f"{step.id} has no rank {wanted.rank}", hint=f"its ranks are 0 to {max(step.tasks, 1) - 1}")
    if wanted.node and wanted.node not in step.nodes:
        raise CommandError(
            f"{step.id} has no tasks on {wanted.node}",
            hint=f"its nodes: {', '.join(step.nodes[:20])}" if step.nodes else "it has no nodes yet",
        )
    place = step.nodes.index(wanted.node) if wanted.node else None
    shown = {STDOUT: context.streams.stdout, STDERR: context.streams.stderr}
    are_shown = {STDOUT: "stdout" in wanted.streams, STDERR: "stderr" in wanted.streams}
    output = MergedOutput(shown, step.tasks, label=step.tasks > 1 and wanted.rank is None, raw=False)
    chosen = _Chosen(wanted.tail, wanted.pattern)
    stream = context.client.follow_step(allocation, number)
    try:
        for event in stream:
            if place not in (None, stream.node):
                continue
            if isinstance(event, TaskOutput):
                if are_shown[event.stream] and wanted.rank in (None, event.rank):
                    for data in chosen.take(event, stream.node):
                        output.write(event.rank, event.stream, data)
            elif isinstance(event, OutputGap):
                context.warn(f"{event.size:,} bytes of output are not kept any more")
        for line in chosen.rest():
            output.write(line.rank, line.stream, line.data)
        output.finish()
    finally:
        stream.close()
    return OK


class _Line(NamedTuple):
    number: int
    rank: int
    stream: int
    data: bytes


class _Chosen:
    """The bytes as they come, or whole lines: those that match, of the last `tail` of each stream and node once all is there."""

    def __init__(self, tail: int | None, pattern: Pattern) -> None:
        self._tail = tail
        self._pattern = pattern
        self._buffers: defaultdict[tuple[int, int, int], LineBuffer] = defaultdict(LineBuffer)
        self._last: defaultdict[tuple[int, int], deque[_Line]] = defaultdict(lambda: deque(maxlen=tail))
        self._numbers = count()

    def take(self, output: TaskOutput, node: int) -> Iterator[bytes]:
        """What is to be shown now."""
        if self._tail is None and not self._pattern:
            yield output.data
            return
        for line in self._buffers[output.rank, output.stream, node].feed(output.data):
            if self._tail is None:
                if self._pattern.matches(line):
                    yield line
            else:
                self._keep(output.rank, output.stream, node, line)

    def rest(self) -> list[_Line]:
        """What is to be shown at the end, in the order in which it came."""
        for (rank, stream, node), buffer in self._buffers.items():
            if line := buffer.rest():
                self._keep(rank, stream, node, line)
        kept = sorted(line for lines in self._last.values() for line in lines)
        return [line for line in kept if self._pattern.matches(line.data)]

    def _keep(self, rank: int, stream: int, node: int, line: bytes) -> None:
        self._last[stream, node].append(_Line(next(self._numbers), rank, stream, line))
