"""Operations on the members of a quorum: list, promote, remove, move leadership."""

import asyncio
from collections.abc import Sequence

import msgspec

from lattice.quorum.etcd.client import EtcdClient, EtcdError, EtcdRefused
from lattice.wire.pb import etcd_pb2 as pb

_STATUS_S = 2.0
_REMOVALS = b"lattice/removals/"
_TRANSFER = b"lattice/transfer"
_REMEMBERED_S = 600
_SETTLE_TRIES = 10
_SETTLE_PAUSE_S = 0.3
# etcd's answer if its leadership moved after the leader was looked up.
_MOVED = "not leader"


class MembersError(Exception):
    """A membership operation is not possible; the text says why and what to do."""


class _TooFew(MembersError):
    """Without the member there would currently be no majority."""


class _Moved(MembersError):
    """The leader has just changed, or there is none."""


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One member as the cluster and the member itself describe it. `raft_*` are etcd's own counts, not indexes of the log."""

    member_id: int
    name: str
    peer_url: str
    endpoint: str
    is_leader: bool = False
    is_learner: bool = False
    healthy: bool = False
    version: str = ""
    raft_term: int = 0
    raft_applied: int = 0
    size_bytes: int = 0
    used_bytes: int = 0
    problem: str = ""


async def list_members(client: EtcdClient) -> Sequence[MemberStatus]:
    """All members, by name; one that does not answer is listed with its problem."""
    members = await client.members()
    found = await asyncio.gather(*(_status(client, member) for member in members))
    return sorted(found, key=lambda status: (status.name, status.peer_url))


async def promote(client: EtcdClient, name: str) -> None:
    """Promotes a learner to a voter. Refuses one that has not caught up or already votes."""
    member = await _named(client, name)
    if not member.isLearner:
        raise MembersError(f"member {name} already has a vote")
    try:
        await client.promote(member.ID)
    except EtcdRefused as error:
        raise MembersError(f"cannot promote member {name} now: {error}; try again when it has caught up") from error


async def check_removal(client: EtcdClient, name: str) -> MemberStatus:
    """The member, if it may be removed. Refuses the last one, and one without which there is no majority.

    While etcd's leadership moves, a member briefly has no leader; that is not a reason to refuse.
    """
    for left in reversed(range(_SETTLE_TRIES)):
        try:
            return await _removable(client, name)
        except _TooFew:
            if not left:
                raise
        await asyncio.sleep(_SETTLE_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


async def _removable(client: EtcdClient, name: str) -> MemberStatus:
    statuses = await list_members(client)
    voters = [status for status in statuses if not status.is_learner]
    member = _one(statuses, name)
    if member.is_learner:
        return member
    if len(voters) == 1:
        raise MembersError(f"{name} is the only member with a vote; a cluster cannot be empty")
    healthy = sum(status.healthy for status in voters if status.name != name)
    needed = (len(voters) - 1) // 2 + 1
    if healthy < needed:
        raise _TooFew(
            f"without {name} only {healthy} of {len(voters) - 1} members would answer, but {needed} are needed; repair one first"
        )
    return member


async def remove(client: EtcdClient, name: str) -> None:
    """Removes a member; a leader transfers leadership first. Refuses what `check_removal` refuses."""
    member = await check_removal(client, name)
    if member.is_leader:
        await transfer_leadership(client, away_from=member.member_id)
    try:
        await client.remove(member.member_id)
    except EtcdRefused as error:
        raise MembersError(f"member {name} cannot be removed: {error}") from error


async def note_removal(client: EtcdClient, name: str, request_id: str) -> None:
    """Remembers for a while which request asked for a removal, so that the request can be retried."""
    await _note(client, _REMOVALS + name.encode(), request_id)


async def removed_by(client: EtcdClient, name: str) -> str:
    """The request that asked for the last removal of this name; empty if that was long ago."""
    return await _noted(client, _REMOVALS + name.encode())


async def note_transfer(client: EtcdClient, request_id: str) -> None:
    """Remembers for a while which request asked the leader to transfer leadership."""
    await _note(client, _TRANSFER, request_id)


async def transferred_by(client: EtcdClient) -> str:
    """The request that asked for the last transfer without a named target; empty if that was long ago."""
    return await _noted(client, _TRANSFER)


async def _note(client: EtcdClient, key: bytes, request_id: str) -> None:
    lease = (await client.grant(_REMEMBERED_S)).ID
    await client.put(pb.PutRequest(key=key, value=request_id.encode(), lease=lease))


async def _noted(client: EtcdClient, key: bytes) -> str:
    found = await client.range(pb.RangeRequest(key=key))
    return found.kvs[0].value.decode("utf-8", "replace") if found.kvs else ""


async def transfer_leadership(client: EtcdClient, name: str = "", *, away_from: int = 0) -> str:
    """Moves etcd's leadership to the named member, or to any healthy one; returns the new leader.

    With `away_from` it is enough that this member is no longer the leader.
    """
    for left in reversed(range(_SETTLE_TRIES)):
        try:
            return await _transfer(client, name, away_from)
        except _Moved:
            if not left:
                raise
        await asyncio.sleep(_SETTLE_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


async def _transfer(client: EtcdClient, name: str, away_from: int) -> str:
    statuses = await list_members(client)
    leader = next((status for status in statuses if status.is_leader), None)
    if leader is None:
        raise _Moved("there is no leader at the moment; try again")
    if away_from and leader.member_id != away_from:
        return leader.name
    if name:
        target = _one(statuses, name)
        if target.is_learner or not target.healthy:
            raise MembersError(f"member {name} cannot lead: {target.problem or 'it has no vote yet'}")
    else:
        fit = [status for status in statuses if status.healthy and not status.is_learner and not status.is_leader]
        if not fit:
            raise MembersError(f"there is no healthy member besides {leader.name}")
        target = max(fit, key=lambda status: status.raft_applied)
    if target.member_id != leader.member_id:
        async with client.at(leader.endpoint) as at_leader:
            try:
                await at_leader.move_leader(target.member_id)
            except EtcdRefused as error:
                kind = _Moved if _MOVED in str(error) else MembersError
                raise kind(f"leadership did not move to {target.name}: {error}") from error
    return target.name


async def _status(client: EtcdClient, member: pb.Member) -> MemberStatus:
    endpoint = next((url.partition("://")[2] for url in member.clientURLs), "")
    known = MemberStatus(
        member_id=member.ID,
        name=member.name,
        peer_url=next(iter(member.peerURLs), ""),
        endpoint=endpoint,
        is_learner=member.isLearner,
    )
    if not endpoint:
        return msgspec.structs.replace(known, problem="it has not started yet")
    async with client.at(endpoint) as alone:
        try:
            status = await alone.status(_STATUS_S)
        except EtcdError as error:
            return msgspec.structs.replace(known, problem=str(error))
    return msgspec.structs.replace(
        known,
        is_leader=status.leader == member.ID,
        healthy=bool(status.leader) and not status.errors,
        version=status.version,
        raft_term=status.raftTerm,
        raft_applied=status.raftAppliedIndex,
        size_bytes=status.dbSize,
        used_bytes=status.dbSizeInUse,
        problem="; ".join(status.errors) or ("" if status.leader else "it has no leader"),
    )


def is_called(name: str, member_name: str, peer_urls: Sequence[str]) -> bool:
    """Whether it is this member: by name, or by address, since it has no name before its first start."""
    return member_name == name or (not member_name and f"https://{name}" in peer_urls)


def _one(statuses: Sequence[MemberStatus], name: str) -> MemberStatus:
    for status in statuses:
        if is_called(name, status.name, [status.peer_url]):
            return status
    raise MembersError(f"no member is called {name}; known: {', '.join(status.name for status in statuses)}")


async def _named(client: EtcdClient, name: str) -> pb.Member:
    members = await client.members()
    for member in members:
        if is_called(name, member.name, member.peerURLs):
            return member
    raise MembersError(f"no member is called {name}; known: {', '.join(member.name for member in members)}")
