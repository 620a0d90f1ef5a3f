"""The election over etcd: a key under a lease, which its holder renews.

A silent holder loses the key with its lease. That takes seconds, and longer if etcd itself elects a new leader, because that
restarts all leases. So a candidate also checks the holder's own member, which dies with its server: if it is gone, the candidate
takes the key immediately. A premature takeover only costs a change of leader, because the log's compare is the fence.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from lattice.quorum.etcd.client import EtcdClient, EtcdError, EtcdRefused
from lattice.quorum.etcd.keys import EPOCH, LEADER, read_number
from lattice.wire.pb import etcd_pb2 as pb

LEASE_S = 4
_RENEWALS = 6
_TICK_S = 0.25
_PING_S = 1.0
# Proposals to a dead leader are lost: retry soon, so that the new one answers. The later tries are for slow disks, on which short
# ones would only add to the work: etcd carries out what no server waits for any more.
_TRIES_S = (0.5, 0.5, 1.0, 2.0)
_SILENT_PINGS = 3
# A younger leader is not replaced: servers that cannot reach each other must not alternate.
SETTLED_S = 3.0
# A server that gave up the key does not campaign for this long.
_REST_S = 1.0
# The cluster's epoch is in the high bits, above the revision, which a restore may reset.
_REVISION_BITS = 48

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Holder(msgspec.Struct, frozen=True):
    """The holder of the key: a server, the address of its member, and its run. Without a run, the key is offered to that server."""

    name: str
    endpoint: str
    run: str


@dataclass(frozen=True)
class _Seen:
    holder: Holder
    revision: int
    since: float


class EtcdLeadership:
    """One server's part in the election. `endpoint` is the address of its own member."""

    def __init__(
        self, client: EtcdClient, name: str, endpoint: str, *, lease_s: int = LEASE_S, settled_s: float = SETTLED_S
    ) -> None:
        self._client = client
        self._settled_s = settled_s
        self._me = Holder(name, endpoint, secrets.token_hex(8))
        self._lease_s = lease_s
        self._seen: _Seen | None = None
        self._epoch = 0
        self._lease = 0
        self._revision = 0
        self._sure_until = 0.0
        self._rest_until = 0.0
        self._silent = 0
        self._late = 0  # calls that got no answer in their time since another server began to lead
        self._changes_seen = 1
        self._said: dict[str, int] = {}
        self._asked: EtcdClient | None = None
        self._losses: list[Callable[[], None]] = []
        self._changes: list[Callable[[], None]] = []
        self._moved = asyncio.Event()
        self._observer: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None

    @property
    def is_leader(self) -> bool:
        return bool(self._lease) and time.monotonic() < self._sure_until

    @property
    def leader_name(self) -> str:
        if self.is_leader:
            return self._me.name
        # An offer names a server that does not lead yet; our own name is outdated.
        if self._seen is None or self._seen.holder.run in ("", self._me.run):
            return ""
        return self._seen.holder.name

    @property
    def epoch(self) -> int:
        return self._epoch

    def on_loss(self, callback: Callable[[], None]) -> None:
        self._losses.append(callback)

    def on_change(self, callback: Callable[[], None]) -> None:
        self._changes.append(callback)

    async def open(self) -> None:
        if self._observer is None:
            self._observer = asyncio.create_task(self._observe())

    async def close(self) -> None:
        observer, self._observer = self._observer, None
        await self.resign()
        if observer is not None:
            observer.cancel()
            await asyncio.gather(observer, return_exceptions=True)
        if self._asked is not None:
            await self._asked.close()

    async def campaign(self) -> int:
        while not self.is_leader:
            moved = self._moved
            try:
                if await self._try():
                    break
            except EtcdError as error:
                self._say_once("campaign", "server %s cannot campaign now: %s", self._me.name, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await moved.wait()
        return self._epoch

    async def resign(self, successor: str = "") -> None:
        lease, revision = self._lease, self._revision
        if not lease:
            return
        self._rest_until = time.monotonic() + _REST_S
        self._lost("it resigned")
        try:
            if successor:
                await self._offer(successor, lease, revision)
            else:
                await self._client.revoke(lease, 1.0)
        except EtcdError as error:
            _log.info("leadership of %s will end with its lease: %s", self._me.name, error)

    async def _offer(self, successor: str, lease: int, revision: int) -> None:
        """Leaves the key to the successor, which has the lease's time to take it; then any server may."""
        offer = Holder(successor, "", "")
        deadline = time.monotonic() + self._lease_s
        while True:
            try:
                if await self._write(offer, lease, revision):
                    await self._client.keep_alive(lease, self._try_s)
                return
            except EtcdError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_TICK_S)

    # taking the key

    async def _try(self) -> bool:
        seen = self._seen
        if time.monotonic() < self._rest_until:
            return False
        if seen is None:
            return await self._acquire(0)
        # An earlier run of this server is dead: it had the same ports.
        mine = seen.holder.name == self._me.name
        if mine or await self._is_gone(seen):
            return await self._acquire(seen.revision)
        return False

    async def _acquire(self, revision: int) -> bool:
        """Takes the key if it is unchanged since `revision`; 0 for a missing key."""
        begin = time.monotonic()
        lease = (await self._in_time(self._client.grant(self._lease_s, self._try_s))).ID
        if await self._write(self._me, lease, revision):
            self._leads(lease, begin)
            return True
        with contextlib.suppress(EtcdError):
            await self._client.revoke(lease, self._try_s)
        await self._look()
        return False

    async def _write(self, holder: Holder, lease: int, revision: int) -> bool:
        compare = pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.MOD, key=LEADER, mod_revision=revision)
        value = msgspec.json.encode(holder)
        request = pb.TxnRequest(
            compare=[compare],
            success=[
                pb.RequestOp(request_put=pb.PutRequest(key=LEADER, value=value, lease=lease)),
                pb.RequestOp(request_range=pb.RangeRequest(key=EPOCH)),
            ],
        )
        answer = await self._in_time(self._client.txn(request, self._try_s))
        if answer.succeeded and holder.run:
            self._revision = answer.header.revision
            self._note_epoch(answer.responses[1].response_range, self._revision)
        return answer.succeeded

    @property
    def _try_s(self) -> float:
        return _TRIES_S[min(self._late, len(_TRIES_S) - 1)]

    async def _in_time(self, call: Awaitable[_T]) -> _T:
        """Its answer. If none comes in its time, the next calls get more, until there is another leader."""
        deadline = time.monotonic() + self._try_s
        try:
            return await call
        except EtcdError:
            self._late += time.monotonic() >= deadline
            raise

    async def _is_gone(self, seen: _Seen) -> bool:
        if not seen.holder.endpoint:
            return False
        try:
            status = await (await self._other(seen.holder.endpoint)).status(_PING_S)
            why = "" if status.leader else "it is cut off from the majority"
        except EtcdError as error:
            why = str(error)
        self._silent = self._silent + 1 if why else 0
        # Nothing listens there: this is not a partition, so there is no reason to wait for a settled leader.
        is_dead = "Connection refused" in why
        if self._silent < _SILENT_PINGS or (not is_dead and time.monotonic() - seen.since < self._settled_s):
            return False
        self._say_once("take over", "taking over from %s, whose member does not work: %s", seen.holder.name, why)
        return True

    def _say_once(self, what: str, text: str, *values: object) -> None:
        """A server without a majority may try for hours: it logs the reason once, until there is another leader."""
        is_news = self._said.get(what, 0) != self._changes_seen
        self._said[what] = self._changes_seen
        _log.log(logging.WARNING if is_news else logging.DEBUG, text, *values)

    async def _other(self, endpoint: str) -> EtcdClient:
        """A client for the holder's member, kept while the holder is the same."""
        if self._asked is None or self._asked.endpoint != endpoint:
            if self._asked is not None:
                await self._asked.close()
            self._asked = self._client.at(endpoint)
        return self._asked

    # keeping it

    def _leads(self, lease: int, begin: float) -> None:
        self._lease = lease
        self._late = 0
        self._sure_until = begin + self._lease_s
        self._seen = _Seen(self._me, self._revision, time.monotonic())
        self._renewer = asyncio.create_task(self._renew(lease))
        self._tell()
        _log.info("server %s is the leader in epoch %d", self._me.name, self._epoch)

    async def _renew(self, lease: int) -> None:
        every_s = self._lease_s / _RENEWALS
        while self._lease == lease:
            begin = time.monotonic()
            if begin >= self._sure_until:
                self._lost("the lease could not be renewed in time")
                return
            try:
                ttl_s = await self._client.keep_alive(lease, min(every_s * 2, self._sure_until - begin))
            except EtcdError as error:
                _log.warning("cannot renew the lease of %s: %s", self._me.name, error)
            else:
                if ttl_s == 0:
                    self._lost("the lease has ended")
                    return
                self._sure_until = begin + self._lease_s
            await asyncio.sleep(every_s)

    def _lost(self, why: str) -> None:
        if not self._lease:
            return
        _log.warning("server %s lost leadership: %s", self._me.name, why)
        self._lease = 0
        renewer, self._renewer = self._renewer, None
        if renewer is not None and renewer is not asyncio.current_task():
            renewer.cancel()
        for callback in self._losses:
            callback()
        self._tell()

    # following

    async def _observe(self) -> None:
        while True:
            try:
                revision = await self._look()
                watch = self._client.watch(pb.WatchCreateRequest(key=LEADER, start_revision=revision + 1))
                async with contextlib.aclosing(watch):
                    async for response in watch:
                        if response.events:
                            await self._look()
            except (EtcdError, msgspec.DecodeError) as error:
                if isinstance(error, EtcdRefused | msgspec.DecodeError):
                    _log.error("cannot read the current leader: %s", error)
                await asyncio.sleep(_TICK_S)

    async def _look(self) -> int:
        """Reads the current leader; returns the revision of that answer."""
        gets = [pb.RequestOp(request_range=pb.RangeRequest(key=key)) for key in (LEADER, EPOCH)]
        answer = await self._in_time(self._client.txn(pb.TxnRequest(success=gets), self._try_s))
        leader, epoch = (response.response_range for response in answer.responses)
        # An answer from before we took the key does not apply.
        if answer.header.revision < self._revision:
            return answer.header.revision
        if not leader.kvs:
            self._saw(None)
        else:
            kv = leader.kvs[0]
            holder = msgspec.json.decode(kv.value, type=Holder)
            if self._seen is None or self._seen.revision != kv.mod_revision:
                self._note_epoch(epoch, kv.mod_revision)
                self._saw(_Seen(holder, kv.mod_revision, time.monotonic()))
        return answer.header.revision

    def _saw(self, seen: _Seen | None) -> None:
        if seen == self._seen:
            return
        self._seen = seen
        self._silent = 0
        self._late = 0 if seen is not None else self._late
        if self._lease and (seen is None or seen.revision != self._revision):
            self._lost("another server holds the key" if seen is not None else "the key is gone")
        self._tell()

    def _note_epoch(self, found: pb.RangeResponse, revision: int) -> None:
        cluster = read_number(found.kvs[0].value) if found.kvs else 1
        self._epoch = max(self._epoch, (cluster << _REVISION_BITS) + revision)

    def _tell(self) -> None:
        self._changes_seen += 1
        self._moved.set()
        self._moved = asyncio.Event()
        for callback in self._changes:
            callback()
