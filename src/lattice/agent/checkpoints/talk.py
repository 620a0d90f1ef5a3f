"""One request for a checkpoint by gRPC, from the first word to the answers of all processes that heard it.

It is done when everyone who was asked and is still there has said so, and failed as soon as one says that. Nothing here waits or sends:
words for a process go into its queue, and `changed` tells that something was said.
"""

import asyncio
import math
import time

from lattice.agent.checkpoints.control import Request
from lattice.agent.checkpoints.directories import MAX_TEXT
from lattice.core.model.work.checkpoints import EXTENSION
from lattice.wire.pb import checkpoints_pb2 as pb

MAX_PER_MILLE = 1000
MAX_WORDS = 8
SHORTEST_DEFERRAL_S = 0.05
ABSENT_S = 10.0  # who went without an answer is back within this time, or the checkpoint has failed


class Caller:
    """A process that can be asked."""

    def __init__(self) -> None:
        self._words: asyncio.Queue[bytes] = asyncio.Queue(MAX_WORDS)
        self.reset()

    def reset(self) -> None:
        self.is_done, self.failure = False, ""
        self.per_mille, self.estimate_s = 0, 0.0
        self.again_s = 0.0  # when it is to be asked again, by the monotonic clock; 0 = it did not put anything off

    @property
    def is_final(self) -> bool:
        return self.is_done or bool(self.failure)

    def say(self, word: pb.CheckpointAsked) -> None:
        if not self._words.full():  # who does not read is not asked again and again
            self._words.put_nowait(word.SerializeToString())

    async def next_word(self) -> bytes:
        return await self._words.get()


class Talk:
    def __init__(self, request: Request, max_deferral_s: float, expected: int = 0) -> None:
        """`expected` processes heard this request from an agent that has died, and come back."""
        self.request = request
        self.defer_until = request.asked + max_deferral_s  # seconds since 1970
        self.deferred_until = 0.0
        self.is_over = False
        self.calling: asyncio.Task[None] | None = None  # where the work listens
        self.changed = asyncio.Event()
        self._callers: list[Caller] = []
        self._missing = expected  # that heard the request, and are not there
        self._lost_s = time.monotonic()  # when the last of them went
        self._was_done = False

    def join(self, caller: Caller) -> None:
        caller.reset()
        self._callers.append(caller)
        self._missing = max(0, self._missing - 1)
        self._ask(caller)

    def leave(self, caller: Caller) -> None:
        """What it has said counts; who went without an answer has to come back."""
        if caller in self._callers and not caller.failure:
            self._was_done = self._was_done or caller.is_done
            self._callers.remove(caller)
            if not caller.is_done:
                self._missing += 1
                self._lost_s = time.monotonic()
            self.changed.set()

    def hear(self, caller: Caller, answer: pb.CheckpointAnswer) -> None:
        if answer.n != self.request.n or caller not in self._callers or caller.is_final:
            return
        if answer.failed:
            self.fail(caller, answer.message)
            return
        caller.is_done = answer.done
        caller.per_mille = max(caller.per_mille, min(answer.per_mille, MAX_PER_MILLE))
        if 0 < answer.estimate_s < math.inf:
            caller.estimate_s = time.time() + answer.estimate_s
        if not answer.done and answer.defer_s > 0:
            self._defer(caller, answer.defer_s)
        self.changed.set()

    def _defer(self, caller: Caller, seconds: float) -> None:
        """Also when it comes too late: the work believes that it was granted, and hears at once that it has to write."""
        left_s = self.may_defer_s
        granted_s = max(SHORTEST_DEFERRAL_S, min(seconds, left_s))
        caller.again_s = time.monotonic() + granted_s
        if left_s > 0:
            self.deferred_until = max(self.deferred_until, time.time() + granted_s)

    def fail(self, caller: Caller, text: str) -> None:
        plain = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        caller.failure = plain[:MAX_TEXT] or "the work says that it failed"
        self.changed.set()

    def hung_up(self, caller: Caller) -> None:
        """A call that this agent made has ended."""
        if not caller.is_final and not caller.again_s:
            self.fail(caller, "it ended the call without an answer")

    @property
    def may_defer_s(self) -> float:
        return max(0.0, self.defer_until - time.time())

    def ask_again(self, request: Request) -> float:
        """Asks those whose time is over; seconds until the next one's is, infinite where no process puts anything off."""
        self.request = request
        now_s, next_s = time.monotonic(), math.inf
        for caller in self._callers:
            if not caller.again_s or caller.is_final:
                continue
            if caller.again_s <= now_s:
                caller.again_s = 0.0
                self._ask(caller)
            else:
                next_s = min(next_s, caller.again_s - now_s)
        return next_s

    def _ask(self, caller: Caller) -> None:
        request = self.request
        word = pb.CheckpointAsked(
            n=request.n,
            path=request.path,
            deadline=request.deadline,
            reason=request.reason,
            may_defer_s=self.may_defer_s,
        )
        caller.say(word)

    @property
    def size(self) -> int:
        """How many processes were asked and have not gone after their answer."""
        return len(self._callers) + self._missing

    @property
    def progress(self) -> int:
        return sum(caller.per_mille for caller in self._callers)

    def verdict(self) -> tuple[str, str]:
        """`done`, or `failed` with a text; both empty while an answer is awaited."""
        failure = next((caller.failure for caller in self._callers if caller.failure), "")
        if failure:
            return "failed", failure
        if self._missing:
            is_late = time.monotonic() - self._lost_s > ABSENT_S
            return ("failed", "a process went away without an answer") if is_late else ("", "")
        if not all(caller.is_done for caller in self._callers):
            return self._too_long()
        return ("done", "") if self._callers or self._was_done else ("", "")

    def _too_long(self) -> tuple[str, str]:
        """What cannot be done in its time by the work's own words is known at once."""
        request = self.request
        latest = request.deadline + (request.deadline - request.asked) * EXTENSION
        needs = max(caller.estimate_s for caller in self._callers)
        if needs <= latest:
            return "", ""
        return "failed", f"it needs {needs - time.time():.0f} s more, and has {max(0.0, latest - time.time()):.0f} s"
