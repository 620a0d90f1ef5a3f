"""Runs a program of the site for each document, in a session of its own; when it ends, or time is up, its whole group is killed."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lattice.integrations.site_program.starting import MAX_SAID, CannotStart, start_program
from lattice.ports.site.site_program import ProgramFailed


class CommandProgram:
    """Implements `SiteProgram` by a command. One at a time, from a thread of its own."""

    def __init__(self, command: Sequence[str], *, timeout_s: float) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="site-program")

    async def tell(self, document: bytes) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._run, document)

    def _run(self, document: bytes) -> None:
        # Files and no pipes: a child that the program leaves behind cannot keep us waiting for their end.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
            given.write(document)
            given.seek(0)
            try:
                process = start_program(self._command, stdin=given, stdout=subprocess.DEVNULL, stderr=said)
            except CannotStart as error:
                raise ProgramFailed(str(error)) from None
            is_over = self._wait(process)
            said.seek(max(0, said.seek(0, os.SEEK_END) - MAX_SAID))
            shown = said.read().decode(errors="replace").strip()
        if not is_over:
            raise ProgramFailed(f"{self._command[0]} was killed: not done within {self._timeout_s:g} s")
        if process.returncode:
            raise ProgramFailed(f"{self._command[0]} ended with exit code {process.returncode}: {shown}")

    def _wait(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether it ended in time; either way its group is gone afterwards."""
        try:
            # Left unreaped until its group is killed: until then its number cannot be somebody else's.
            is_over = _ends_within(process.pid, self._timeout_s)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        finally:
            process.wait()
        return is_over


def _ends_within(pid: int, seconds: float) -> bool:
    """Waits for the end of a child without reaping it."""
    watch = os.pidfd_open(pid)
    try:
        return bool(select.select([watch], [], [], seconds)[0])
    finally:
        os.close(watch)
