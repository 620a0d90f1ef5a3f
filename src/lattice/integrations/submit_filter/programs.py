"""The site's submit filter: a program that reads JSON and writes JSON, or a Python function that takes and returns an object.

Neither runs on the event loop. Concurrency is limited; a submission that waits longer than the time-out fails. A program is killed
with all its processes when it takes too long. A function cannot be: its thread keeps its turn until it returns.
"""

import asyncio
import contextlib
import importlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from lattice.integrations.site_program.starting import MAX_SAID, CannotStart, start_program
from lattice.ports.site.submit_filter import FilterFailed

MAX_ANSWER_BYTES = 1 << 20


class _Filter:
    """What both kinds have: a limit of time, and of questions asked at the same time."""

    def __init__(self, *, timeout_s: float, at_once: int, accepts_on_failure: bool) -> None:
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="submit-filter")
        self._accepts_on_failure = accepts_on_failure

    @property
    def accepts_on_failure(self) -> bool:
        return self._accepts_on_failure


class ProgramFilter(_Filter):
    """Implements `SubmitFilter` by a command that is started for each submission.

    From a thread: the event loop's own way forks, which a process full of gRPC's threads should not.
    """

    def __init__(
        self, command: Sequence[str], *, timeout_s: float, at_once: int, accepts_on_failure: bool = False
    ) -> None:
        self._command = tuple(command)
        super().__init__(timeout_s=timeout_s, at_once=at_once, accepts_on_failure=accepts_on_failure)

    async def ask(self, question: bytes) -> bytes:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise FilterFailed(f"{self._command[0]}: no turn within {self._timeout_s:g} s") from None
        try:
            left = max(0.01, self._timeout_s - (time.monotonic() - began))
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, question, left)
        finally:
            self._turns.release()

    def _run(self, question: bytes, timeout_s: float) -> bytes:
        try:
            process = start_program(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except CannotStart as error:
            raise FilterFailed(str(error)) from None
        with process:
            try:
                answer, said = process.communicate(question, timeout_s)
            except subprocess.TimeoutExpired:
                # Not reaped yet: its number cannot be somebody else's.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise FilterFailed(f"{self._command[0]} did not answer within {self._timeout_s:g} s") from None
        if process.returncode:
            shown = said.decode(errors="replace").strip()[-MAX_SAID:]
            raise FilterFailed(f"{self._command[0]} ended with exit code {process.returncode}: {shown}")
        if len(answer) > MAX_ANSWER_BYTES:
            raise FilterFailed(f"{self._command[0]} answered with {len(answer):,} bytes")
        return answer


class PythonFilter(_Filter):
    """Implements `SubmitFilter` by `module:function`, called in a thread. Raises FilterFailed when it cannot be imported."""

    def __init__(self, place: str, *, timeout_s: float, at_once: int, accepts_on_failure: bool = False) -> None:
        self._place = place
        self._function = _imported(place)
        super().__init__(timeout_s=timeout_s, at_once=at_once, accepts_on_failure=accepts_on_failure)

    async def ask(self, question: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turns.acquire()
                asked = asyncio.get_running_loop().run_in_executor(self._threads, self._call, question)
                asked.add_done_callback(self._done)
                return await asyncio.shield(asked)
        except TimeoutError:
            raise FilterFailed(f"{self._place} did not answer within {self._timeout_s:g} s") from None

    def _done(self, asked: "asyncio.Future[bytes]") -> None:
        self._turns.release()
        if not asked.cancelled():
            asked.exception()  # fetched, whether or not a caller still waits

    def _call(self, question: bytes) -> bytes:
        try:
            return msgspec.json.encode(self._function(msgspec.json.decode(question)))
        except Exception as error:
            raise FilterFailed(f"{self._place} raised {type(error).__name__}: {error}"[:MAX_SAID]) from error


def _imported(place: str) -> Callable[[Any], Any]:
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise FilterFailed(f"{place} cannot be imported: {error}") from error
    if not callable(found):
        raise FilterFailed(f"{place} is no function")
    return found  # type: ignore[no-any-return]
