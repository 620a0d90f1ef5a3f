"""A member whose data differs from that of the others, or is damaged: detection, and advice for operators.

etcd can compare a member with the others before it serves, but then members that start together wait for each other, seconds for
each. So it does that only if another member already serves. A member that started without the comparison is compared afterwards.
"""

import asyncio
import logging
from collections.abc import Sequence

from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.etcd.settings import MemberSettings

PROBE_S = 0.5
COMPARE_EVERY_S = 5.0
_HASH_S = 30.0
# A compaction on one side may cause a temporary difference.
_MISMATCHES = 3
_DAMAGED = (
    "is out of range",
    "crc mismatch",
    "data inconsistency",
    "mismatch",
    "wal: ",
    "snap: ",
    "failed to find database snapshot",
    "invalid database",
    "unexpected EOF",
    "corrupt",
)
# What a member logs when those at the addresses of the others have a log of their own, or certificates of another authority.
_STRANGE = (
    b"cluster id mismatch",
    b"signed by unknown authority",
    b"unknown certificate authority",
    b"bad certificate",
)

_log = logging.getLogger(__name__)


def strangers(settings: MemberSettings, log_tail: Sequence[bytes]) -> str:
    """What to say of a member without a leader whose neighbours belong to another cluster; empty if nothing says so."""
    if not any(sign in line.lower() for line in log_tail for sign in _STRANGE):
        return ""
    return (
        f"the servers at the addresses of the others belong to another cluster than the data in {settings.folder.parent}: "
        "correct `data_dir` or `quorum.peers`; a server that is to join them needs an empty data directory"
    )


def remedy(settings: MemberSettings, words: str) -> str:
    """Advice for a member that logs this before it dies; empty if the message is not about its data."""
    if _STRANGE[0].decode() in words.lower() or not any(sign in words.lower() for sign in _DAMAGED):
        return ""
    return (
        f"; its data is damaged, but the other servers have a complete copy: `lattice admin raft members remove {settings.name}`, "
        f"empty the data directory, `lattice admin raft members add {settings.name}`, and start it with --join"
    )


async def is_served(clients: Sequence[EtcdClient]) -> bool:
    """Whether one of these members answers and has a leader."""
    answers = await asyncio.gather(*(_serves(client) for client in clients))
    return any(answers)


async def _serves(client: EtcdClient) -> bool:
    try:
        return bool((await client.status(PROBE_S)).leader)
    except EtcdError:
        return False


async def compare(own: EtcdClient, others: Sequence[EtcdClient]) -> bool:
    """Waits until the member can be compared; returns whether its data matches that of another member."""
    mismatches = 0
    while mismatches < _MISMATCHES:
        for other in others:
            try:
                verdict = await _is_same(own, other)
            except EtcdError as error:
                _log.debug("cannot compare with %s yet: %s", other.endpoint, error)
                continue
            if verdict is not None:
                if verdict:
                    return True
                mismatches += 1
        await asyncio.sleep(COMPARE_EVERY_S)
    return False


async def _is_same(own: EtcdClient, other: EtcdClient) -> bool | None:
    """None if they cannot be compared now, because one has compacted more than the other."""
    mine = await own.hash_kv(0, _HASH_S)
    theirs = await other.hash_kv(mine.header.revision, _HASH_S)
    if mine.compact_revision != theirs.compact_revision:
        return None
    return mine.hash == theirs.hash
