"""The replica: the only owner of the state. Appends commands to the log and applies the log to the state.

It applies entries in index order, answers each proposer with the outcome of its command, notifies subscribers and takes
snapshots. It stops, and acknowledges nothing more, if an entry cannot be read or applying one raises: continuing would let replicas
diverge. If several servers share the log, it starts as a follower, which applies what another server appends, until it becomes the
leader.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field

from lattice.core.machine.codec import decode_batch
from lattice.core.machine.commands import AnyCommand, Envelope, RecordSnapshot
from lattice.core.machine.events import AnyEvent
from lattice.core.machine.levels import refusal
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.work.dags import Dag
from lattice.ports.clock import Clock
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveFilter
from lattice.ports.quorum.log import Log, LogUnavailable
from lattice.ports.quorum.replica import ReplicaStopped, Subscriber
from lattice.quorum.applier import Applier
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.group_commit import Committed, GroupCommit, Waiter, fail
from lattice.quorum.head_reader import HeadReader
from lattice.quorum.log_clock import STEP_LIMIT_S, LogClock
from lattice.quorum.losses import Losses
from lattice.quorum.snapshots.folders import SnapshotFolder, Written
from lattice.quorum.snapshots.keeper import SnapshotKeeper
from lattice.quorum.subscribers import Subscribers

SNAPSHOT_EVERY = 20_000
SNAPSHOT_EARLY = 5_000  # of a server that is alone: no other reads its log
SNAPSHOT_ON_STOP = 1_000
ACTOR = "system"
# How long applying may occupy the event loop before it yields.
_SLICE_S = 0.004
_UNAPPLIED_ENTRIES = 2
_DRAIN_S = 10.0
_LAST_SNAPSHOT_S = 20.0
_BETWEEN_S = 0.002
# Entries whose digests are remembered: replicas are compared at the newest one that all have.
_DIGESTS = 2000

_log = logging.getLogger(__name__)


@dataclass
class ReplicaCounters:
    """Counts since the start, for metrics. `on_commit` gets (seconds, commands) of every append, `on_snapshot` (seconds, bytes)."""

    commands: int = 0
    rejections: Counter[str] = field(default_factory=Counter)
    subscriber_errors: int = 0
    replayed: int = 0
    on_commit: Callable[[float, int], None] = lambda seconds, commands: None
    on_snapshot: Callable[[float, int], None] = lambda seconds, size: None


class LogReplica:
    """The replica over a log, an archive and a directory of snapshots (without one the log is never trimmed)."""

    def __init__(
        self,
        *,
        log: Log,
        archive: SqliteArchive,
        snapshots: SnapshotFolder | None,
        clock: Clock,
        snapshot_every: int = SNAPSHOT_EVERY,
        counters: ReplicaCounters | None = None,
        shared_head: Callable[[], Awaitable[int]] | None = None,
        clock_step_limit_s: float = STEP_LIMIT_S,
        steady_s: Callable[[], float] | None = None,
        losses: Losses | None = None,
    ) -> None:
        """`shared_head` reads the newest index of a log that other servers also append to."""
        self._log = log
        self._heads = None if shared_head is None else HeadReader(shared_head)
        self._archive = archive
        self._folder = snapshots
        self.clock = LogClock(clock, clock_step_limit_s, steady_s)
        self._losses = losses
        self._snapshot_every = snapshot_every
        is_usual = shared_head is None and snapshot_every == SNAPSHOT_EVERY
        self._snapshot_early = SNAPSHOT_EARLY if is_usual else None
        self.counters = counters or ReplicaCounters()
        self.snapshots: SnapshotKeeper | None = None
        self.failure: Exception | None = None
        self._applier = Applier(archive)
        self._subscribers = Subscribers()
        self._on_loaded: list[Callable[[], None]] = []
        self._index_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._committed: asyncio.Queue[Committed] = asyncio.Queue(_UNAPPLIED_ENTRIES)
        self._applying: Sequence[Waiter] = ()
        self._commit: GroupCommit | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._role: asyncio.Task[None] | None = None
        self._digests: dict[int, str] = {}
        self._is_between = True  # entries: only between them does the state belong to an index
        self._refusal = "the replica has not started"
        self._stopped = asyncio.Event()

    @property
    def state(self) -> State:
        return self._applier.state

    @property
    def applied_index(self) -> int:
        return self._applier.index

    @property
    def is_leader(self) -> bool:
        return not self._refusal

    @property
    def archive_damage(self) -> str:
        """Why finished work cannot be read; empty while it can."""
        return self._archive.damage

    @property
    def epoch(self) -> int:
        """The epoch of the log, once it is open."""
        return self._log.epoch

    # proposing

    async def propose(
        self, command: AnyCommand, *, actor: str, command_id: str = "", based_on: int | None = None
    ) -> Outcome:
        return await self._submit(command, actor, command_id, based_on)

    async def propose_many(
        self, commands: Sequence[AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        waiters = [self._submit(command, actor, "", based_on) for command in commands]
        if waiters:
            await asyncio.wait(waiters)
        # Retrieves every failure and raises one: the others are the same.
        failures = [error for waiter in waiters if (error := waiter.exception()) is not None]
        if failures:
            raise failures[0]
        return [waiter.result() for waiter in waiters]

    def _submit(self, command: AnyCommand, actor: str, command_id: str, based_on: int | None) -> Waiter:
        if self._refusal or self._commit is None:
            raise ReplicaStopped(self._refusal)
        refused = refusal(command, self.state.level)
        if refused is not None:
            self.counters.rejections[refused.code] += 1
            waiter: Waiter = asyncio.get_running_loop().create_future()
            waiter.set_result(refused)
            return waiter
        seen = self.applied_index if based_on is None else based_on
        return self._commit.submit(command, actor, command_id, seen)

    async def _record_snapshot(self, command: RecordSnapshot) -> Outcome:
        # Also while stopping, when no other caller may propose.
        if self.failure is not None:
            raise ReplicaStopped(self._refusal)
        if self._commit is None:
            return Accepted()  # the leader records its own
        return await self._commit.submit(command, ACTOR, "", self.applied_index)

    # following

    def subscribe(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        return self._subscribers.add(callback, of)

    def on_loaded(self, callback: Callable[[], None]) -> None:
        """Calls back during `start`, after a snapshot is loaded and before the log after it is applied.

        Those who have subscribed by then receive the events of the log, and all later ones.
        """
        self._on_loaded.append(callback)

    def _tell_loaded(self) -> None:
        for callback in self._on_loaded:
            callback()

    async def wait_for(self, index: int) -> None:
        if index <= self.applied_index:
            return
        if self._stopped.is_set():
            raise ReplicaStopped(self._refusal)
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._index_waiters.append((index, reached))
        await reached

    async def read_index(self) -> int:
        if self._heads is not None:
            return await self._heads.read()
        # The only appender applies a command before it acknowledges it.
        return self.applied_index

    def digest_at(self, index: int) -> str | None:
        """The state's digest right after an entry; None if the entry is too old or not applied yet."""
        known = self._digests.get(index)
        # A long entry is applied in slices: in between, the state is neither that of one entry nor of the next.
        if known is None and index == self.applied_index and self._is_between:
            return self.state.digest()
        return known

    async def snapshot_now(self, *, makes_room: bool = False) -> Written:
        """Takes a snapshot of the current state. Raises one of `snapshot_keeper.FAILURES`.

        With `makes_room` the log is trimmed up to it, even by a follower and even if that cannot be recorded.
        """
        keeper = self.snapshots
        if keeper is None:
            raise ReplicaStopped("this server takes no snapshots: its log is only in memory")
        while keeper.is_busy or not self._is_between:
            await keeper.wait_idle()
            await asyncio.sleep(_BETWEEN_S)
        return await keeper.take(self.applied_index, self.state, makes_room=makes_room)

    async def wait_stopped(self) -> None:
        """Returns when the replica has ended; `failure` is then the reason, None after `stop`."""
        await self._stopped.wait()

    async def archived(self, number: int) -> ArchivedRecord | None:
        return await self._archive.archived(number)

    async def archived_payload(self, number: int) -> bytes:
        return await self._archive.archived_payload(number)

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        return await self._archive.archived_page(wanted, before, limit)

    async def archived_dag(self, number: int) -> Dag | None:
        return await self._archive.archived_dag(number)

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        return await self._archive.archived_dags(user, tenant, before, limit)

    # starting and stopping

    async def start(self) -> None:
        """Opens everything and brings the state up to the newest entry. Raises if that is not safe."""
        await self._log.open()
        try:
            await self._archive.open()
            self.counters.replayed = await self._applier.recover(
                self._log, self._folder, loaded=self._tell_loaded, publish=self._publish, losses=self._losses
            )
        except BaseException:
            await self._archive.close()
            await self._log.close()
            raise
        self.clock.note(self.state.last_at)
        if self._folder is not None:
            self.snapshots = SnapshotKeeper(
                self._folder,
                self._log,
                self._archive,
                self._record_snapshot,
                every=self._snapshot_every,
                early=self._snapshot_early,
                commands_since=self.counters.replayed,
                trims=lambda: self._commit is not None,
                on_taken=self.counters.on_snapshot,
            )
        self._tasks.append(asyncio.create_task(self._guarded(self._apply_forever), name="replica apply"))
        if self._heads is None:
            self._begin_to_append(lambda: True)
        else:
            self._remember_digest(self.applied_index)
            self._begin_to_follow()

    async def lead(self, may_append: Callable[[], bool]) -> None:
        """From follower to leader, once everything in the log is applied."""
        await self.wait_for(await self.read_index())
        await self._leave_role()
        self._begin_to_append(may_append)

    async def follow(self, why: str) -> None:
        """From leader to follower; proposals that are not applied yet fail with an unknown outcome."""
        self._refusal = self._refusal or why
        await self._leave_role()
        if self._commit is not None:
            self._commit.fail_all(LogUnavailable(why))
            self._commit = None
        if not self._stopped.is_set():
            self._begin_to_follow()

    def _begin_to_append(self, may_append: Callable[[], bool]) -> None:
        self._commit = GroupCommit(
            self._log,
            self.clock,
            last_index=self.applied_index,
            last_at=self.state.last_at,
            deliver=self._committed.put,
            observe=self.counters.on_commit,
            may_append=may_append,
            level=lambda: self.state.level,
        )
        self._refusal = ""
        self._role = asyncio.create_task(self._guarded(self._commit.run), name="replica append")

    def _begin_to_follow(self) -> None:
        self._refusal = self._refusal or "this server is not the leader"
        self._role = asyncio.create_task(self._guarded(self._follow_log), name="replica follow")

    async def _follow_log(self) -> None:
        async for entry in self._log.tail(self.applied_index + 1):
            envelopes = decode_batch(entry.payload).envelopes
            await self._committed.put(Committed(entry.index, envelopes, ()))

    async def _leave_role(self) -> None:
        """Ends appending or following; afterwards the state contains all its results."""
        role, self._role = self._role, None
        if role is not None:
            role.cancel()
            await asyncio.gather(role, return_exceptions=True)
        # However long it takes: entries left in the queue would be applied twice.
        while not await self._or_stopped(self._committed.join()) and not self._stopped.is_set():
            _log.warning("entries are still being applied")

    async def stop(self) -> None:
        """Finishes proposals, takes a last snapshot if many entries came since the newest, closes everything."""
        if not self._tasks:
            return
        self._refusal = self._refusal or "the replica is shutting down"
        if self._commit is None:
            await self._leave_role()
        is_drained = await self._drain()
        if self.snapshots is not None:
            # In the middle of an entry the state does not belong to an index.
            if self.failure is None and is_drained:
                await self._take_last_snapshot(self.snapshots)
            await self.snapshots.cancel()
        tasks = [*self._tasks, *([] if self._role is None else [self._role])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        await self._archive.close()
        await self._log.close()
        self._end(ReplicaStopped(self._refusal))

    async def _drain(self) -> bool:
        """Whether all proposals are applied: waits for that, for a failure, or for a time limit."""
        is_done = True
        if self._commit is not None:
            is_done = await self._or_stopped(self._commit.drained())
        return await self._or_stopped(self._committed.join()) and is_done

    async def _or_stopped(self, step: Coroutine[None, None, None]) -> bool:
        """Whether the step finished in time and without a failure."""
        failed = asyncio.create_task(self._stopped.wait())
        waiting = asyncio.create_task(step)
        await asyncio.wait((waiting, failed), timeout=_DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        is_done = waiting.done()
        waiting.cancel()
        failed.cancel()
        return is_done

    async def _take_last_snapshot(self, keeper: SnapshotKeeper) -> None:
        try:
            async with asyncio.timeout(_LAST_SNAPSHOT_S):
                await keeper.finish(self.applied_index, self.state, SNAPSHOT_ON_STOP)
        except TimeoutError:
            _log.error("no snapshot within %s s while stopping: the next start reads the log instead", _LAST_SNAPSHOT_S)
        await self._drain()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001  # nothing may be acknowledged after any failure
            _log.critical("the replica stops and acknowledges nothing more: %s", error, exc_info=error)
            self.failure = error
            self._refusal = f"the replica has stopped: {error}"
            self._end(ReplicaStopped(self._refusal))
            for task in (*self._tasks, self._role):
                if task is not None and task is not asyncio.current_task():
                    task.cancel()

    def _end(self, error: ReplicaStopped) -> None:
        fail(self._applying, error)
        while not self._committed.empty():
            fail(self._committed.get_nowait().waiters, error)
        if self._commit is not None:
            self._commit.fail_all(error)
        for _, reached in self._index_waiters:
            if not reached.done():
                reached.set_exception(error)
        self._index_waiters.clear()
        self._stopped.set()

    # applying

    async def _apply_forever(self) -> None:
        while True:
            committed = await self._committed.get()
            await self._apply_entry(committed)
            self._committed.task_done()

    async def _apply_entry(self, committed: Committed) -> None:
        self._applying = committed.waiters
        self._is_between = False
        waiters = iter(committed.waiters)
        slice_end = time.monotonic() + _SLICE_S
        for envelope in committed.envelopes:
            # Before, not after: nothing else may run between the last outcome and the new index.
            if time.monotonic() > slice_end:
                await asyncio.sleep(0)
                slice_end = time.monotonic() + _SLICE_S
            outcome = self._applier.apply(committed.index, envelope)
            if isinstance(outcome, Rejected):
                self.counters.rejections[outcome.code] += 1
            elif outcome.events:
                self._publish(committed.index, envelope, outcome.events)
            waiter = next(waiters, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(outcome)
        self._applier.index = committed.index
        self._is_between = True
        self.clock.note(self.state.last_at)
        if self._heads is not None:
            self._remember_digest(committed.index)
        self.counters.commands += len(committed.envelopes)
        self._wake_index_waiters()
        if self.snapshots is not None:
            self.snapshots.note(len(committed.envelopes), self.applied_index, self.state)

    def _remember_digest(self, index: int) -> None:
        self._digests[index] = self.state.digest()
        if len(self._digests) > _DIGESTS:
            del self._digests[next(iter(self._digests))]

    def _publish(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for callback in self._subscribers.for_events(events):
            try:
                callback(index, envelope, events)
            except Exception:  # noqa: BLE001  # a failing subscriber must not affect the others
                self.counters.subscriber_errors += 1
                _log.exception("a subscriber failed on entry %d", index)

    def _wake_index_waiters(self) -> None:
        if not self._index_waiters:
            return
        for index, reached in self._index_waiters:
            if index <= self.applied_index and not reached.done():
                reached.set_result(None)
        self._index_waiters = [pair for pair in self._index_waiters if not pair[1].done()]
