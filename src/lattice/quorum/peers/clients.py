"""A server's clients of the etcd members: all of them know where the others are, and use renewed certificates."""

from collections.abc import Sequence
from pathlib import Path

from lattice.quorum.etcd.client import EtcdClient, bring_home
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.peers.directory import ServerDirectory, ServerEntry


class MemberClients:
    """Makes the clients and closes them in the end. `own` is this server among `configured`, those that began the cluster."""

    def __init__(self, member: EtcdMember, own: ServerEntry, configured: Sequence[ServerEntry], file: Path) -> None:
        self._member = member
        self._own = own
        self._made: list[EtcdClient] = []  # every client that was handed out, until `close`
        self.directory = ServerDirectory(self._new([entry.client for entry in configured]), configured, file)
        self.directory.on_change(self._follow)
        self._follow()

    def new(self) -> EtcdClient:
        """A client that asks this server's own member first."""
        return self._new(self._others())

    def _new(self, others: list[str]) -> EtcdClient:
        client = self._member.client([other for other in others if other != self._own.client])
        self._made.append(client)
        return client

    def _others(self) -> list[str]:
        return [entry.client for entry in self.directory.entries.values() if entry.name != self._own.name]

    def _follow(self) -> None:
        others = self._others()
        self._member.others = others
        for client in self._made:
            client.use([self._member.settings.client_listen, *others])

    def reload(self) -> None:
        """Reconnects, with the certificates that are there now."""
        for client in self._made:
            client.reload()

    async def bring_home(self) -> None:
        """Lets clients that went to another member come back to the own one when it serves. Runs until it is cancelled."""
        await bring_home(self._made, self._member.serves)

    async def close(self) -> None:
        await self.directory.close()
        for client in self._made:
            await client.close()
