"""The replicated log: entries as keys of etcd, for a cluster of several servers.

The fence is the compare of the append, not the leader's lease: entry i + 1 is written only while it is absent and entry i is
present. With only the first check a trimmed index could be reused; that is why entry 0 always exists and why
the newest entry is never trimmed. An error is not a failure: the transaction may have happened. Every append has a unique id in
its value, is retried at the same index, and finds itself in the answer of the failed compare if an earlier attempt succeeded.
::

    lattice/epoch         the epoch; an append of another epoch is refused
    lattice/log/head      the newest index, written with each entry
    lattice/log/e/INDEX   20 digits -> format, checksum, id of the append, payload

A database that has reached its quota accepts only deletions: `trim` frees space, returns it to the file system, one member
after the other, and clears the alarm.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import NoReturn, TypeVar

from lattice.core.machine.codec import decode_batch
from lattice.ports.quorum.log import (
    Conflict,
    Entry,
    LogCorrupt,
    LogError,
    LogFull,
    LogStart,
    LogUnavailable,
    Trimmed,
)
from lattice.quorum.etcd.client import (
    EtcdClient,
    EtcdCorrupt,
    EtcdError,
    EtcdFull,
    EtcdUnavailable,
)
from lattice.quorum.etcd.keys import (
    HEAD,
    MAX_PAYLOAD_BYTES,
    append_request,
    entry_key,
    frame,
    index_of,
    new_append_id,
    page_request,
    read_number,
    setup_request,
    trim_request,
    unframe,
)
from lattice.quorum.logs import etcd_space
from lattice.quorum.logs.epochs import new_epoch
from lattice.wire.pb import etcd_pb2 as pb

APPEND_WITHIN_S = 10.0
# Time-outs of the attempts of one request: a member without a leader accepts it and never answers, so the first ones determine
# the gap after the death of a leader; the later ones are for slow disks.
TRIES_S = (1.0, 0.5, 0.5, 1.0, 2.0)
_PAUSES_S = (0.02, 0.05, 0.1, 0.2)
# Entries requested per call: at their largest they still fit into one message.
_PAGE = 32
# Entries deleted per call: appends run between two calls.
_TRIM_STEP = 500
_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class EtcdLog:
    """A log in etcd. It owns the client: `close` closes it, and the log may be opened only once.

    `start` is where a new log starts after a restore; a log that started elsewhere is then refused.
    """

    def __init__(
        self, client: EtcdClient, *, append_within_s: float = APPEND_WITHIN_S, start: LogStart | None = None
    ) -> None:
        self._client = client
        self._start = start
        self._append_within_s = append_within_s
        self._epoch = 0
        self._first = 1
        self._opened = False
        self._closed: asyncio.Future[None] | None = None
        self._abandoned: set[asyncio.Task[int]] = set()

    @property
    def epoch(self) -> int:
        """The epoch: it rises with every log that is created or restored."""
        return self._epoch

    async def open(self) -> None:
        if self._opened:
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._opened = True
        try:
            epoch = new_epoch() if self._start is None else self._start.epoch
            answer = await self._retried(setup_request(epoch, self._start))
            found = answer.responses[0].response_range.kvs if not answer.succeeded else ()
            self._epoch = read_number(found[0].value) if found else epoch
            self._first, _ = await self.bounds()
            if self._start is not None and self._epoch != epoch:
                await self._check_same_restore(self._start)
        except BaseException:
            await self.close()
            raise

    async def _check_same_restore(self, start: LogStart) -> None:
        """Another server was first. Its log is also ours if it restored the same backup, or if our data is of its epoch."""
        if self._epoch == start.former:
            return
        first = await self.read(start.index, 1) if self._first <= start.index else ()
        if not first or decode_batch(first[0].payload).batch_id != decode_batch(start.payload).batch_id:
            raise LogCorrupt(
                f"the members have another log (epoch {self._epoch}) than the restored one: a server started without the backup; "
                "stop all servers, empty their data directories, and restore again"
            )

    async def close(self) -> None:
        self._opened = False
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        await self._client.close()
        await asyncio.gather(*self._abandoned, return_exceptions=True)

    async def head(self) -> int:
        """The newest index, linearizable: every entry acknowledged before this call is at or below it."""
        self._check_open()
        answer = await self._retried(pb.TxnRequest(success=[_get(HEAD)]))
        return self._head_in(answer.responses[0])

    async def bounds(self) -> tuple[int, int]:
        self._check_open()
        await self._settled()
        oldest = _get(entry_key(self._first), keys_only=True)
        answer = await self._retried(pb.TxnRequest(success=[_get(HEAD), oldest]))
        last = self._head_in(answer.responses[0])
        if not answer.responses[1].response_range.kvs and last >= self._first:
            await self._find_first()
        return self._first, last

    async def append(self, expected_last: int, payload: bytes) -> int:
        self._check_open()
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise LogFull(f"an entry of {len(payload)} bytes is too large: the maximum is {MAX_PAYLOAD_BYTES}")
        await self._settled()
        # A cancelled caller must not leave a transaction with an unknown outcome behind.
        task = asyncio.create_task(self._append(expected_last, payload))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._abandoned.add(task)
            task.add_done_callback(self._forget)
            raise

    async def read(self, first: int, limit: int) -> Sequence[Entry]:
        self._check_open()
        found: list[Entry] = []
        while len(found) < limit:
            wanted = min(_PAGE, limit - len(found))
            page, _ = await self._page(first + len(found), wanted)
            found += page
            if len(page) < wanted:
                break
        return found

    async def tail(self, first: int) -> AsyncIterator[Entry]:
        pauses = _pauses()
        while True:
            self._check_open()
            try:
                page, revision = await self._page(first, _PAGE)
                for entry in page:
                    yield entry
                first += len(page)
                if page:
                    pauses = _pauses()
                    continue
                async for entry in self._watched(first, revision + 1):
                    yield entry
                    first = entry.index + 1
                    pauses = _pauses()
            except LogUnavailable as error:
                self._check_open()
                _log.warning("cannot follow the log, retrying: %s", error)
                await self._or_closed(asyncio.sleep(next(pauses)))

    async def is_full(self) -> bool:
        """Whether a member has reached its quota, which blocks all appends."""
        self._check_open()
        try:
            return await etcd_space.is_full(self._client)
        except EtcdError as error:
            _raise(error)

    async def trim(self, before: int) -> None:
        self._check_open()
        first, last = await self.bounds()
        goal = min(before, last)
        revision = 0
        while first < goal:
            step = min(goal, first + _TRIM_STEP)
            # From the very first entry, which also removes what an interrupted trim left behind.
            answer = await self._retried(trim_request(step))
            revision = answer.header.revision
            if answer.succeeded:
                self._first = step
            else:
                await self._find_first()
            first = self._first
        try:
            await etcd_space.give_back(self._client, revision)
        except EtcdError as error:
            _raise(error)

    async def _append(self, expected_last: int, payload: bytes) -> int:
        index = expected_last + 1
        own = new_append_id()
        request = append_request(self._epoch, index, frame(own, payload))
        deadline = time.monotonic() + self._append_within_s
        unknown = False
        for pause, try_s in _tries():
            try:
                answer = await self._client.txn(request, try_s)
                return self._appended(index, own, answer)
            except EtcdFull as error:
                return await self._appended_though_full(index, own, error, unknown=unknown)
            except EtcdUnavailable as error:
                unknown = True
                if not self._opened or time.monotonic() + pause > deadline:
                    raise LogUnavailable(f"entry {index}: {error}") from error
            except EtcdError as error:
                _raise(error)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: attempts never end")

    def _appended(self, index: int, own: bytes, answer: pb.TxnResponse) -> int:
        if answer.succeeded:
            return index
        at_index, head, epoch = (response.response_range for response in answer.responses)
        if at_index.kvs and unframe(index, at_index.kvs[0].value)[0] == own:
            return index
        present = read_number(epoch.kvs[0].value) if epoch.kvs else 0
        if present != self._epoch:
            raise Conflict(f"the cluster was restored: it is in epoch {present}, this server in {self._epoch}")
        newest = read_number(head.kvs[0].value) if head.kvs else 0
        raise Conflict(f"entry {index} cannot follow: the newest entry is {newest}")

    async def _appended_though_full(self, index: int, own: bytes, error: EtcdFull, *, unknown: bool) -> int:
        # The transaction that reaches the quota is both applied and refused: what is stored decides.
        try:
            answer = await self._client.txn(pb.TxnRequest(success=[_get(entry_key(index))]))
        except EtcdError as failure:
            raise LogUnavailable(f"entry {index}: {error}; then {failure}") from failure
        found = answer.responses[0].response_range.kvs
        if found and unframe(index, found[0].value)[0] == own:
            return index
        if unknown and not found:
            raise LogUnavailable(f"entry {index}: an earlier attempt may still succeed; {error}") from error
        raise LogFull(f"entry {index}: {error}") from error

    async def _page(self, first: int, limit: int) -> tuple[list[Entry], int]:
        """Entries from `first` on and the revision at which they were read."""
        answer = await self._retried(page_request(first, limit))
        self._check_open()
        entries = [_entry(kv) for kv in answer.responses[0].response_range.kvs if index_of(kv.key) > 0]
        head = self._head_in(answer.responses[1])
        if [entry.index for entry in entries] != list(range(first, min(head, first + limit - 1) + 1)):
            await self._find_first()
            if first >= self._first:
                raise LogCorrupt(f"entries between {first} and {head} are missing; restore the cluster from a backup")
        if first < self._first:
            raise Trimmed(self._first)
        return entries, answer.header.revision

    async def _watched(self, first: int, revision: int) -> AsyncIterator[Entry]:
        """New entries in order. Ends when they must be read again: after a compaction, or if one is missing."""
        request = pb.WatchCreateRequest(
            key=entry_key(first),
            range_end=entry_key(None),
            start_revision=revision,
            filters=[pb.WatchCreateRequest.NODELETE],
            fragment=True,
        )
        watch = self._client.watch(request)
        try:
            while True:
                response = await self._or_closed(anext(watch, None))
                if response is None:
                    return
                for event in response.events:
                    entry = _entry(event.kv)
                    if entry.index > first:
                        return
                    if entry.index == first:
                        yield entry
                        first += 1
        except EtcdError as error:
            _raise(error)
        finally:
            await watch.aclose()

    async def _find_first(self) -> None:
        """Finds the oldest entry by scanning all of them, hence only if the known one is gone."""
        everything = pb.RangeRequest(key=entry_key(1), range_end=entry_key(None), limit=1, keys_only=True)
        answer = await self._retried(pb.TxnRequest(success=[pb.RequestOp(request_range=everything)]))
        found = answer.responses[0].response_range.kvs
        self._first = index_of(found[0].key) if found else 1

    async def _retried(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """An idempotent transaction."""
        deadline = time.monotonic() + self._append_within_s
        for pause, try_s in _tries():
            try:
                return await self._client.txn(request, try_s)
            except EtcdUnavailable as error:
                if not self._opened or time.monotonic() + pause > deadline:
                    raise LogUnavailable(str(error)) from error
            except EtcdError as error:
                _raise(error)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: attempts never end")

    async def _settled(self) -> None:
        if self._abandoned:
            await asyncio.wait(self._abandoned)

    def _forget(self, task: asyncio.Task[int]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()

    async def _or_closed(self, action: Awaitable[_T]) -> _T:
        assert self._closed is not None  # noqa: S101 - set by open
        task = asyncio.ensure_future(action)
        try:
            await asyncio.wait((task, self._closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._closed.done():
            if task.done() and not task.cancelled():
                task.exception()
            raise LogUnavailable("the log is closed")
        return task.result()

    def _head_in(self, response: pb.ResponseOp) -> int:
        found = response.response_range.kvs
        if not found:
            raise LogCorrupt("the log's head is missing; restore the cluster from a backup")
        return read_number(found[0].value)

    def _check_open(self) -> None:
        if not self._opened:
            raise LogUnavailable("the log is closed")


def _get(key: bytes, *, keys_only: bool = False) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key, keys_only=keys_only))


def _entry(kv: pb.KeyValue) -> Entry:
    index = index_of(kv.key)
    return Entry(index, unframe(index, kv.value)[1]) if index else Entry(0, b"")


def _pauses() -> Iterator[float]:
    return itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1]))


def _tries() -> Iterator[tuple[float, float]]:
    return zip(_pauses(), itertools.chain(TRIES_S, itertools.repeat(TRIES_S[-1])), strict=True)


def _raise(error: EtcdError) -> NoReturn:
    kind: type[LogError]
    match error:
        case EtcdFull():
            kind = LogFull
        case EtcdCorrupt():
            kind = LogCorrupt
        case _:
            kind = LogUnavailable
    raise kind(str(error)) from error
