"""One line on the terminal that says what a command waits for; nothing where stderr is no terminal."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from time import monotonic
from types import TracebackType

from lattice.cli.context import Context
from lattice.cli.output import printable
from lattice.cli.times import clock_text, local_with_distance
from lattice_sdk.errors import ApiError, Unavailable, WaitTimedOut
from lattice_sdk.models.records import Allocation

FIRST_LOOK_S = 0.5
LOOK_AGAIN_S = 2.0
LOOK_SELDOM_S = 30.0
TICK_S = 1.0
PENDING, RUNNING, CHECKPOINTING, SUSPENDED = "Pending", "Running", "Checkpointing", "Suspended"
WAITING = (PENDING, SUSPENDED)
CLEAR = "\r\x1b[K"


class StatusLine:
    """Written over and over in place; gone when it is left."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.is_shown = context.streams.stderr.isatty() and not context.flags.quiet
        self._text = ""

    def __enter__(self) -> "StatusLine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, text: str) -> None:
        if self.is_shown and text != self._text:
            width = shutil.get_terminal_size().columns - 1
            self._context.streams.complain(CLEAR + printable(text)[:width])
            self._text = text

    def clear(self) -> None:
        if self._text:
            self._context.streams.complain(CLEAR)
            self._text = ""


@contextmanager
def ticking(context: Context, text: str) -> Iterator[None]:
    """The text, and how long it takes already, while the block waits for an answer."""
    with StatusLine(context) as line:
        if not line.is_shown:
            yield
            return
        done, began = threading.Event(), monotonic()

        def tick() -> None:
            line.show(text)
            while not done.wait(TICK_S):
                line.show(f"{text}, {clock_text(monotonic() - began)}")

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def share_text(what: str, done: int, total: int, took_s: float, now: float) -> str:
    """How far a known amount of work is, and when it will be done."""
    text = f"{what}: {done:,}/{total:,} done"
    if not 0 < done < total or took_s < FIRST_LOOK_S:
        return text
    return f"{text}, about {datetime.fromtimestamp(now + took_s * (total - done) / done).astimezone():%H:%M}"


def await_end(name: str, context: Context, *, timeout: float | None = None) -> Allocation:
    """The allocation once it has ended, and until then on the terminal what it waits for.

    Elsewhere only work that is held is mentioned, once: it would be waited for in vain. Raises WaitTimedOut.
    """
    deadline = None if timeout is None else monotonic() + timeout
    pause_s, has_told = FIRST_LOOK_S, False
    with StatusLine(context) as line:
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            try:
                return context.client.wait(name, timeout=pause_s if left is None else min(left, pause_s))
            except WaitTimedOut:
                if left is not None and left <= pause_s:
                    raise
            pause_s = LOOK_AGAIN_S if line.is_shown else LOOK_SELDOM_S
            now = context.client.get_allocation(name)
            if line.is_shown:
                line.show(waiting_text(now, context))
            elif not has_told and "held by" in (now.reason or ""):
                context.note(f"{now.id} cannot continue: {now.reason}")
                has_told = True


def waiting_text(allocation: Allocation, context: Context) -> str:
    """What an allocation or a group is doing, in one line."""
    now = context.clock.now()
    if allocation.task_counts is not None:
        return _group_text(allocation, now)
    if allocation.state in WAITING:
        return f"{allocation.id} is {allocation.state.lower()}: {allocation.reason or 'waiting'}{_start_text(allocation, context, now)}"
    if allocation.state in (RUNNING, CHECKPOINTING):
        limit = f" of {clock_text(allocation.walltime_s)}" if allocation.walltime_s else ""
        paused = ", suspended" if allocation.suspended else ""
        return f"{allocation.id} is running{paused}, {clock_text(allocation.elapsed_s)}{limit}"
    reason = f": {allocation.reason}" if allocation.reason else ""
    return f"{allocation.id} is {allocation.state.lower()}{reason}"


def _start_text(allocation: Allocation, context: Context, now: float) -> str:
    with suppress(ApiError, Unavailable):
        start = context.client.explain(allocation.id).predicted_start
        return f"; starts about {local_with_distance(start, now)}" if start else ""
    return ""


def _group_text(allocation: Allocation, now: float) -> str:
    counts = allocation.task_counts
    if counts is None:
        return ""
    done = counts.completed + counts.failed + counts.cancelled
    failed = f" ({counts.failed} failed)" if counts.failed else ""
    text = f"{allocation.id}: {done}/{counts.size} done{failed}, {counts.running} running"
    if allocation.reason and not counts.running:
        return f"{text}; {allocation.reason}"
    if not done or not allocation.elapsed_s:
        return text
    left_s = allocation.elapsed_s * (counts.size - done) / done
    return f"{text}, about {datetime.fromtimestamp(now + left_s).astimezone():%H:%M}"
