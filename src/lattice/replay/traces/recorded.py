"""Our own trace: the lines of `lattice.wire.files.traces` joined to one entry per allocation."""

import math

from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.replay.traces.entries import BadLine, Entry, Trace
from lattice.wire.files.traces import (
    BadTraceLine,
    Completed,
    Moment,
    NodeListed,
    Span,
    Started,
    Submitted,
    TracedNode,
    decode_trace_line,
)
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import parse_moment


class RecordedLines:
    """Takes the lines of one recording. Starts and ends of what was submitted before the recording began are skipped.

    The unit is the node unless some work requests CPUs; then it is the CPU, and work without a request has whole nodes.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._submitted: dict[str, Submitted] = {}
        self._started_s: dict[str, int] = {}
        self._run_s: dict[str, int] = {}
        self._staging_s: dict[str, int] = {}
        self._nodes: dict[str, TracedNode] = {}

    def take(self, line: str) -> None:
        if not line.strip():
            return
        try:
            found = decode_trace_line(line)
        except BadTraceLine as error:
            raise BadLine(str(error)) from None
        _seconds(found.ts)
        match found:
            case Submitted():
                self._submit(found)
            case Started():
                self._started_s[found.alloc_id] = _seconds(found.ts)
                if staging := _span(found.staging):
                    self._staging_s[found.alloc_id] = staging
            case Completed():
                self._complete(found)
            case NodeListed():
                self._nodes[found.node.id] = found.node

    def finish(self) -> None:
        in_cpus = any(line.alloc.cpus or line.alloc.procs for line in self._submitted.values())
        widest = max((node.cpus for node in self._nodes.values()), default=1) if in_cpus else 1
        self._trace.entries.extend(self._entry(line, widest) for line in self._submitted.values())
        self._trace.nodes_total = len(self._nodes)
        self._trace.procs_total = sum(node.cpus for node in self._nodes.values()) if in_cpus else len(self._nodes)

    def _submit(self, line: Submitted) -> None:
        if line.alloc.id in self._submitted:
            raise BadLine(f'allocation "{line.alloc.id}" was submitted before')
        _span(line.alloc.walltime)
        self._submitted[line.alloc.id] = line

    def _complete(self, line: Completed) -> None:
        if line.duration is not None:
            self._run_s[line.alloc_id] = _span(line.duration)
        elif line.alloc_id in self._started_s:
            self._run_s[line.alloc_id] = max(0, _seconds(line.ts) - self._started_s[line.alloc_id])

    def _entry(self, line: Submitted, whole_node: int) -> Entry:
        asked = line.alloc
        return Entry(
            id=asked.id,
            submit=_seconds(line.ts),
            run=self._run_s.get(asked.id, -1),
            procs=asked.procs or asked.nodes * (asked.cpus or whole_node),
            estimate=_span(asked.walltime) or -1,
            start=self._started_s.get(asked.id, -1),
            staging=self._staging_s.get(asked.id, 0),
            nodes=asked.nodes,
            user=asked.user,
            name=asked.name,
            tenant=asked.tenant,
            project=asked.project,
            preemption_class=asked.priority,
        )


def _seconds(moment: Moment) -> int:
    if isinstance(moment, str):
        try:
            return parse_moment(moment, "ts") // 1000
        except BadField as error:
            raise BadLine(str(error)) from None
    if not math.isfinite(moment):
        raise BadLine("ts is no number")
    return math.floor(moment)


def _span(span: Span) -> int:
    if isinstance(span, str):
        try:
            return parse_duration_s(span)
        except BadUnit as error:
            raise BadLine(str(error)) from None
    if not math.isfinite(span) or span < 0:
        raise BadLine(f"a duration of {span} s is not possible")
    return math.ceil(span)
