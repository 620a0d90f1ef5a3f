"""What the work answers to a request, in whatever way it does, and how long it has for that."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lattice.agent.checkpoints import directories, shared_memory
from lattice.agent.checkpoints.control import SHM, SHMEM, Request, write_request
from lattice.agent.checkpoints.talk import Talk
from lattice.core.model.work.checkpoints import EXTENSION, CheckpointPhase
from lattice.ports.nodes.checkpoints import CheckpointOrder
from lattice.ports.nodes.run_keys import RunKey

LOOK_S = 0.02  # between two looks for an answer; grows with the time that it takes
MAX_LOOK_S = 0.5
LOOK_SHARE = 0.02
RISING_SHARE = 0.25  # of the time limit: progress within that time is progress

_P = CheckpointPhase


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the request on this node."""

    phase: CheckpointPhase
    message: str = ""
    bytes: int = 0
    elapsed_s: float = 0.0


class Watch:
    """Waits for the answer of the work; `talk` is how it gives one by gRPC."""

    def __init__(
        self,
        order: CheckpointOrder,
        folder: Path,
        request: Request,
        gid: int,
        is_alive: Callable[[RunKey], bool],
        talk: Talk | None = None,
    ) -> None:
        self._order = order
        self._folder = folder
        self._request = request
        self._gid = gid
        self._is_alive = is_alive
        self._talk = talk
        self._limit_s = max(0.1, request.deadline - request.asked)
        self._deferred_until = 0.0
        self._is_extended = False
        self._progress = 0
        self._rose_at = request.asked

    async def answer(self) -> Answer | None:
        measured_s = 0.0
        while True:
            # In this order: what was written last is seen even if the process has gone since.
            alive = self._is_alive(self._order.key)
            said, text = self._talk.verdict() if self._talk else await asyncio.to_thread(self._look)
            now = time.time()
            elapsed_s = max(0.0, now - self._request.asked)
            if said == "done":
                size = await asyncio.to_thread(directories.size_of, self._request.path)
                return Answer(phase=_P.DONE, bytes=size, elapsed_s=elapsed_s)
            if said == "failed":
                return Answer(phase=_P.FAILED, message=text or "the work says that it failed", elapsed_s=elapsed_s)
            if not alive:
                return None
            if now - measured_s >= self._limit_s * RISING_SHARE / 5:
                measured_s = now
                await self._measure(now)
            if now >= self._request.deadline and not self._extend(now):
                message = f"not complete within {elapsed_s:.0f} s"
                return Answer(phase=_P.FAILED, message=message, elapsed_s=elapsed_s)
            await self._pause(min(MAX_LOOK_S, max(LOOK_S, elapsed_s * LOOK_SHARE)))

    async def _pause(self, seconds: float) -> None:
        if self._talk is None:
            await asyncio.sleep(seconds)
            return
        if self._talk.deferred_until > self._deferred_until:
            await asyncio.to_thread(self._put_off, self._talk.deferred_until)
        seconds = min(MAX_LOOK_S, self._talk.ask_again(self._request))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._talk.changed.wait()
        self._talk.changed.clear()

    def _put_off(self, until: float) -> None:
        """The work has its whole time from then on."""
        self._deferred_until = until
        deadline = max(self._request.deadline, until + self._limit_s)
        self._request = msgspec.structs.replace(self._request, deadline=deadline)
        write_request(self._folder, self._request, self._gid)

    def _look(self) -> tuple[str, str]:
        if self._order.protocol != SHMEM:
            return directories.answer_in(self._request.path)
        standing = shared_memory.read(self._folder / SHM)
        if standing is None:
            return "failed", "its shared memory is damaged"
        if standing.done == self._order.n:
            return "done", ""
        if standing.failed == self._order.n:
            return "failed", directories.answer_in(self._request.path)[1]
        return "", ""

    async def _measure(self, now: float) -> None:
        progress = await asyncio.to_thread(self._measured)
        if progress > self._progress:
            self._progress, self._rose_at = progress, now

    def _measured(self) -> int:
        """Any figure that rises while the work writes."""
        size = directories.size_of(self._request.path)
        if self._talk is not None:
            return size + self._talk.progress
        standing = shared_memory.read(self._folder / SHM) if self._order.protocol == SHMEM else None
        return size + (standing.per_mille if standing is not None else 0)

    def _extend(self, now: float) -> bool:
        """Half as long again, once, while it makes progress."""
        if self._is_extended or now - self._rose_at > self._limit_s * RISING_SHARE:
            return False
        self._is_extended = True
        deadline = self._request.deadline + self._limit_s * EXTENSION
        self._request = msgspec.structs.replace(self._request, deadline=deadline)
        write_request(self._folder, self._request, self._gid)
        return True
