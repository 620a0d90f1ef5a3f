"""A mover: asks the servers for copies to make, makes them, and says how far it is. It keeps nothing that another could not find.

Who has which copy is in the servers' log. A mover that is killed leaves what it copied on the tier, where the next one continues.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from lattice.core.model.data.copies import CopyPhase, folder_of
from lattice.mover.making import Answer, CopyMaking, OpenSource, Stopped
from lattice.mover.pace import Pace
from lattice.mover.tier import HotTier
from lattice.wire.data.moving import CopyProgress, CopyReport, MoverTasks, OldGeneration

_log = logging.getLogger(__name__)
BUSY_WAIT_S = 0.5
IDLE_WAIT_S = 10.0
RETRY_S = 1.0
STOP_WAIT_S = 0.05


class ServersGone(Exception):
    """No server answers; the text says why."""


class _Ended(BaseException):
    """Leaves a question that the servers have not answered. No handler of errors on the way may take it for one."""


class Servers(Protocol):
    """The API, as a mover needs it; one per thread."""

    def ask(
        self, *, slots: int, wait_s: float, progress: list[CopyProgress], hot_total: int, hot_free: int
    ) -> MoverTasks:
        """Raises ServersGone."""
        ...

    def report(self, *reports: CopyReport) -> Answer:
        """The answer to the last. Raises ServersGone."""
        ...


class Mover:
    """`connect` makes a connection to the servers for the calling thread."""

    def __init__(
        self, tier: HotTier, open_source: OpenSource, connect: Callable[[], Servers], concurrency: int = 4
    ) -> None:
        self._tier, self._open, self._connect, self._concurrency = tier, open_source, connect, concurrency
        self._pace = Pace()
        self._idle: deque[Servers] = deque()  # connections that no copy uses now
        self._makings: dict[str, tuple[CopyMaking, threading.Thread]] = {}
        self._ends = threading.Event()
        self._is_asking = False

    def end(self) -> None:
        """Called from a signal handler, in the thread of `run`: the copies stop at the next piece.

        An idle mover waits for work in a question that servers answer after seconds, which it leaves.
        """
        self._ends.set()
        for making, _ in self._makings.values():
            making.stop()
        if self._is_asking:
            self._is_asking = False
            raise _Ended

    def run(self) -> None:
        servers = self._connect()
        while not self._ends.is_set():
            self._makings = {
                key: (making, thread) for key, (making, thread) in self._makings.items() if thread.is_alive()
            }
            try:
                tasks = self._ask_until_the_end(servers)
            except ServersGone as error:
                _log.warning("no server answers: %s", error)
                self._ends.wait(RETRY_S)
                continue
            except _Ended:
                break
            self._take(servers, tasks)
        for making, thread in self._makings.values():
            making.stop()
            thread.join(timeout=2.0)

    def _ask_until_the_end(self, servers: Servers) -> MoverTasks:
        """Raises _Ended when `end` is called meanwhile, or was called just before."""
        try:
            self._is_asking = True
            if self._ends.is_set():
                raise _Ended
            return self._ask(servers)
        finally:
            self._is_asking = False

    def _ask(self, servers: Servers) -> MoverTasks:
        progress = [
            CopyProgress(
                key=making.task.key,
                generation=making.task.generation,
                bytes_done=making.done,
                bytes_total=making.total,
                bytes_per_s=making.rate,
            )
            for making, _ in self._makings.values()
        ]
        total, free = self._tier.space()
        slots = self._concurrency - len(self._makings)
        wait_s = BUSY_WAIT_S if self._makings else IDLE_WAIT_S
        tasks = servers.ask(slots=slots, wait_s=wait_s, progress=progress, hot_total=total, hot_free=free)
        if slots <= 0 or tasks.stop:
            self._ends.wait(BUSY_WAIT_S if slots <= 0 else STOP_WAIT_S)  # a server answers such a question at once
        return tasks

    def _take(self, servers: Servers, tasks: MoverTasks) -> None:
        self._pace.rate = tasks.bytes_per_s
        for key in tasks.stop:
            if key in self._makings:
                self._makings[key][0].stop()
        for task in tasks.tasks:
            if task.key in self._makings:
                continue
            making = CopyMaking(
                task, self._tier, self._open, self._pace, _Telling(self._idle, self._connect, self._ends)
            )
            thread = threading.Thread(target=making.run, name=task.key[:8], daemon=True)
            self._makings[task.key] = (making, thread)
            thread.start()
        for old in tasks.remove:
            self._remove(servers, old)

    def _remove(self, servers: Servers, old: OldGeneration) -> None:
        try:
            self._tier.remove(folder_of(old.key, old.generation))
            servers.report(CopyReport(key=old.key, generation=old.generation, phase=CopyPhase.REMOVED))
        except (OSError, RecursionError, ServersGone) as error:  # recursion: a copy as deep as calls go
            _log.warning("cannot remove generation %d of %s: %s", old.generation, old.key, error)
            self._ends.wait(RETRY_S)


class _Telling:
    """Implements `Reporter`: repeats until a server has answered. A connection goes back when it has served."""

    def __init__(self, idle: "deque[Servers]", connect: Callable[[], Servers], ends: threading.Event) -> None:
        self._idle, self._connect, self._ends = idle, connect, ends

    def __call__(self, *reports: CopyReport) -> Answer:
        while not self._ends.is_set():
            try:
                servers = self._idle.popleft()
            except IndexError:
                servers = self._connect()
            try:
                answer = servers.report(*reports)
                self._idle.append(servers)
                return answer
            except ServersGone as error:
                _log.warning("cannot report a copy: %s", error)
                self._ends.wait(RETRY_S)
        raise Stopped
