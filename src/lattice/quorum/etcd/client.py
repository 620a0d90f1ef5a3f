"""Calls to etcd: channels with mutual TLS, failover between endpoints, errors classified by meaning.

Errors of this boundary::

    EtcdError
    +- EtcdUnavailable   no answer, or one that does not say whether the request took effect
    |  +- EtcdDenied     this server's user may do nothing: it was removed, or does not belong to the cluster yet
    +- EtcdFull          the database has reached its quota
    +- EtcdCorrupt       members disagree about their data: writing is not allowed
    +- EtcdCompacted     the requested revision is gone
    +- EtcdRefused       refused; nothing happened
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio

from lattice.quorum.trust.certificates import CertificateFolder
from lattice.wire.channels import server_channel
from lattice.wire.pb import etcd_pb2 as pb
from lattice.wire.pb import etcd_pb2_grpc as stubs

CALL_TIMEOUT_S = 3.0
MAX_MESSAGE_BYTES = 64 << 20
_FAREWELL_S = 5.0
_LOOK_HOME_EVERY_S = 5.0
# A stream ends when its member has lost the majority, instead of going silent.
_NEEDS_LEADER = grpc.aio.Metadata(("hasleader", "true"))
# A member closes connections that ping more often than every 5 s.
_OPTIONS = server_channel(ping_every_s=7.0, give_up_s=3.0, max_message_bytes=MAX_MESSAGE_BYTES)
# etcd's answers if its users changed between the arrival of a request and its execution, which then does not happen.
_OLD_USERS = ("revision in header is old", "revision of auth store is old")
# A member that lags answers so until it has caught up.
_USERS_CHANGED_PAUSES_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
# Its answers to a certificate that names no user, in requests about data, about the cluster, and about one member.
_NO_SUCH_USER = ("permission denied", "user name not found", "user not found")
_T = TypeVar("_T")


class EtcdError(Exception):
    """Any failure of a call."""


class EtcdUnavailable(EtcdError):
    """No answer, or none that says whether the request took effect."""


class EtcdDenied(EtcdUnavailable):
    """This server's user may do nothing: it was removed, or does not belong to the cluster yet."""


class EtcdFull(EtcdError):
    """The database has reached its quota."""


class EtcdCorrupt(EtcdError):
    """The members disagree about their data."""


class EtcdCompacted(EtcdError):
    """The requested revision is gone."""


class EtcdRefused(EtcdError):
    """Refused; nothing happened."""


class _UsersChanged(EtcdUnavailable):
    """Users changed while the request was on its way; it had no effect."""


class _Connection:
    """One endpoint with all services."""

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials) -> None:
        self.endpoint = endpoint
        self.channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        self.kv = stubs.KVStub(self.channel)
        self.watch = stubs.WatchStub(self.channel)
        self.lease = stubs.LeaseStub(self.channel)
        self.cluster = stubs.ClusterStub(self.channel)
        self.maintenance = stubs.MaintenanceStub(self.channel)
        self.auth = stubs.AuthStub(self.channel)


class EtcdClient:
    """Calls to the members at `endpoints` (host:port): the first while it answers, then the next."""

    def __init__(self, endpoints: Sequence[str], certificates: CertificateFolder) -> None:
        if not endpoints:
            raise ValueError("at least one endpoint is needed")
        self._endpoints = list(endpoints)
        self._certificates = certificates
        self._at = 0
        self._open: _Connection | None = None
        self._closed = False
        self._farewells: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        """The endpoint in use."""
        return self._endpoints[self._at]

    @property
    def is_away(self) -> bool:
        """Whether the endpoint in use is not the first."""
        return self._at != 0

    def at(self, endpoint: str) -> "EtcdClient":
        """A client for a single endpoint, with the same certificates."""
        return EtcdClient([endpoint], self._certificates)

    def use(self, endpoints: Sequence[str]) -> None:
        """Replaces the endpoints; keeps the current one if it is among them."""
        if not endpoints or list(endpoints) == self._endpoints:
            return
        present = self.endpoint
        self._endpoints = list(endpoints)
        if present in self._endpoints:
            self._at = self._endpoints.index(present)
        else:
            self._at = 0
            self._leave()

    def prefer_first(self) -> None:
        """Returns to the first endpoint, once it is known to answer again."""
        if self._at != 0:
            self._at = 0
            self._leave()

    def reload(self) -> None:
        """Reconnects with the current certificates; running calls may finish."""
        self._leave()

    async def close(self) -> None:
        self._closed = True
        self._leave(grace_s=0)
        await asyncio.gather(*self._farewells)

    async def __aenter__(self) -> "EtcdClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # keys

    async def range(self, request: pb.RangeRequest, timeout_s: float = CALL_TIMEOUT_S) -> pb.RangeResponse:
        return await self._call(lambda c: c.kv.Range(request, timeout=timeout_s))

    async def txn(self, request: pb.TxnRequest, timeout_s: float = CALL_TIMEOUT_S) -> pb.TxnResponse:
        return await self._call(lambda c: c.kv.Txn(request, timeout=timeout_s))

    async def put(self, request: pb.PutRequest, timeout_s: float = CALL_TIMEOUT_S) -> pb.PutResponse:
        return await self._call(lambda c: c.kv.Put(request, timeout=timeout_s))

    async def compact(self, revision: int, *, physical: bool, timeout_s: float = 60.0) -> None:
        """Discards everything that was overwritten or deleted up to the revision; idempotent."""
        request = pb.CompactionRequest(revision=revision, physical=physical)
        try:
            await self._call(lambda c: c.kv.Compact(request, timeout=timeout_s))
        except EtcdCompacted:
            return

    async def watch(self, request: pb.WatchCreateRequest) -> AsyncGenerator[pb.WatchResponse, None]:
        """Answers of one watch. Ends when it is cancelled by the member, raises EtcdUnavailable when it breaks."""
        connection = self._connection()
        call = connection.watch.Watch(metadata=_NEEDS_LEADER)
        try:
            await call.write(pb.WatchRequest(create_request=request))
            while isinstance(response := await call.read(), pb.WatchResponse):
                yield response
                if response.canceled:
                    return
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise self._failed(connection, error) from error
        except asyncio.CancelledError:
            raise _closed_under_us(connection) from None
        finally:
            call.cancel()
        raise EtcdUnavailable(f"{connection.endpoint}: the watch was ended")

    # leases

    async def grant(self, ttl_s: int, timeout_s: float = CALL_TIMEOUT_S) -> pb.LeaseGrantResponse:
        return await self._call(lambda c: c.lease.LeaseGrant(pb.LeaseGrantRequest(TTL=ttl_s), timeout=timeout_s))

    async def revoke(self, lease: int, timeout_s: float = CALL_TIMEOUT_S) -> None:
        await self._call(lambda c: c.lease.LeaseRevoke(pb.LeaseRevokeRequest(ID=lease), timeout=timeout_s))

    async def keep_alive(self, lease: int, timeout_s: float = CALL_TIMEOUT_S) -> int:
        """Renews the lease once and returns its time to live in seconds; 0 if the lease no longer exists."""

        async def once(connection: _Connection) -> int:
            call = connection.lease.LeaseKeepAlive(timeout=timeout_s, metadata=_NEEDS_LEADER)
            try:
                await call.write(pb.LeaseKeepAliveRequest(ID=lease))
                answer = await call.read()
            finally:
                call.cancel()
            if not isinstance(answer, pb.LeaseKeepAliveResponse):
                raise EtcdUnavailable(f"{connection.endpoint}: the lease was not renewed")
            return max(0, answer.TTL)

        return await self._call(once)

    # members

    async def members(self) -> Sequence[pb.Member]:
        answer = await self._call(lambda c: c.cluster.MemberList(pb.MemberListRequest(), timeout=CALL_TIMEOUT_S))
        return list(answer.members)

    async def add_learner(self, peer_url: str) -> pb.MemberAddResponse:
        request = pb.MemberAddRequest(peerURLs=[peer_url], isLearner=True)
        return await self._call(lambda c: c.cluster.MemberAdd(request, timeout=CALL_TIMEOUT_S))

    async def promote(self, member_id: int) -> None:
        """Asks the leader: the others hand the request on without its user and, once users are required, try in vain until it times out."""
        request = pb.MemberPromoteRequest(ID=member_id)
        async with self.at(await self._leader_endpoint()) as leader:
            await leader._call(lambda c: c.cluster.MemberPromote(request, timeout=CALL_TIMEOUT_S))

    async def _leader_endpoint(self) -> str:
        leads = (await self.status()).leader
        urls = [url for member in await self.members() if leads == member.ID for url in member.clientURLs]
        if not urls:
            raise EtcdUnavailable(f"{self.endpoint}: the members have no leader at the moment")
        return urls[0].partition("://")[2]

    async def remove(self, member_id: int) -> None:
        request = pb.MemberRemoveRequest(ID=member_id)
        await self._call(lambda c: c.cluster.MemberRemove(request, timeout=CALL_TIMEOUT_S))

    # maintenance

    async def status(self, timeout_s: float = CALL_TIMEOUT_S) -> pb.StatusResponse:
        return await self._call(lambda c: c.maintenance.Status(pb.StatusRequest(), timeout=timeout_s))

    async def hash_kv(self, revision: int, timeout_s: float) -> pb.HashKVResponse:
        """A hash of the data of the member in use at a revision; 0 = the newest."""
        return await self._call(lambda c: c.maintenance.HashKV(pb.HashKVRequest(revision=revision), timeout=timeout_s))

    async def defragment(self, timeout_s: float = 120.0) -> None:
        """Shrinks the file of the member in use, which does not answer meanwhile."""
        await self._call(lambda c: c.maintenance.Defragment(pb.DefragmentRequest(), timeout=timeout_s))

    async def alarms(self) -> Sequence[pb.AlarmMember]:
        request = pb.AlarmRequest(action=pb.AlarmRequest.GET)
        answer = await self._call(lambda c: c.maintenance.Alarm(request, timeout=CALL_TIMEOUT_S))
        return list(answer.alarms)

    async def disarm(self, alarm: pb.AlarmMember) -> None:
        request = pb.AlarmRequest(action=pb.AlarmRequest.DEACTIVATE, memberID=alarm.memberID, alarm=alarm.alarm)
        await self._call(lambda c: c.maintenance.Alarm(request, timeout=CALL_TIMEOUT_S))

    async def move_leader(self, member_id: int) -> None:
        """Transfers leadership to another member; must be sent to the current leader."""
        request = pb.MoveLeaderRequest(targetID=member_id)
        await self._call(lambda c: c.maintenance.MoveLeader(request, timeout=10.0))

    # users

    async def users(self) -> Sequence[str]:
        answer = await self._call(lambda c: c.auth.UserList(pb.AuthUserListRequest(), timeout=CALL_TIMEOUT_S))
        return list(answer.users)

    async def add_user(self, name: str) -> None:
        """A user without a password, who comes with a certificate of that name."""
        request = pb.AuthUserAddRequest(name=name, options=pb.UserAddOptions(no_password=True))
        await self._call(lambda c: c.auth.UserAdd(request, timeout=CALL_TIMEOUT_S))

    async def delete_user(self, name: str) -> None:
        request = pb.AuthUserDeleteRequest(name=name)
        await self._call(lambda c: c.auth.UserDelete(request, timeout=CALL_TIMEOUT_S))

    async def add_role(self, name: str) -> None:
        await self._call(lambda c: c.auth.RoleAdd(pb.AuthRoleAddRequest(name=name), timeout=CALL_TIMEOUT_S))

    async def grant_role(self, user: str, role: str) -> None:
        """Idempotent."""
        request = pb.AuthUserGrantRoleRequest(user=user, role=role)
        await self._call(lambda c: c.auth.UserGrantRole(request, timeout=CALL_TIMEOUT_S))

    async def enable_users(self) -> None:
        """From now on only users are let in. Idempotent."""
        await self._call(lambda c: c.auth.AuthEnable(pb.AuthEnableRequest(), timeout=CALL_TIMEOUT_S))

    async def _call(self, method: Callable[[_Connection], Awaitable[_T]]) -> _T:
        for pause_s in _USERS_CHANGED_PAUSES_S:
            try:
                return await self._call_once(method)
            except _UsersChanged:
                await asyncio.sleep(pause_s)
        return await self._call_once(method)

    async def _call_once(self, method: Callable[[_Connection], Awaitable[_T]]) -> _T:
        connection = self._connection()
        try:
            return await method(connection)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise self._failed(connection, error) from error
        except asyncio.CancelledError:
            raise _closed_under_us(connection) from None

    def _connection(self) -> _Connection:
        if self._closed:
            raise EtcdUnavailable("the client is closed")
        if self._open is None:
            try:
                credentials = _credentials(self._certificates)
            except OSError as error:
                raise EtcdUnavailable(f"no certificates for {self.endpoint}: {error}") from error
            self._open = _Connection(self.endpoint, credentials)
        return self._open

    def _failed(self, connection: _Connection, error: Exception) -> EtcdError:
        failure = _translated(connection.endpoint, error)
        # The first caller to notice switches endpoints; the others find the new connection.
        # All members have the same users: another one would say the same.
        may_help = isinstance(failure, EtcdUnavailable) and not isinstance(failure, EtcdDenied | _UsersChanged)
        if may_help and connection is self._open and len(self._endpoints) > 1:
            self._at = (self._at + 1) % len(self._endpoints)
            self._leave()
        return failure

    def _leave(self, grace_s: float = _FAREWELL_S) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            farewell = asyncio.get_running_loop().create_task(connection.channel.close(grace_s or None))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)


async def bring_home(
    clients: Sequence[EtcdClient], serves: Callable[[], Awaitable[bool]], every_s: float = _LOOK_HOME_EVERY_S
) -> None:
    """Returns clients to their first endpoint when it `serves` again. Runs until it is cancelled."""
    while True:
        await asyncio.sleep(every_s)
        if any(client.is_away for client in clients) and await serves():
            for client in clients:
                client.prefer_first()


def _closed_under_us(connection: _Connection) -> BaseException:
    """The meaning of a cancellation: the library also cancels calls when their channel is closed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return EtcdUnavailable(f"{connection.endpoint}: the connection was closed")


def _credentials(folder: CertificateFolder) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        folder.trusted.read_bytes(), folder.client_key.read_bytes(), folder.client_certificate.read_bytes()
    )


def _translated(endpoint: str, error: Exception) -> EtcdError:
    if not isinstance(error, grpc.aio.AioRpcError):
        return EtcdUnavailable(f"{endpoint}: {error}")
    code: Any = error.code()
    text = f"{endpoint}: {error.details() or code.name.lower()}"
    match code:
        case _ if any(sign in text for sign in _OLD_USERS):
            return _UsersChanged(text)
        case _ if any(sign in text for sign in _NO_SUCH_USER):
            return EtcdDenied(
                f"{text}: this server is not a member of the cluster; it was removed, or its invitation has expired"
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "space exceeded" in text:
            return EtcdFull(text)
        case grpc.StatusCode.DATA_LOSS:
            return EtcdCorrupt(text)
        case grpc.StatusCode.OUT_OF_RANGE if "compacted" in text:
            return EtcdCompacted(text)
        case (
            grpc.StatusCode.INVALID_ARGUMENT
            | grpc.StatusCode.FAILED_PRECONDITION
            | grpc.StatusCode.NOT_FOUND
            | grpc.StatusCode.ALREADY_EXISTS
            | grpc.StatusCode.OUT_OF_RANGE
            | grpc.StatusCode.UNIMPLEMENTED
        ):
            return EtcdRefused(text)
        case _:
            return EtcdUnavailable(text)
