"""The members of the quorum: invites and admits servers, promotes and removes them, renews certificates."""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from lattice.ports.quorum.servers import (
    CertificateState,
    Invited,
    MembershipRefused,
    Renewed,
    ServerInfo,
    ServerState,
)
from lattice.quorum.etcd import users
from lattice.quorum.etcd.change_lock import only_one
from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdError, EtcdUnavailable
from lattice.quorum.etcd.members import (
    MembersError,
    MemberStatus,
    check_removal,
    is_called,
    list_members,
    note_removal,
    note_transfer,
    promote,
    remove,
    removed_by,
    transferred_by,
)
from lattice.quorum.peers import invitations, joining
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.invitations import InvitationError
from lattice.quorum.peers.servers import QuorumServers, certificate_state
from lattice.quorum.trust.certificates import CertificateError, CertificateFolder, rotate, user_for

_LOOK_EVERY_S = 3600.0
_SETTLE_S = 8.0
_PAUSE_S = 0.2
_TRIES = 4

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class QuorumMembership:
    """Implements `Membership`, and the admitting and renewing part of `PeerService`."""

    def __init__(
        self,
        name: str,
        client: EtcdClient,
        certificates: CertificateFolder,
        directory: ServerDirectory,
        servers: QuorumServers,
        api_secret: bytes,
        hosts: Sequence[str],
        on_renewal: Callable[[], None],
    ) -> None:
        self._name = name
        self._client = client
        self._certificates = certificates
        self._directory = directory
        self._servers = servers
        self._api_secret = api_secret
        self._hosts = list(hosts)
        self._on_renewal = on_renewal
        self._one_change = asyncio.Lock()

    async def servers(self) -> list[ServerInfo]:
        # In this order: a server that joins meanwhile is in both lists, not in neither; and a member lists the members that it knows,
        # but this read waits until it has caught up.
        invited = await _answered(lambda: invitations.pending(self._client))
        members = await _answered(lambda: list_members(self._client))
        by_name = {state.name: state for state in await self._servers.ask_all(None)}
        joined = [self._info(status, by_name.get(status.name)) for status in members]
        names = {info.name for info in joined}
        waiting = [
            ServerInfo(name=each.name, role="invited", invited_until_ms=each.expires_at_ms)
            for each in invited
            if each.name not in names
        ]
        return [*joined, *waiting]

    def _info(self, status: MemberStatus, state: ServerState | None) -> ServerInfo:
        address = status.peer_url.partition("://")[2]
        # A member has no name before its first start.
        name = status.name or next((e.name for e in self._directory.entries.values() if e.peer == address), address)
        entry = self._directory.get(name)
        replica = None if state is None else state.replica
        return ServerInfo(
            name=name,
            role="learner" if status.is_learner else "voter",
            healthy=status.healthy and replica is not None,
            leads=name == self._servers.leader_name,
            rest="" if entry is None else entry.rest,
            grpc="" if entry is None else entry.grpc,
            peer=address,
            etcd_version=status.version,
            database_bytes=status.size_bytes,
            certificate=None if replica is None else replica.certificate,
            problem=status.problem or ("" if state is None else state.problem),
        )

    async def invite(self, name: str, lifetime_s: int) -> Invited:
        async with self._one_change:
            members = await _answered(self._client.members)
            if any(member.name == name for member in members):
                raise MembershipRefused(
                    "already_exists",
                    f'server "{name}" already exists',
                    "to replace a server, remove it first: lattice admin raft members remove NAME",
                )
            trusted = self._trusted()
            servers = [entry.internal for entry in self._directory.entries.values() if entry.internal]
            token = await _answered(
                lambda: invitations.invite(self._client, name, trusted=trusted, servers=servers, lifetime_s=lifetime_s)
            )
        _log.info("server %s was invited", name)
        return Invited(name=name, token=invitations.encode_token(token), expires_at_ms=token.expires_at_ms)

    def _trusted(self) -> bytes:
        folder = self._certificates
        if not folder.authority_key.exists():
            raise MembershipRefused(
                "conflict",
                f"server {self._name} cannot issue certificates: it has no {folder.authority_key}",
                "copy it from the server that bootstrapped the cluster",
            )
        try:
            return folder.trusted.read_bytes()
        except OSError as error:
            raise MembershipRefused("unavailable", f"cannot read the certificates: {error}") from error

    async def admit(self, request: bytes) -> bytes:
        """Certificates for a server that presents an invitation."""
        try:
            asked = msgspec.msgpack.decode(request, type=joining.JoinRequest)
        except msgspec.MsgspecError as error:
            raise MembershipRefused("conflict", f"invalid request: {error}") from error
        try:
            found = await _answered(lambda: invitations.redeem(self._client, asked.id, asked.secret, asked.keys))
            joining.check(asked, found, self._api_secret)
            user = user_for(found.name, asked.id)
            answer = joining.admit(self._certificates, asked, user, list(self._directory.entries.values()))
            await _answered(lambda: users.replace(self._client, found.name, user))
        except (InvitationError, CertificateError) as error:
            _log.warning("server %s was not admitted: %s", asked.server.name[:80], error)
            raise MembershipRefused("conflict", str(error)) from error
        _log.info("server %s received its certificates", asked.server.name)
        return msgspec.msgpack.encode(answer)

    async def promote(self, name: str) -> None:
        async with self._one_change:
            await _answered(lambda: promote(self._client, name), tries=1)

    async def has_begun_removal(self, name: str, request_id: str) -> bool:
        return await self._was_removed_by(name, request_id)

    async def remove(self, name: str, request_id: str) -> None:
        """A leader transfers leadership before its removal; the follower that forwarded the request repeats it there, so one server carries it out."""

        async def is_done() -> bool:
            return not await self._has(name) and await self._was_removed_by(name, request_id)

        async with self._one_change:
            try:
                async with only_one(self._client, is_done) as is_ours:
                    if is_ours:
                        await self._remove(name, request_id)
            except (MembersError, EtcdError) as error:
                raise MembershipRefused("unavailable", str(error), "try again") from error
            await _answered(lambda: self._directory.forget(name))
            # Last: a server that removes itself can do nothing afterwards.
            await _answered(lambda: self._shut_out(name))
        _log.info("server %s was removed", name)

    async def _shut_out(self, name: str) -> None:
        """From here on the certificates of the removed server open nothing."""
        try:
            await users.revoke(self._client, name)
        except EtcdDenied:
            if name != self._name:
                raise

    async def _remove(self, name: str, request_id: str) -> None:
        invited = [each for each in await _answered(lambda: invitations.pending(self._client)) if each.name == name]
        for each in invited:
            await _answered(functools.partial(invitations.withdraw, self._client, each.id))
        if await self._has(name):
            # Leadership is not given up in vain.
            await _answered(lambda: check_removal(self._client, name))
            await _answered(lambda: note_removal(self._client, name, request_id))
            if self._servers.leader_name == name:
                await self._let_another_lead(name)
            await self._take_out(name)
        elif not invited:
            known = ", ".join(sorted(member.name for member in await _answered(self._client.members)))
            raise MembershipRefused("not_found", f'unknown server "{name}"', f"known: {known}")

    async def _was_removed_by(self, name: str, request_id: str) -> bool:
        """Whether this request was noted: it took effect and its answer was lost, or it is being carried out."""
        return bool(request_id) and request_id == await _answered(lambda: removed_by(self._client, name))

    async def _has(self, name: str) -> bool:
        members = await _answered(self._client.members)
        return any(is_called(name, member.name, member.peerURLs) for member in members)

    async def _take_out(self, name: str) -> None:
        try:
            await _answered(lambda: remove(self._client, name), tries=1)
        except MembershipRefused as error:
            # Our own member exits when it is removed, perhaps before it has answered.
            if await self._has(name):
                raise
            _log.info("server %s was removed: %s", name, error)

    async def _let_another_lead(self, name: str) -> None:
        await self._servers.resign("")
        deadline = time.monotonic() + _SETTLE_S
        while self._servers.leader_name in ("", name):
            if time.monotonic() > deadline:
                raise MembershipRefused("unavailable", f"no other server took over from {name}", "try again")
            await asyncio.sleep(_PAUSE_S)

    async def begin_transfer(self, request_id: str) -> bool:
        async with self._one_change:
            if request_id and request_id == await _answered(lambda: transferred_by(self._client)):
                return False
            await _answered(lambda: note_transfer(self._client, request_id))
            return True

    async def renew_all(self) -> list[Renewed]:
        """One server after the other, this one last: if one fails, the others have certificates with their full lifetime."""
        names = sorted(self._directory.entries, key=lambda name: (name == self._name, name))
        renewed = [await self._renewed(name) for name in names]
        return sorted(renewed, key=lambda each: each.name)

    async def _renewed(self, name: str) -> Renewed:
        if name != self._name:
            return await self._servers.ask_to_renew(name)
        try:
            return Renewed(name=name, certificate=await self.renew())
        except MembershipRefused as error:
            return Renewed(name=name, problem=str(error))

    async def renew(self) -> CertificateState:
        """Installs new keys and certificates for this server."""
        try:
            await asyncio.to_thread(rotate, self._certificates, self._hosts, name=self._name)
        except (CertificateError, OSError) as error:
            raise MembershipRefused(
                "conflict", f"server {self._name} cannot renew its certificates: {error}"
            ) from error
        self._on_renewal()
        state = certificate_state(self._certificates)
        _log.info("server %s has new certificates, serial %s", self._name, state.serial)
        return state

    async def keep_renewed(self) -> None:
        """Renews this server's certificates at two thirds of their lifetime. Runs until it is cancelled."""
        while True:
            try:
                if self._certificates.needs_renewal(datetime.now(UTC)):
                    await self.renew()
            except (MembershipRefused, CertificateError) as error:
                _log.error("cannot renew the certificates, which expire at %s: %s", _end(self._certificates), error)
            await asyncio.sleep(_LOOK_EVERY_S)


def _end(folder: CertificateFolder) -> str:
    try:
        return folder.expires_at().isoformat()
    except CertificateError as error:
        return str(error)


async def _answered(call: Callable[[], Awaitable[_T]], tries: int = _TRIES) -> _T:
    """The answer of any etcd member; retries calls that are safe to retry."""
    for left in reversed(range(tries)):
        try:
            return await call()
        except MembersError as error:
            raise MembershipRefused("conflict", str(error)) from error
        except EtcdError as error:
            if not left or not isinstance(error, EtcdUnavailable):
                raise MembershipRefused("unavailable", f"the members do not answer: {error}", "try again") from error
            await asyncio.sleep(_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")
