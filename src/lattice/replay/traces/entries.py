"""One allocation of the past, and what can be wrong with a trace.

Errors of this boundary::

    TraceError           the trace cannot be replayed: missing, damaged, empty, machine of unknown size
    └── BadLine          one line cannot be read; the reader may skip it
"""

from dataclasses import dataclass, field

from msgspec import Struct


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """Whole seconds on the trace's own clock; -1 = unknown."""

    id: str
    submit: int
    run: int = -1
    procs: int = -1
    estimate: int = -1
    start: int = -1  # as it was, not as it is replayed
    staging: int = 0  # after the submission its data was not there yet
    nodes: int = -1
    user: str = ""
    name: str = ""
    tenant: str = ""
    project: str = ""
    preemption_class: int = 5
    queue: str = ""
    partition: str = ""

    @property
    def queued(self) -> int:
        """When it joins the queue: work whose data is being staged is not in it."""
        return self.submit + self.staging


@dataclass(kw_only=True, slots=True)
class Trace:
    """What was read. `procs_total` and `nodes_total` are what the trace itself says of its machine, 0 = nothing."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    procs_total: int = 0
    nodes_total: int = 0
    skipped: int = 0


class TraceError(Exception):
    """The trace cannot be replayed; the text says why."""


class BadLine(TraceError):
    """One line cannot be read; the text says why, the reader knows where."""
