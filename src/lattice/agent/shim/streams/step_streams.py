"""What the tasks of a step write and read: from their pipes and terminals into the journal, and from its users to them.

Output waits in its pipe while readers are far behind, as long as there are readers. Input waits here, up to a limit, until every
task that takes it has it.
"""

from __future__ import annotations

import binascii
import errno
import functools
import os
import select
from collections.abc import Callable

from lattice.agent.shim.journal import SHAPE, WINDOW
from lattice.agent.shim.launch import integer
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.output import CHUNK_BYTES, DRAIN_BYTES
from lattice.agent.shim.step import END_OF_INPUT, Step, Task, set_window

Body = dict[str, object]

# How far writers may be ahead of readers, and for how long they wait for readers that are away.
WINDOW_BYTES = 16 << 20
HOLD_S = 60.0
MARK_BYTES = 16 << 10


class StepStreams:
    """`tell` sends an event to the agent."""

    def __init__(self, loop: Loop, tell: Callable[[Body], None]) -> None:
        self._loop = loop
        self._tell = tell

    # Output.

    def watch_output(self, step: Step, task: Task, fd: int) -> None:
        self._loop.watch(fd, select.EPOLLIN, functools.partial(self._output_came, step, task, fd))

    def _output_came(self, step: Step, task: Task, fd: int, _mask: int) -> None:
        """Copy a piece, or stop watching while readers are too far behind: the writer then waits in its own `write`."""
        if step.journal.end - step.read_upto > WINDOW_BYTES and boot_now() < step.hold_until:
            self._loop.unwatch(fd)
            step.held.append((task, fd))
            if len(step.held) == 1:
                self._loop.call_at(step.hold_until, lambda: self._resume(step))
            return
        if not self._copy(step, task, fd):
            self._loop.unwatch(fd)
            if fd != task.input_fd:
                os.close(fd)
            del task.outputs[fd]

    def _copy(self, step: Step, task: Task, fd: int) -> int:
        """Moves what is there into the journal; 0 at the end of the stream, -1 when there is nothing yet."""
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return -1
        except OSError as error:
            if error.errno != errno.EIO:  # what a terminal says when its other side is closed
                raise
            return 0
        if data:
            step.journal.write(task.outputs[fd], task.rank, data)
            if step.terminal is not None and step.journal.end - step.terminal.marked >= MARK_BYTES:
                self._mark_shape(step)
            self.tell_growth(step)
        return len(data)

    def begin(self, step: Step, request: Body) -> None:
        """Note the size that a terminal has at first."""
        if step.terminal is not None:
            step.terminal.note_window("", request)
            self._mark_shape(step)

    def _mark_shape(self, step: Step) -> None:
        """Write the size into the journal, often enough that the end of it suffices to draw the screen."""
        if step.terminal is not None:
            rows, columns = step.terminal.shape
            step.journal.write(WINDOW, 0, SHAPE.pack(rows or 24, columns or 80))
            step.terminal.marked = step.journal.end

    def tell_growth(self, step: Step) -> None:
        """One event per request for it: a fast writer must not flood the agent's link."""
        if step.is_armed:
            step.is_armed = False
            number, run, index = step.key
            self._tell({"event": "journal", "number": number, "run": run, "step": index})

    def was_read(self, step: Step, upto: int) -> None:
        step.read_upto = max(step.read_upto, upto)
        now_s = boot_now()
        step.hold_until = now_s + HOLD_S
        if step.terminal is not None:
            step.terminal.seen_boot_s = now_s
        step.is_armed = True
        if step.journal.end > upto:
            self.tell_growth(step)
        self._resume(step)

    def _resume(self, step: Step) -> None:
        held, step.held = step.held, []
        for task, fd in held:
            if fd in task.outputs:
                self.watch_output(step, task, fd)

    # Input.

    def feed(self, step: Step, request: Body) -> Body:
        data = binascii.a2b_base64(str(request.get("data") or ""))
        offset, eof = integer(request, "offset", 0), bool(request.get("eof"))
        if step.terminal is not None:
            upto = self._type(step, str(request.get("client") or ""), offset, data)
        else:
            client, rank = str(request.get("client") or ""), integer(request, "task", -1)
            upto = step.take_input(offset, data, eof=eof, client=client, task=rank)
        for task in step.tasks:
            self._give_input(step, task)
        step.trim_input()
        return {"ok": True, "upto": upto}

    def _type(self, step: Step, client: str, offset: int, data: bytes) -> int:
        """Input of one of several clients; a client that leaves ends nothing, so there is no end of input."""
        terminal = step.terminal
        if terminal is None:
            return 0
        fresh = terminal.fresh(client, offset, data)
        if fresh:
            end = step.base + len(step.pending)
            count = step.take_input(end, fresh, eof=False) - end
            if count:
                self._set_shape(step, terminal.note_typed(client, count))
        return terminal.taken_of(client)

    def resize(self, step: Step, request: Body) -> None:
        """The size of a terminal as one of its clients sees it, or as the only one does."""
        if step.terminal is not None:
            self._set_shape(step, step.terminal.note_window(str(request.get("client") or ""), request))
            return
        for task in step.tasks:
            if task.is_terminal and not task.is_gone:
                set_window(task.input_fd, request)

    def _set_shape(self, step: Step, shape: tuple[int, int] | None) -> None:
        for task in step.tasks:
            if shape is not None and task.is_terminal and not task.is_gone:
                set_window(task.input_fd, {"rows": shape[0], "columns": shape[1]})
                self._mark_shape(step)

    def _give_input(self, step: Step, task: Task, _mask: int = 0) -> None:
        """Write what the task has not taken; wait for room when its pipe is full, and stop when it does not read any more.

        `pending` cannot be trimmed while a view of it exists: every way out of here releases the view first.
        """
        if task.cursor < 0 or task.input_fd < 0:
            return
        try:
            while True:
                with step.input_for(task) as waiting:
                    if not waiting:
                        break
                    task.cursor += os.write(task.input_fd, waiting)
        except BlockingIOError:
            self._await_room(step, task)
            return
        except OSError:
            self.stop_input(task)
            step.trim_input()
            return
        if step.has_eof:
            if task.is_terminal:
                os.write(task.input_fd, END_OF_INPUT)
                task.cursor = -1
            else:
                self.stop_input(task)
        elif not task.is_terminal:
            self._loop.unwatch(task.input_fd)
        else:
            self.watch_output(step, task, task.input_fd)

    def _await_room(self, step: Step, task: Task) -> None:
        def ready(mask: int) -> None:
            if task.is_terminal and mask & select.EPOLLIN:
                self._output_came(step, task, task.input_fd, mask)
            self._give_input(step, task)
            step.trim_input()

        events = select.EPOLLOUT | (select.EPOLLIN if task.is_terminal else 0)
        self._loop.watch(task.input_fd, events, ready)

    def stop_input(self, task: Task) -> None:
        task.cursor = -1
        if task.input_fd >= 0 and not task.is_terminal:
            self._loop.unwatch(task.input_fd)
            os.close(task.input_fd)
            task.input_fd = -1

    def drain(self, step: Step, task: Task) -> None:
        left = DRAIN_BYTES
        for fd in list(task.outputs):
            while left > 0 and (length := self._copy(step, task, fd)) > 0:
                left -= length
