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


async def watch_etcd(layout: Layout, places: "Sequence[ServerPlace]", record: Record) -> None:
    """Servers start and stop their members, so these are only watched: one look for all that are not known to run."""
    addresses = {place.name: (f"https://{HOST}:{place.client}", f"https://{HOST}:{place.peer}") for place in places}
    async with asyncio.TaskGroup() as group:
        running: dict[str, asyncio.Task[None]] = {}
        while True:
            running = {name: task for name, task in running.items() if not task.done()}
            if len(running) < len(addresses):
                for name, process in (await asyncio.to_thread(_members, layout)).items():
                    if name in addresses and name not in running:
                        running[name] = group.create_task(_follow(name, process, addresses[name], record))
            await asyncio.sleep(LOOK_EVERY_S)


async def _follow(name: str, process: Process, addresses: tuple[str, ...], record: Record) -> None:
    record.put("etcd", name, process.pid, addresses)
    if is_alive(process):
        await ended(process.pid)
    record.drop("etcd", name)


def _members(layout: Layout) -> dict[str, Process]:
    return {member.name: member.process for member in find_members(layout) if member.role == "etcd"}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
