"""Attends to a step that was launched: shows its output, forwards input and signals, until it ends."""

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

from lattice.cli.context import Context
from lattice.cli.errors import FAILED_WITHOUT_CODE, INTERRUPTED
from lattice.cli.views.task_output import MergedOutput
from lattice_sdk.client import Client
from lattice_sdk.errors import ApiError, LatticeError
from lattice_sdk.models.steps import Step, StepResult
from lattice_sdk.step_streams import OutputGap, StepStream, TaskOutput

INPUT_BYTES = 1 << 16
INPUT_AGAIN_S = 0.02
MAX_INPUT_AGAIN_S = 0.5
# How long after its launch a step that no server knows is asked for again, and how often.
AGAIN_WITHIN_S = 60.0
MAX_LAUNCHES = 4
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)

Handler = Callable[[int, FrameType | None], None]


class AttachedStep:
    """One step and the terminal that launched it; `again` repeats that request."""

    def __init__(self, context: Context, allocation: str, step: Step, again: Callable[[], Step]) -> None:
        self._again = again
        self._launches = 1
        self._launched_s = time.monotonic()
        self._state = step.state
        self._has_written = False
        self._context = context
        self._allocation = allocation
        self._step = step
        self._requests: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._interrupts = 0

    def attend(self, targets: dict[int, BinaryIO], *, label: bool, is_fed: bool, is_terminal: bool) -> int:
        """The exit code of the step."""
        client = self._context.client
        output = MergedOutput(targets, self._step.tasks, label=label, raw=is_terminal)
        with self._signals(is_terminal=is_terminal), raw_terminal(self._context, enabled=is_terminal):
            if is_terminal:
                self._requests.put(("window", 0))
            threading.Thread(target=self._carry_out_requests, daemon=True).start()
            if is_fed:
                threading.Thread(target=self._feed, daemon=True).start()
            while True:
                try:
                    return self._ended(self._follow(client, output))
                except ApiError as error:
                    if not self._may_be_lost(error):
                        raise
                # The leader that took the request was gone before any node had the order. The next one finds a repeat by its id.
                self._launches += 1
                self._step = self._again()

    def _follow(self, client: Client, output: MergedOutput) -> StepResult | None:
        stream = client.follow_step(self._allocation, self._step.step)
        try:
            self._show(stream, output)
        except BrokenPipeError:
            with contextlib.suppress(LatticeError):
                client.end_step(self._allocation, self._step.step)
            raise
        finally:
            stream.close()
        return stream.result

    def _may_be_lost(self, error: ApiError) -> bool:
        """Whether the step cannot have begun: nothing was heard of it, and no time has passed in which its record could have gone."""
        is_early = self._state == "waiting" or time.monotonic() < self._launched_s + AGAIN_WITHIN_S
        return error.code == "not_found" and is_early and not self._has_written and self._launches < MAX_LAUNCHES

    def _show(self, stream: StepStream, output: MergedOutput) -> None:
        was_waiting = False
        for event in stream:
            self._state = event.state if isinstance(event, Step) else self._state
            if isinstance(event, TaskOutput):
                self._has_written = True
                output.write(event.rank, event.stream, event.data)
            elif isinstance(event, OutputGap):
                self._context.warn(f"{event.size:,} bytes of output were dropped: they were not read in time")
            elif isinstance(event, Step) and event.state == "waiting" and not was_waiting:
                was_waiting = True
                self._context.note(f"{event.id} waits for other steps to end")
            if self._interrupts > 2:
                raise KeyboardInterrupt
        output.finish()

    def _ended(self, result: StepResult | None) -> int:
        if result is None:
            return FAILED_WITHOUT_CODE
        for line in result.failures:
            self._context.streams.complain(f"lattice: {self._step.id}: {line}\n")
        if result.exit_code and not result.failures and result.message:
            self._context.streams.complain(f"lattice: {self._step.id}: {result.message}\n")
        if result.exit_code and self._interrupts > 1:
            return INTERRUPTED  # we ended it; what tasks made of the first one is theirs to say
        return min(result.exit_code, 255)

    # Signals.

    @contextmanager
    def _signals(self, *, is_terminal: bool) -> Iterator[None]:
        handlers: dict[int, Handler] = {signal.SIGINT: self._interrupted}
        handlers |= dict.fromkeys(FORWARDED, self._forwarded)
        if is_terminal:
            handlers[signal.SIGWINCH] = lambda _number, _frame: self._requests.put(("window", 0))
        with handling(handlers):
            yield

    def _interrupted(self, number: int, _frame: FrameType | None) -> None:
        """The first interrupt goes to the tasks, the second ends the step, the third detaches from it."""
        self._interrupts += 1
        self._requests.put(("signal", number) if self._interrupts == 1 else ("end", 0))
        if self._interrupts > 2:
            raise KeyboardInterrupt

    def _forwarded(self, number: int, _frame: FrameType | None) -> None:
        self._requests.put(("signal", number))

    def _carry_out_requests(self) -> None:
        client = self._context.connect()
        while True:
            request, number = self._requests.get()
            try:
                self._carry_out(client, request, number)
            except LatticeError as error:
                self._context.warn(str(error))

    def _carry_out(self, client: Client, request: str, number: int) -> None:
        about = (self._allocation, self._step.step)
        if request == "window":
            size = _terminal_size()
            if size is not None:
                client.resize_step(*about, size.lines, size.columns)
        elif request == "signal":
            try:
                client.signal_step(*about, number)
            except ApiError as error:
                if error.code != "conflict":
                    raise
                client.end_step(*about)  # it has no tasks yet
        else:
            client.end_step(*about)

    # Input.

    def _feed(self) -> None:
        client = self._context.connect()
        offset = 0
        is_open = True
        try:
            while is_open:
                data = os.read(self._context.streams.stdin.fileno(), INPUT_BYTES)
                is_open = bool(data)
                offset = self._hand_on(client, offset, data)
        except (LatticeError, OSError):
            # The step is over, or its output tells what is wrong.
            return

    def _hand_on(self, client: Client, offset: int, data: bytes) -> int:
        end = offset + len(data)
        eof = not data
        pause_s = INPUT_AGAIN_S
        while True:
            try:
                taken = client.feed_step(self._allocation, self._step.step, offset, data, eof=eof)
            except ApiError as error:
                if not self._may_be_lost(error):
                    raise
                time.sleep(MAX_INPUT_AGAIN_S)  # until it is asked for again
                continue
            data = data[max(0, taken.upto - offset) :]
            offset = max(offset, taken.upto)
            if offset >= end and not taken.waiting:
                return end
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_INPUT_AGAIN_S) if taken.waiting else INPUT_AGAIN_S


def _terminal_size() -> os.terminal_size | None:
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(number)
            if size.lines and size.columns:  # a terminal may not know its size
                return size
    return None


def terminal_shape() -> tuple[int, int]:
    """Rows and columns; 0 where there is no terminal."""
    size = _terminal_size()
    return (size.lines, size.columns) if size else (0, 0)


@contextmanager
def handling(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Within it the signals have these handlers, afterwards those of before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def raw_terminal(context: Context, *, enabled: bool) -> Iterator[None]:
    """Every key goes to the task: no echo, no signals of our own."""
    if not enabled or not os.isatty(0):
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0)
    context.has_raw_terminal = True
    try:
        yield
    finally:
        context.has_raw_terminal = False
        termios.tcsetattr(0, termios.TCSADRAIN, before)
