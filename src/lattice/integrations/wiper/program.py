"""The site's wiper as a program: the order as JSON on its standard input, exit code 0 = the node is clean.

It runs from a thread, because the event loop's own way forks, which a process full of gRPC's threads should not. When it takes too
long, or it is no longer needed, it is killed with its whole process group.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from lattice.integrations.site_program.starting import MAX_SAID, CannotStart, start_program
from lattice.ports.nodes.wiper import WipeFailed, WipeOrder


class ProgramWiper:
    """Implements `Wiper`; a limited number of nodes concurrently, the others wait within their time-out."""

    def __init__(self, command: Sequence[str], *, at_once: int = 32) -> None:
        self._command = tuple(command)
        self._turns = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="wiper")

    async def wipe(self, order: WipeOrder, timeout_s: float) -> str:
        run = _Run(self._command, msgspec.json.encode(order))
        try:
            async with asyncio.timeout(timeout_s):
                async with self._turns:
                    return await asyncio.get_running_loop().run_in_executor(self._threads, run.finish)
        except TimeoutError:
            raise WipeFailed(f"{self._command[0]} did not end within {timeout_s:g} s") from None
        finally:
            run.kill()


class _Run:
    """One run of the program. `kill` may come at any time, from another thread."""

    def __init__(self, command: tuple[str, ...], order: bytes) -> None:
        self._command = command
        self._order = order
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def finish(self) -> str:
        process = self._begin()
        if process is None:
            return ""  # no caller waits for it any more
        with process:
            said, complaints = process.communicate(self._order)
            with self._lock:
                self._is_over = True
        if process.returncode:
            shown = (complaints or said).decode(errors="replace").strip()[-MAX_SAID:]
            raise WipeFailed(f"{self._command[0]} ended with {_how(process.returncode)}: {shown or 'it said nothing'}")
        return said.decode(errors="replace").strip()[-MAX_SAID:]

    def _begin(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_over:
                return None
            try:
                self._process = start_program(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except CannotStart as error:
                self._is_over = True
                raise WipeFailed(str(error)) from None
            return self._process

    def kill(self) -> None:
        with self._lock:
            process, was_over = self._process, self._is_over
            self._is_over = True
            # Not reaped yet: its number cannot be somebody else's.
            if process is not None and not was_over and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
