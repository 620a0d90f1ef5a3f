"""A person at a terminal of an allocation: shows what it writes, types what is typed here, until it ends or is left.

Output comes by positions and input goes by offsets of this client's own, so a connection that breaks is taken up again at any server
without a byte lost or doubled. Leaving ends nothing: the terminal waits for its next client.
"""

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lattice.cli.context import Context
from lattice.cli.errors import FAILED_WITHOUT_CODE, OK, UNREACHABLE
from lattice.cli.launching import Handler, handling, raw_terminal, terminal_shape
from lattice.cli.terminal.escapes import Escapes
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError, Unreachable
from lattice_sdk.models.steps import Step, StepResult
from lattice_sdk.step_streams import ScreenDrawn, StepStream, TaskOutput, TerminalNotice

INPUT_BYTES = 1 << 16
INPUT_AGAIN_S = 0.02
MAX_INPUT_AGAIN_S = 0.5
LEAVE_WATCHING = b"\x03"  # Ctrl-C
END_OF_INPUT = b"\x04"  # what a terminal takes for it
ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
# Whatever a program had switched on: colours, a hidden cursor, mouse reports, bracketed paste, its keypad.
QUIET = b"\x1b[0m\x1b[?25h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b7\x1b[r\x1b8"
LEAVING = (signal.SIGTERM, signal.SIGHUP)
FORWARDED = (signal.SIGINT, signal.SIGQUIT)


class AttachedTerminal:
    """One terminal; `is_new` when it was opened for this client, which then sees it from its first byte."""

    def __init__(self, context: Context, step: Step, *, is_new: bool) -> None:
        self._context = context
        self._step = step
        self._is_new = is_new
        self._name = os.urandom(8).hex()
        self._requests: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._stream: StepStream | None = None
        self._is_left = False
        self._is_tty = os.isatty(0)
        self._is_alternate = False

    def attend(self) -> int:
        """The exit code of what ran in the terminal; 0 when it was left."""
        why = ""
        if self._step.read_only:
            text = f"you watch {self._step.id}, read-only; Ctrl-C leaves"
            self._context.streams.complain(f"[lattice] {text}\n")
        with self._signals(), raw_terminal(self._context, enabled=True):
            self._requests.put(("window", 0))
            if not self._step.read_only:
                threading.Thread(target=self._carry_out_requests, daemon=True).start()
            try:
                self._stream = self._context.client.follow_step(
                    self._step.allocation, self._step.step, screen=not self._is_new
                )
                threading.Thread(target=self._watch_keys if self._step.read_only else self._feed, daemon=True).start()
                self._show(self._stream)
            except Unreachable as error:
                why = str(error)
            finally:
                self._calm()
                if self._stream is not None:
                    self._stream.close()
        if why or self._is_left:
            self._tell_way_back(why)
            return UNREACHABLE if why else OK
        return self._ended(self._stream.result if self._stream is not None else None)

    def _show(self, stream: StepStream) -> None:
        out = self._context.streams.stdout
        for event in stream:
            if self._is_left:
                return
            if isinstance(event, TaskOutput | ScreenDrawn):
                out.write(event.data)
                out.flush()
                self._note_screen(event.data)
            elif isinstance(event, TerminalNotice):
                self._context.streams.complain(f"\r\n[lattice] {event.text}\r\n")

    def _note_screen(self, data: bytes) -> None:
        on, off = data.rfind(ALTERNATE_ON), data.rfind(ALTERNATE_OFF)
        if on != off:
            self._is_alternate = on > off

    def _calm(self) -> None:
        """Gives the terminal back as it was, when what ran there did not."""
        if self._is_tty and self._context.streams.stdout.isatty():
            out = self._context.streams.stdout
            if self._is_left or self._is_alternate:
                out.write(QUIET + (ALTERNATE_OFF if self._is_alternate else b""))
            out.flush()

    def _tell_way_back(self, why: str) -> None:
        step = self._step
        way = f"lattice attach {step.allocation} --terminal {step.step}"
        head = f"lost the connection to {step.id}: {why}" if why else f"detached from {step.id}"
        self._context.streams.complain(f"\n[lattice] {head}\n[lattice] come back with: {way}\n")

    def _ended(self, result: StepResult | None) -> int:
        if result is None:
            return FAILED_WITHOUT_CODE
        told = [line for line in result.failures if ": exited with code " not in line]
        if not result.failures and result.exit_code and result.message:
            told = [result.message]
        for line in told:
            self._context.streams.complain(f"lattice: {self._step.id}: {line}\n")
        return min(result.exit_code, 255)

    def _leave(self) -> None:
        self._is_left = True
        if self._stream is not None:
            self._stream.stop()

    # Signals.

    @contextmanager
    def _signals(self) -> Iterator[None]:
        handlers: dict[int, Handler] = {
            signal.SIGWINCH: lambda _number, _frame: self._requests.put(("window", 0)),
            **dict.fromkeys(LEAVING, lambda _number, _frame: self._leave()),
            **dict.fromkeys(FORWARDED, lambda number, _frame: self._interrupted(number)),
        }
        with handling(handlers):
            yield

    def _interrupted(self, number: int) -> None:
        if self._step.read_only:
            self._leave()
        else:
            self._requests.put(("signal", number))

    def _carry_out_requests(self) -> None:
        client = self._context.connect()
        about = (self._step.allocation, self._step.step)
        while True:
            request, number = self._requests.get()
            with contextlib.suppress(LatticeError):
                if request == "signal":
                    client.signal_step(*about, number)
                elif any(shape := terminal_shape()):
                    client.resize_step(*about, *shape, client_name=self._name)

    # Input.

    def _watch_keys(self) -> None:
        """Nothing is passed on: the keys of somebody who watches can only leave."""
        escapes = Escapes()
        while not escapes.is_left:
            try:
                data = os.read(self._context.streams.stdin.fileno(), INPUT_BYTES)
            except OSError:
                return
            if not data or not self._is_tty:
                return
            escapes.take(data)
            escapes.is_left |= LEAVE_WATCHING in data
        self._leave()

    def _feed(self) -> None:
        client = self._context.connect()
        escapes = Escapes()
        offset = 0
        try:
            while not escapes.is_left:
                data = os.read(self._context.streams.stdin.fileno(), INPUT_BYTES)
                if not data and self._is_tty:
                    break
                typed = escapes.take(data) if self._is_tty else data or END_OF_INPUT
                offset = self._type(client, offset, typed)
                if not data:
                    return
        except (LatticeError, OSError):
            # It is over, or its output tells what is wrong.
            return
        self._leave()

    def _type(self, client: Client, offset: int, data: bytes) -> int:
        end = offset + len(data)
        pause_s = INPUT_AGAIN_S
        while offset < end:
            taken = client.feed_step(self._step.allocation, self._step.step, offset, data, client_name=self._name)
            data = data[max(0, taken.upto - offset) :]
            offset = max(offset, taken.upto)
            if offset < end:
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, MAX_INPUT_AGAIN_S) if taken.waiting else INPUT_AGAIN_S
        return end
