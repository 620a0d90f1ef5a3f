"""One process of the cluster: kept running, and listed in cluster.json while it runs."""

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lattice.agent.runs.process_end import ended
from lattice.daemons.local.commands import environment
from lattice.daemons.local.layout import open_log
from lattice.daemons.local.record import Record
from lattice.daemons.local.restarts import RestartPolicy

EXIT_REMOVED = 3  # as lattice-server exits

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Program:
    role: str
    name: str
    command: list[str]
    log: Path
    addresses: tuple[str, ...] = ()
    before_start: Callable[[], None] = lambda: None

    @property
    def title(self) -> str:
        return self.role if self.name == self.role else f"{self.role} {self.name}"


class Keeper:
    """Runs until it is cancelled, or until the process has ended and must not be restarted."""

    def __init__(self, program: Program, record: Record, *, restart: bool) -> None:
        self.program = program
        self.deaths = 0
        self.last_code = 0
        self.log_from = 0  # where the output of the current process starts
        self.last_words_from = 0  # where the output of the last process that died starts
        self._record = record
        self._restart = restart
        self._policy = RestartPolicy()

    @property
    def is_removed(self) -> bool:
        """Whether it exited because it was removed from the cluster: it would exit again."""
        return self.program.role == "server" and self.last_code == EXIT_REMOVED

    async def run(self) -> None:
        while True:
            lived_s = await self._live()
            if not self._restart or self.is_removed:
                return
            await asyncio.sleep(self._policy.delay_after(lived_s))

    async def _live(self) -> float:
        """One lifetime of the process; returns its length in seconds."""
        program = self.program
        born = time.monotonic()
        try:
            process = self._start()
        except OSError as error:
            _log.error("cannot start %s: %s", program.title, error)
            self.last_code = 127
        else:
            self._record.put(program.role, program.name, process.pid, program.addresses)
            await ended(process.pid)
            self.last_code = process.wait()
            self._record.drop(program.role, program.name)
            _log.warning("%s (pid %d) ended: %s", program.title, process.pid, manner(self.last_code))
        self.last_words_from = self.log_from
        self.deaths += 1
        return time.monotonic() - born

    def _start(self) -> "subprocess.Popen[bytes]":
        self.program.before_start()
        log = open_log(self.program.log)
        try:
            self.log_from = os.fstat(log).st_size
            return subprocess.Popen(
                self.program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                cwd="/",
                # Signals from the terminal go to `lattice up`, not to the whole cluster.
                start_new_session=True,
            )
        finally:
            os.close(log)


def manner(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
