"""A member whose data differ from those of the others, or are damaged: how that is found out and what an operator does then.

etcd can compare a member with the others before it serves, but then two members that start together wait for each other, seconds for
each. So it does that only where another member serves already. A member that started without is compared once afterwards.
"""

import asyncio
import logging
from collections.abc import Sequence

from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.etcd.settings import MemberSettings

PROBE_S = 0.5
COMPARE_EVERY_S = 5.0
_HASH_S = 30.0
# A compaction on one side may make a difference for a moment.
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

_log = logging.getLogger(__name__)


def remedy(settings: MemberSettings, words: str) -> str:
    """What to do about a member that says this before it dies; empty when it does not speak of its data."""
    if not any(sign in words.lower() for sign in _DAMAGED):
        return ""
    return (
        f"; its data are damaged, and the other servers have all of them: `lattice admin raft members remove {settings.name}`, "
        f"empty the data directory, `lattice admin raft members add {settings.name}`, and start it with --join"
    )


async def is_served(clients: Sequence[EtcdClient]) -> bool:
    """Whether one of these members answers and knows a leader."""
    answers = await asyncio.gather(*(_serves(client) for client in clients))
    return any(answers)


async def _serves(client: EtcdClient) -> bool:
    try:
        return bool((await client.status(PROBE_S)).leader)
    except EtcdError:
        return False


async def compare(own: EtcdClient, others: Sequence[EtcdClient]) -> bool:
    """Returns when the member could be compared: whether it holds what one of the others holds."""
    mismatches = 0
    while mismatches < _MISMATCHES:
        for other in others:
            try:
                verdict = await _is_same(own, other)
            except EtcdError as error:
                _log.debug("not compared with %s yet: %s", other.endpoint, error)
                continue
            if verdict is not None:
                if verdict:
                    return True
                mismatches += 1
        await asyncio.sleep(COMPARE_EVERY_S)
    return False


async def _is_same(own: EtcdClient, other: EtcdClient) -> bool | None:
    """None when they cannot be compared now: one of them has forgotten more than the other."""
    mine = await own.hash_kv(0, _HASH_S)
    theirs = await other.hash_kv(mine.header.revision, _HASH_S)
    if mine.compact_revision != theirs.compact_revision:
        return None
    return mine.hash == theirs.hash
