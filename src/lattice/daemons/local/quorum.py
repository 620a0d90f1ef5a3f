"""What several servers on one machine need in addition: certificates, a common token, and their etcd members in cluster.json."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import yaml

from lattice.agent.runs.process_end import ended
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.options import HOST
from lattice.daemons.local.processes import Process, find_members, is_alive
from lattice.daemons.local.record import Record

if TYPE_CHECKING:
    from lattice.daemons.local.commands import ServerPlace

LOOK_EVERY_S = 0.2


def prepare(layout: Layout, servers: Sequence[str]) -> str:
    """Creates the authority and each server's certificates if they are missing; returns the token of the etcd cluster."""
    from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue, with_authority

    layout.servers.mkdir(mode=0o700, exist_ok=True)
    authority = CertificateFolder(layout.authority)
    if not authority.trusted.exists():
        create_authority(authority)
    for server in servers:
        folder = CertificateFolder(layout.data_of(server) / "certificates")
        if not folder.exists():
            folder.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            install(folder, with_authority(authority, issue(authority, [HOST], name=server)))
    path = layout.servers / "token"
    if not path.exists():
        write_private(path, f"lattice-{secrets.token_hex(8)}\n".encode())
    return path.read_text().strip()


def was_removed(layout: Layout, server: str) -> bool:
    return (layout.data_of(server) / "etcd" / "removed").exists()


def known_member_ports(layout: Layout) -> dict[str, tuple[int, int]]:
    """Client and peer port of each member that was started before, by its server."""
    known: dict[str, tuple[int, int]] = {}
    for server in layout.server_names():
        if not (layout.data_of(server) / "etcd" / "member.json").exists():
            continue
        config: dict[str, Any] = yaml.safe_load(layout.config_of(server).read_text())
        for peer in config.get("quorum", {}).get("peers", ()):
            known[peer["name"]] = (_port(peer["client"]), _port(peer["peer"]))
    return known


async def watch_etcd(layout: Layout, place: "ServerPlace", record: Record) -> None:
    """Servers start and stop their members, so these are only watched."""
    addresses = (f"https://{HOST}:{place.client}", f"https://{HOST}:{place.peer}")
    while True:
        found = await asyncio.to_thread(_member_of, layout, place.name)
        if found is not None:
            record.put("etcd", place.name, found.pid, addresses)
            if is_alive(found):
                await ended(found.pid)
            record.drop("etcd", place.name)
        await asyncio.sleep(LOOK_EVERY_S)


def _member_of(layout: Layout, server: str) -> Process | None:
    members = (m for m in find_members(layout) if (m.role, m.name) == ("etcd", server))
    return next((member.process for member in members), None)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
