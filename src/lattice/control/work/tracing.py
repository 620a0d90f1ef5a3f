"""Records what is submitted, starts and ends as JSON lines that can be replayed, while `scheduler.trace_capture` is set.

Each recording is a file of its own and begins with the nodes and with what waits and runs at that moment. What happens is
only noted on the event loop; lines are written elsewhere, so that a slow disk does not block the loop. A disk that fails ends the
recording, nothing else. Work in sensitive vClusters is never recorded.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TextIO

from msgspec.structs import replace

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import (
    AllocationEnded,
    AllocationStaged,
    AllocationStarted,
    AllocationSubmitted,
    AnyEvent,
    NodeRegistered,
    SettingSet,
    TaskGroupSubmitted,
)
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica
from lattice.wire.files.traces import (
    Completed,
    NodeListed,
    Started,
    Submitted,
    TracedAllocation,
    TracedNode,
    TraceLine,
    encode_trace_line,
)

LOOP = "tracing"
SETTING = "scheduler.trace_capture"
GATHER_S = 0.5
MAX_STAGED = 100_000
# Records stand for their lines until these are written: a group for one line per pending task.
Noted = TraceLine | Allocation | TaskGroup
_log = logging.getLogger(__name__)


class TraceCapture:
    """Writes to `directory`, which is made when it is needed."""

    def __init__(self, replica: Replica, clock: Clock, directory: Path) -> None:
        self._replica = replica
        self._clock = clock
        self._directory = directory
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._is_on = False
        self._noted: dict[Path, list[Noted]] = {}
        self._staged: dict[int, int] = {}  # when the data of work was there; numbers of allocations and groups
        self._file = directory
        self._writing = Lock()
        replica.subscribe(self._note_setting, of=(SettingSet,))
        replica.subscribe(self._note)
        self.reset()

    def reset(self) -> None:
        """Begins or ends a recording as the setting says; for the start, and when the state was replaced."""
        self._switch(setting_value(self._replica.state.settings, SETTING) == "true")

    async def run(self) -> None:
        try:
            await keep_turning(LOOP, self._turn)
        finally:
            with suppress(OSError):
                self._write(self._take())

    async def _turn(self) -> None:
        await self._alarm.wait(None)
        await asyncio.sleep(GATHER_S)
        await self.flush()

    async def flush(self) -> None:
        """Writes what was noted so far."""
        try:
            await asyncio.to_thread(self._write, self._take())
        except OSError as error:
            _log.warning("the trace ends here, it cannot be written: %s", error)
            self._is_on = False
            self._noted = {}

    def _take(self) -> dict[Path, list[Noted]]:
        taken, self._noted = self._noted, {}
        return taken

    def _write(self, noted: Mapping[Path, list[Noted]]) -> None:
        with self._writing:
            for file, lines in noted.items():
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                number = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
                with os.fdopen(number, "a", encoding="utf-8") as opened:
                    for record in lines:
                        self._write_record(record, opened)

    def _write_record(self, record: Noted, opened: TextIO) -> None:
        """A record that has no line is left out; a disk that fails is another matter."""
        text: list[str] = []
        with self._guard.item(type(record).__name__):
            text = [encode_trace_line(line) for line in _unfolded([record])]
        opened.writelines(text)

    def _switch(self, is_on: bool) -> None:
        if is_on and not self._is_on:
            now_ms = self._clock.now_ms()
            stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
            self._file = self._directory / f"{stamp}-{self._replica.applied_index}.jsonl"
            self._noted[self._file] = _present(self._replica.state, now_ms)
        self._is_on = is_on
        self._staged = {}
        self._alarm.ring()

    def _note_setting(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, SettingSet) and event.key == SETTING:
                self._switch(event.value == "true")

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        if not self._is_on:
            return
        state = self._replica.state
        lines: list[Noted] = []
        for event in events:
            with self._guard.item(type(event).__name__):
                if isinstance(event, AllocationStaged):
                    self._note_staged(event.number, envelope.at)
                line = _line(state, event, envelope.at)
                if isinstance(line, Started) and isinstance(event, AllocationStarted):
                    line = self._with_staging(line, state.allocations[event.number])
                lines += [] if line is None else [line]
        if lines:
            self._noted.setdefault(self._file, []).extend(lines)
            self._alarm.ring()

    def _note_staged(self, number: int, at: int) -> None:
        if len(self._staged) >= MAX_STAGED:  # of work that never started
            self._staged.pop(next(iter(self._staged)))
        self._staged[number] = at

    def _with_staging(self, line: Started, record: Allocation) -> Started:
        """With how long its data took, where that was seen; a later run does not wait for it again."""
        staged_at = self._staged.pop(record.number, 0) or self._staged.get(record.group, 0)
        waited_s = max(0, staged_at - max(record.submitted_at, record.eligible_at)) / 1000
        return replace(line, staging=waited_s) if waited_s else line


def _line(state: State, event: AnyEvent, at: int) -> Noted | None:
    match event:
        case AllocationSubmitted():
            return None if _is_sensitive(state, event.allocation) else event.allocation
        case TaskGroupSubmitted():
            return None if _is_sensitive(state, event.group.template) else event.group
        case AllocationStarted():
            record = state.allocations[event.number]
            if _is_sensitive(state, record):
                return None
            return Started(ts=at / 1000, alloc_id=allocation_id(event.number), nodes=record.nodes)
        case AllocationEnded():
            record = state.allocations[event.number]
            if _is_sensitive(state, record):
                return None
            length = (record.ended_at - record.started_at) / 1000 if record.started_at else None
            return Completed(
                ts=at / 1000,
                alloc_id=allocation_id(event.number),
                duration=length,
                exit=event.exit_code,
                cause=event.cause,
            )
        case NodeRegistered():
            return _node(event.node, event.hardware, at)
        case _:
            return None


def _is_sensitive(state: State, record: Allocation) -> bool:
    vcluster = state.vclusters.get(record.vcluster)
    return vcluster is not None and vcluster.scheduler == SENSITIVE


def _present(state: State, now_ms: int) -> list[Noted]:
    """The nodes, and what waits or runs."""
    return [
        *(_node(node.id, node.hardware, now_ms) for node in state.nodes.values()),
        *(group for group in state.groups.values() if group.pending and not _is_sensitive(state, group.template)),
        *(
            record
            for record in state.allocations.values()
            if not record.is_terminal and not _is_sensitive(state, record)
        ),
    ]


def _unfolded(noted: Iterable[Noted]) -> Iterator[TraceLine]:
    for line in noted:
        if isinstance(line, TaskGroup):
            for first, last in line.pending:
                for position in range(first, last):
                    yield _submitted(line.template, line.number + 1 + position)
        elif isinstance(line, Allocation):
            yield _submitted(line)
            if line.started_at and line.is_holding:
                yield Started(ts=line.started_at / 1000, alloc_id=allocation_id(line.number), nodes=line.nodes)
        else:
            yield line


def _submitted(record: Allocation, number: int = 0) -> Submitted:
    request = record.request
    asked = TracedAllocation(
        id=allocation_id(number or record.number),
        nodes=request.nodes,
        cpus=request.cpus,
        memory_mb=request.memory_mb,
        gpus=request.gpus,
        gpu_type=request.gpu_type,
        features=request.features,
        walltime=float(record.walltime_s),
        name=record.name,
        user=record.user,
        tenant=record.tenant,
        project=record.project,
        vcluster=record.vcluster,
        priority=record.preemption_class,
    )
    return Submitted(ts=max(record.submitted_at, record.eligible_at) / 1000, alloc=asked)


def _node(name: str, hardware: Hardware, at: int) -> NodeListed:
    node = TracedNode(
        id=name,
        cpus=hardware.cpus,
        memory_mb=hardware.memory_mb,
        gpus=hardware.gpus,
        gpu_type=hardware.gpu_type,
        group=hardware.group,
        features=hardware.features,
    )
    return NodeListed(ts=at / 1000, node=node)
