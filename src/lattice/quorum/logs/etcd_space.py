"""Space in the database: how much is used, and how it is freed after a trim.

Deleting frees nothing, compaction frees pages inside the file, defragmentation shrinks the file, against whose size the quota
counts. A member that defragments does not answer: one at a time, the leader last. The alarm stays until it is cleared.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.wire.pb import etcd_pb2 as pb

# A file that is this many times larger than its content is worth the pause of a defragmentation.
_WASTE = 3
_SMALL_BYTES = 64 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MemberSpace:
    """The database of one member."""

    name: str
    endpoint: str
    size_bytes: int
    used_bytes: int
    is_leader: bool


async def usage(client: EtcdClient) -> Sequence[MemberSpace]:
    """The databases of the members that answer."""
    found = []
    for member in await client.members():
        for endpoint in _endpoints(member)[:1]:
            async with client.at(endpoint) as alone:
                try:
                    status = await alone.status()
                except EtcdError as error:
                    _log.warning("cannot get the size of member %s: %s", member.name, error)
                    continue
            found.append(
                MemberSpace(member.name, endpoint, status.dbSize, status.dbSizeInUse, status.leader == member.ID)
            )
    return found


async def is_full(client: EtcdClient) -> bool:
    """Whether a member has reached its quota, which blocks all writes."""
    return any(alarm.alarm == pb.NOSPACE for alarm in await client.alarms())


async def give_back(client: EtcdClient, revision: int) -> None:
    """Compacts up to the revision (0: none); defragments if the database is full or mostly free pages; clears the alarm."""
    full = await is_full(client)
    if full and not revision:
        revision = (await client.range(pb.RangeRequest(key=b"\0", count_only=True))).header.revision
    if revision:
        await client.compact(revision, physical=full)
    await defragment(client, all_members=full)
    if full:
        for alarm in await client.alarms():
            if alarm.alarm == pb.NOSPACE:
                await client.disarm(alarm)


async def defragment(client: EtcdClient, *, all_members: bool) -> None:
    """Shrinks the files of the members, one after the other and the leader last; without `all_members` only wasteful ones."""
    for space in sorted(await usage(client), key=lambda space: space.is_leader):
        is_wasteful = space.size_bytes > max(_SMALL_BYTES, _WASTE * space.used_bytes)
        if all_members or is_wasteful:
            _log.info("defragmenting member %s: %d bytes, %d used", space.name, space.size_bytes, space.used_bytes)
            async with client.at(space.endpoint) as alone:
                try:
                    await alone.defragment()
                except EtcdError as error:
                    # The next trim tries again; a file that stays too large raises the alarm again.
                    _log.warning("cannot defragment member %s: %s", space.name, error)


def _endpoints(member: pb.Member) -> list[str]:
    return [url.partition("://")[2] for url in member.clientURLs]
