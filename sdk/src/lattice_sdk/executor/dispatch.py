"""The threads behind an executor: one submits and cancels, one hears of ends and settles futures.

orders -> dispatcher: writes pickles, submits task groups, cancels
futures <- results in files <- monitor: one stream of events for everything that carries the executor's tag
"""

import contextlib
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from lattice_sdk.client import Client, new_request_id
from lattice_sdk.errors import LatticeError
from lattice_sdk.executor import task
from lattice_sdk.executor.chunks import Chunk, Group, TaskFailed
from lattice_sdk.executor.progress import ProgressLine
from lattice_sdk.models.records import GAP, TERMINAL_STATES, AllocationFilter
from lattice_sdk.specification import AllocationSpec

TAG = "lattice-executor"
GATHER_S = 0.01  # calls that are submitted within this time become one group
MAX_GROUP = 10_000
SLOTS_AGE_S = 10.0
RESULT_LATE_S = 5.0  # a shared file system may show a file later than the server reports the end
LAST_LINES = 20
READY = "Ready"


class Dispatcher:
    """Takes groups and settles their futures. `directory` is removed at the end."""

    def __init__(self, client: Client, spec: AllocationSpec, directory: Path, line: ProgressLine) -> None:
        self._client = client
        self._listening = client.twin()
        self._spec = spec
        self._directory = directory
        self._line = line
        self._label = new_request_id()[:16]
        self._orders: queue.SimpleQueue[Group | Chunk | None] = queue.SimpleQueue()
        self._asking = threading.Lock()  # a client belongs to one thread at a time
        self._changed = threading.Condition()
        self._tasks: dict[str, tuple[Group, int]] = {}  # open ones
        self._groups: set[str] = set()  # submitted and not ended
        self._is_submitting = False
        self._early: dict[
            str, list[tuple[str, str]]
        ] = {}  # by group: events that overtook the answer to its submission
        self._names: dict[str, str] = {}  # of tasks, by the number that events have
        self._open = 0  # chunks
        self._left = 0  # calls
        self._is_closed = False
        self._lost: LatticeError | None = None  # why ends are not heard of any more
        self._slots = (0.0, 0)
        self._watch = self._listening.watch(tags=[f"{TAG}={self._label}"], what=["allocation"])
        for work in (self._dispatch, self._monitor):
            threading.Thread(target=work, daemon=True).start()

    def order(self, group: Group) -> None:
        with self._changed:
            self._open += len(group.chunks)
            calls = sum(len(chunk.futures) for chunk in group.chunks)
            self._left += calls
            self._line.add(calls)
        for chunk in group.chunks:
            chunk.abandon = self._orders.put
        self._orders.put(group)

    def slots(self) -> int:
        """How many tasks the cluster could run at the same time; a guess where its nodes are not shown."""
        asked_at, count = self._slots
        if time.monotonic() - asked_at > SLOTS_AGE_S:
            with self._asking, contextlib.suppress(LatticeError):
                nodes = self._client.list_nodes()
                count = sum(max(1, node.cpus // max(1, self._spec.cpus)) for node in nodes if node.state == READY)
            self._slots = (time.monotonic(), count or 16)
        return self._slots[1]

    def open_chunks(self) -> list[Chunk]:
        with self._changed:
            return [group.chunks[index] for group, index in self._tasks.values()]

    def wait(self) -> None:
        """Until everything is settled."""
        with self._changed:
            while self._open:
                self._changed.wait(60.0)

    def close(self) -> None:
        """Cancellations that were ordered are still sent."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        self._orders.put(None)
        self._watch.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _dispatch(self) -> None:
        while True:
            order = self._orders.get()
            if order is None:
                self._client.close()
                return
            if isinstance(order, Chunk):
                self._cancel(order)
                continue
            extra = self._join(order)
            self._submit(order)
            for each in extra:
                self._orders.put(each)

    def _join(self, group: Group) -> list[Group | Chunk | None]:
        """Add what was ordered at the same time; returns what does not belong to it."""
        until = time.monotonic() + GATHER_S
        while group.may_be_joined and len(group.chunks) < MAX_GROUP:
            try:
                other = self._orders.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if not isinstance(other, Group) or not other.may_be_joined:
                return [other]
            group.chunks += other.chunks
        return []

    def _cancel(self, chunk: Chunk) -> None:
        if chunk.id and chunk.id in self._tasks:
            with self._asking, contextlib.suppress(LatticeError):
                self._client.cancel(chunk.id)

    def _submit(self, group: Group) -> None:
        forsaken = [chunk for chunk in group.chunks if chunk.is_forsaken]
        group.chunks = [chunk for chunk in group.chunks if not chunk.is_forsaken]
        self._settled(forsaken)
        if not group.chunks:
            return
        self._is_submitting = True
        try:
            if self._lost is not None:
                raise self._lost
            group.write(Path(tempfile.mkdtemp(dir=self._directory)), sys.path)
            with self._asking:
                group.id = self._client.submit(self._spec_of(group)).id
        except (LatticeError, OSError) as error:
            self._is_submitting = False
            for chunk in group.chunks:
                chunk.fail(chunk.futures, error)
            self._settled(group.chunks)
            return
        self._register(group)

    def _spec_of(self, group: Group) -> AllocationSpec:
        return msgspec.structs.replace(
            self._spec,
            entrypoint=[sys.executable, "-P", task.__file__, str(group.directory)],
            script=None,
            tasks=f"0-{len(group.chunks) - 1}",
            tags={**self._spec.tags, TAG: self._label},
            cwd=self._spec.cwd or os.getcwd(),
        )

    def _register(self, group: Group) -> None:
        with self._changed:
            for index, chunk in enumerate(group.chunks):
                chunk.id = f"{group.id}_{index}"
                self._tasks[chunk.id] = (group, index)
            early = self._early.pop(group.id, [])
            self._early.clear()
            self._groups.add(group.id)
            self._is_submitting = False
        for task_id, state in early:
            self._hear(group.id, task_id, state)
        for chunk in group.chunks:
            chunk.forsake()
        if self._lost is not None:
            self._lose(self._lost)

    def _monitor(self) -> None:
        try:
            for event in self._watch:
                if event.kind == GAP:
                    self._read_again()
                else:
                    self._hear(event.group_id or event.id, event.id, event.state)
        except LatticeError as error:
            self._lose(error)
        finally:
            self._listening.close()

    def _hear(self, group_id: str, event_id: str, state: str) -> None:
        """A task, or the group as a whole, is in this state now."""
        with self._changed:
            if group_id not in self._groups:
                if self._is_submitting:  # else it is of a group that has ended
                    self._early.setdefault(group_id, []).append((event_id, state))
                return
        if event_id != group_id:
            self._stands(self._task_id(group_id, event_id), state)
        elif state in TERMINAL_STATES:
            self._groups.discard(group_id)
            with self._changed:
                rest = [task_id for task_id, (group, _) in self._tasks.items() if group.id == group_id]
            for task_id in rest:  # those that never ran have no events of their own
                self._stands(task_id, state)

    def _task_id(self, group_id: str, event_id: str) -> str:
        """A task by group and index: once it has started, events name it by a number of its own."""
        if "_" in event_id:
            return event_id
        if event_id not in self._names:
            with self._listening.twin() as client:
                self._names[event_id] = f"{group_id}_{client.get_allocation(event_id).task_index}"
        return self._names[event_id]

    def _stands(self, task_id: str, state: str) -> None:
        with self._changed:
            found = self._tasks.get(task_id)
            if found is None:
                return
            group, index = found
            chunk = group.chunks[index]
            if state not in TERMINAL_STATES:
                chunk.is_running = state in ("Running", "Checkpointing")
                self._draw()
                return
            del self._tasks[task_id]
        self._await_file(group, index, state)
        chunk.settle(group.output_of(index), lambda: self._ending(task_id, state))
        self._settled([chunk])

    def _await_file(self, group: Group, index: int, state: str) -> None:
        deadline = time.monotonic() + RESULT_LATE_S
        while state == "Completed" and not group.output_of(index).exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _ending(self, task_id: str, state: str) -> BaseException:
        text, lines = f"{task_id} ended as {state} without a result", ""
        with contextlib.suppress(LatticeError), self._listening.twin() as client:
            text = client.get_allocation(task_id).ending or text
            lines = client.logs(task_id, stream="stderr", tail=LAST_LINES).decode(errors="replace").strip()
        error = TaskFailed(text)
        if lines:
            error.add_note(f"last lines of stderr:\n{lines}")
        return error

    def _read_again(self) -> None:
        """Events were lost: ask how the open tasks stand."""
        for group_id in list(self._groups):
            wanted = AllocationFilter(group=group_id, is_unfolded=True, is_archive_included=True)
            with self._listening.twin() as client:
                for each in client.iter_allocations(wanted):
                    self._stands(f"{group_id}_{each.task_index}", each.state)
                self._hear(group_id, group_id, client.get_allocation(group_id).state)

    def _lose(self, error: LatticeError) -> None:
        """Nothing will be heard of what is open, or is submitted from now on."""
        with self._changed:
            self._lost = error
            chunks = [group.chunks[index] for group, index in self._tasks.values()]
            self._tasks.clear()
        for chunk in chunks:
            chunk.fail(chunk.futures, error)
        self._settled(chunks)

    def _settled(self, chunks: list[Chunk]) -> None:
        with self._changed:
            self._open -= len(chunks)
            self._left -= sum(len(chunk.futures) for chunk in chunks)
            self._draw()
            self._changed.notify_all()

    def _draw(self) -> None:
        running = sum(group.chunks[index].is_running for group, index in self._tasks.values())
        self._line.show(self._left, running)
