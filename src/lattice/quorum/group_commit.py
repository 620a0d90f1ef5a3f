"""Group commit: while one append is in flight, proposals accumulate and become the next batch.

A batch is decoded from its own bytes before it is appended: nothing that a replica could not read enters the log, and the
proposer applies exactly what every other replica will. A failed append fails its own proposals and changes nothing. An append
whose outcome is unknown is resolved by reading its index again before anything else happens.
"""

import asyncio
import copy
import itertools
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from lattice.core.machine.codec import UnreadableBatch, decode_batch, encode_batch
from lattice.core.machine.commands import AnyCommand, Envelope, RaiseLevel
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.outcomes import Outcome
from lattice.ports.clock import Clock
from lattice.ports.quorum.log import Conflict, Entry, Log, LogFull, LogUnavailable

MAX_COMMANDS = 512
MAX_BYTES = 1 << 20
# Minimum time between the starts of two entries, if more is waiting at the end of the first.
SPACING_S = 0.003
_GIVE_UP_S = 10.0
_RETRY_S = (0.02, 0.1, 0.5, 1.0)
_READ_PAGE = 32
# What encoding and decoding raise for an invalid command.
_UNWRITABLE = (UnreadableBatch, msgspec.MsgspecError, TypeError, ValueError, OverflowError)

Waiter = asyncio.Future[Outcome]


@dataclass(frozen=True, slots=True)
class Committed:
    """An entry of the log, with the proposers that wait for it (none if another replica appended it)."""

    index: int
    envelopes: Sequence[Envelope]
    waiters: Sequence[Waiter]


class _Proposal(NamedTuple):
    command: AnyCommand
    actor: str
    command_id: str
    based_on: int
    waiter: Waiter


class _Batch(NamedTuple):
    payload: bytes
    envelopes: Sequence[Envelope]
    waiters: Sequence[Waiter]


class GroupCommit:
    """Turns single proposals into entries, in order of arrival.

    `last_index` and `last_at` are those of the newest entry; `deliver` receives each committed entry; `observe` gets the
    seconds and the number of commands of each append; while `may_append` returns false, every batch fails as a conflict;
    `level` is the cluster's level, which each entry carries.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        *,
        last_index: int,
        last_at: int,
        deliver: Callable[[Committed], Awaitable[None]],
        observe: Callable[[float, int], None],
        may_append: Callable[[], bool] = lambda: True,
        level: Callable[[], int] = lambda: OLDEST,
    ) -> None:
        self._log = log
        self._level = level
        self._may_append = may_append
        self._clock = clock
        self._last = last_index
        self._last_at = last_at
        self._deliver = deliver
        self._observe = observe
        self._pending: deque[_Proposal] = deque()
        self._in_flight: Sequence[Waiter] = ()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._unreachable: LogUnavailable | None = None
        self._name = secrets.token_hex(6)
        self._batches = itertools.count(1)

    def submit(self, command: AnyCommand, actor: str, command_id: str, based_on: int) -> Waiter:
        """The future outcome of a proposal. Raises LogUnavailable immediately while the log does not answer."""
        if self._unreachable is not None:
            raise LogUnavailable(str(self._unreachable))
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._pending.append(_Proposal(command, actor, command_id, based_on, waiter))
        self._idle.clear()
        self._wake.set()
        return waiter

    async def drained(self) -> None:
        """Returns when every proposal was appended and delivered, or failed."""
        await self._idle.wait()

    async def run(self) -> None:
        """Appends until cancelled. Ends by itself only on damage, by raising it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                begin = time.monotonic()
                batch = self._next_batch()
                if batch is not None:
                    await self._commit(batch)
                    await self._gather(begin)
            self._idle.set()

    async def _gather(self, begin: float) -> None:
        """Under load, waits so that a fast log gets larger entries: each entry costs a write and a wake-up of every loop."""
        rest_s = begin + SPACING_S - time.monotonic()
        if self._pending and rest_s > 0:
            await asyncio.sleep(rest_s)

    def fail_all(self, error: Exception) -> None:
        """Fails all waiting proposals, when the replica stops."""
        fail(self._in_flight, error)
        fail([proposal.waiter for proposal in self._pending], error)
        self._pending.clear()

    def _next_batch(self) -> _Batch | None:
        """Takes proposals that fit into one entry; fails the first one and returns None if it can never be written."""
        count = self._fitting()
        while True:
            chosen = list(itertools.islice(self._pending, count))
            try:
                payload, envelopes = self._encoded(chosen)
            except _UNWRITABLE as error:
                if count == 1:
                    fail([self._pending.popleft().waiter], error)
                    return None
                count = 1
                continue
            if len(payload) <= MAX_BYTES or count == 1:
                break
            count //= 2
        for _ in range(count):
            self._pending.popleft()
        return _Batch(payload, envelopes, [proposal.waiter for proposal in chosen])

    def _fitting(self) -> int:
        size = count = 0
        for proposal in itertools.islice(self._pending, MAX_COMMANDS):
            size += 256 + len(getattr(proposal.command, "payload", b""))
            if count and size > MAX_BYTES:
                break
            count += 1
        return count

    def _encoded(self, chosen: Sequence[_Proposal]) -> tuple[bytes, Sequence[Envelope]]:
        # Stamped here, not when proposed: time must not fall behind an entry that another proposer appended in between.
        self._last_at = max(self._clock.now_ms(), self._last_at)
        envelopes = [
            Envelope(at=self._last_at, command=command, actor=actor, command_id=command_id, based_on=based_on)
            for command, actor, command_id, based_on, _ in chosen
        ]
        raised = (command.level for command, *_ in chosen if isinstance(command, RaiseLevel))
        level = max((self._level(), *raised))
        payload = encode_batch(f"{self._name}-{next(self._batches)}", envelopes, level)
        return payload, decode_batch(payload).envelopes

    async def _commit(self, batch: _Batch) -> None:
        self._in_flight = batch.waiters
        started = time.perf_counter()
        try:
            index = await self._append(batch.payload)
        except (LogFull, LogUnavailable) as error:
            fail(batch.waiters, error)
            return
        except Conflict as error:
            await self._catch_up()
            fail(batch.waiters, error)
            return
        self._observe(time.perf_counter() - started, len(batch.envelopes))
        self._last = index
        await self._deliver(Committed(index, batch.envelopes, batch.waiters))

    async def _append(self, payload: bytes) -> int:
        if not self._may_append():
            raise Conflict("this server is no longer the leader")
        try:
            return await self._log.append(self._last, payload)
        except LogUnavailable as error:
            entry = await self._entry_behind(self._last, error)
            if entry is None:
                raise
            if entry.payload == payload:
                return entry.index
            raise Conflict(f"entry {entry.index} was written by another proposer") from error

    async def _entry_behind(self, index: int, error: LogUnavailable) -> Entry | None:
        """The entry after `index`, however long the log takes to answer; proposers receive the failure before."""
        deadline = time.monotonic() + _GIVE_UP_S
        pauses = itertools.chain(_RETRY_S, itertools.repeat(_RETRY_S[-1]))
        while True:
            try:
                entries = await self._log.read(index + 1, 1)
            except LogUnavailable:
                if time.monotonic() > deadline:
                    self._unreachable = error
                    self.fail_all(error)
                await asyncio.sleep(next(pauses))
            else:
                self._unreachable = None
                return entries[0] if entries else None

    async def _catch_up(self) -> None:
        """Delivers what another proposer appended."""
        while entries := await self._log.read(self._last + 1, _READ_PAGE):
            for entry in entries:
                envelopes = decode_batch(entry.payload).envelopes
                self._last = entry.index
                self._last_at = max((e.at for e in envelopes), default=self._last_at)
                await self._deliver(Committed(entry.index, envelopes, ()))


def fail(waiters: Sequence[Waiter], error: Exception) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(copy.copy(error))
            # The proposer may be gone.
            waiter.exception()
