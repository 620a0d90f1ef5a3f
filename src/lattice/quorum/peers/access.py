"""Keeps etcd's users in step with the members: each server adds its own, and the leader requires users and deletes leftover ones."""

import asyncio
import logging
from collections.abc import Callable

from lattice.quorum.etcd import users
from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.peers import invitations
from lattice.quorum.trust.certificates import CertificateError, CertificateFolder

# The first level all of whose servers have users.
LEVEL = 2
_REQUIRE_EVERY_S = 2.0
_KEEP_EVERY_S = 60.0

_log = logging.getLogger(__name__)


class Access:
    """`enter` when the member runs, `keep` while this server leads."""

    def __init__(self, client: EtcdClient, certificates: CertificateFolder) -> None:
        self._client = client
        self._certificates = certificates
        self.warning = ""  # what an operator should know of this server; from `enter` on

    async def enter(self) -> None:
        """Adds this server's user if it is not there yet. Raises EtcdDenied if users are required and it has none."""
        user = self._certificates.user()
        if user:
            await users.add(self._client, user)
        else:
            self.warning = (
                f"its client certificate names no user of etcd, because {self._certificates.authority_key} is missing or "
                "cannot be used: copy it from another server and restart this one; "
                "until then a removed server keeps its access to the log"
            )
            _log.warning("%s", self.warning)

    async def keep(self, level: Callable[[], int]) -> None:
        """Requires users as soon as the cluster's level allows it; then deletes those of no server. Runs until it is cancelled."""
        is_required = False
        while True:
            try:
                if level() >= LEVEL and not is_required:
                    is_required = await self._require()
                if is_required:
                    await self._keep_only_members()
            except (EtcdError, CertificateError) as error:
                _log.warning("cannot manage the users of etcd, trying again: %s", error)
            await asyncio.sleep(_KEEP_EVERY_S if is_required else _REQUIRE_EVERY_S)

    async def _require(self) -> bool:
        members = await self._client.members()
        if not all(member.name for member in members):
            return False
        if is_required := await users.require(self._client, [member.name for member in members]):
            _log.info("etcd lets in only the servers that belong to the cluster")
        return is_required

    async def _keep_only_members(self) -> None:
        # In this order: a server that joins meanwhile is among the members when its invitation is over.
        present = await self._client.users()
        invited = [each.name for each in await invitations.pending(self._client)]
        members = await self._client.members()
        # A member has no name before its first start.
        if all(member.name for member in members):
            await users.keep_only(self._client, present, [*invited, *(member.name for member in members)])
