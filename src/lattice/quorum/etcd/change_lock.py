"""A lock for membership changes, so that one server carries out one at a time: a key in etcd under a lease."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.etcd.members import MembersError
from lattice.wire.pb import etcd_pb2 as pb

KEY = b"lattice/changing-members"
# Longer than any change takes; releases the lock of a server that died meanwhile.
LEASE_S = 20
WAIT_S = 25.0
_PAUSE_S = 0.2


@contextlib.asynccontextmanager
async def only_one(client: EtcdClient, is_done: Callable[[], Awaitable[bool]]) -> AsyncIterator[bool]:
    """Yields True while no other server can change members, False if the change is already done. Raises MembersError."""
    lease = 0
    deadline = time.monotonic() + WAIT_S
    try:
        while not await is_done():
            lease = lease or (await client.grant(LEASE_S)).ID
            if await _taken(client, lease):
                yield True
                return
            if time.monotonic() > deadline:
                raise MembersError("another membership change is in progress; try again when it has finished")
            await asyncio.sleep(_PAUSE_S)
        yield False
    finally:
        if lease:
            with contextlib.suppress(EtcdError):
                await client.revoke(lease, 2.0)


async def _taken(client: EtcdClient, lease: int) -> bool:
    free = pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.CREATE, key=KEY, create_revision=0)
    put = pb.RequestOp(request_put=pb.PutRequest(key=KEY, lease=lease))
    return (await client.txn(pb.TxnRequest(compare=[free], success=[put]))).succeeded
