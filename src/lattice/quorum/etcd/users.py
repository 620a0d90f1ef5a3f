"""Who may use etcd: one user per server, named by its client certificate, so that a removed server is let in no more.

A certificate outlives the removal of its server. etcd therefore lets in users, not just certificates: from joining to removal a server
has a user with all rights; without it, its certificate opens nothing. Every server adds its own before users are required, and a server
that admits another one adds that of the new one. Older releases know no users, so they are required from level 2 on, and only when
every member has one. No user has a password: without a certificate there is no login.
"""

import logging
from collections.abc import Awaitable, Sequence

from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdRefused
from lattice.quorum.trust.certificates import user_prefix

# etcd demands that this user exists; no certificate has that name.
_ROOT = "root"
_EXISTS = "already exists"

_log = logging.getLogger(__name__)


async def add(client: EtcdClient, user: str) -> None:
    """Lets a server in. Idempotent."""
    if user not in await client.users():
        await _unless_there(client.add_user(user))
    await client.grant_role(user, _ROOT)


async def replace(client: EtcdClient, server: str, user: str) -> None:
    """Lets a server in that joins, and no earlier one of its name. Idempotent."""
    await add(client, user)
    await _delete(client, [each for each in _of(server, await client.users()) if each != user])


async def revoke(client: EtcdClient, server: str) -> None:
    """Lets a removed server in no more. Idempotent."""
    await _delete(client, _of(server, await client.users()))


async def require(client: EtcdClient, servers: Sequence[str]) -> bool:
    """From now on only users are let in, if each of these servers has one; returns whether that is so. Idempotent."""
    users = await client.users()
    missing = [server for server in servers if not _of(server, users)]
    if missing:
        _log.debug("etcd does not require users yet: %s have none", ", ".join(missing))
        return False
    await _unless_there(client.add_role(_ROOT))
    await add(client, _ROOT)
    await client.enable_users()
    return True


async def keep_only(client: EtcdClient, users: Sequence[str], servers: Sequence[str]) -> None:
    """Deletes those of `users` that belong to none of the servers: their removal was interrupted."""
    kept = {_ROOT, *(user for server in servers for user in _of(server, users))}
    await _delete(client, [user for user in users if user not in kept])


def _of(server: str, users: Sequence[str]) -> list[str]:
    return [user for user in users if user.startswith(user_prefix(server))]


async def _delete(client: EtcdClient, users: Sequence[str]) -> None:
    for user in users:
        try:
            await client.delete_user(user)
        except EtcdDenied:
            # Either that user is gone already, or that of this server.
            if user in await client.users():
                raise
        _log.info("etcd user %s was deleted", user)


async def _unless_there(addition: Awaitable[None]) -> None:
    try:
        await addition
    except EtcdRefused as error:
        if _EXISTS not in str(error):
            raise
