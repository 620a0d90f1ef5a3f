"""Which ports of a run may be connected to: those on which its processes listen and no other process would answer.

`choose` decides on what the kernel shows: listening sockets by inode, and the inodes that processes of the run have open.
Sockets that would take a connection to the same address, of whomever, must all be the run's: otherwise the kernel might hand it to a
stranger. docs/architecture/forwarding.md.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LISTEN = "0A"
# What serves the ranks of a step in its groups, as the kernel names it (at most 15 characters): the shim's PMI service
# (`agent/shim/pmi/starting.py`) and the PMIx server that it starts (`agent/pmix/building.py`). Their ports are not the work's.
SERVICES = frozenset({"lattice-pmi", "lattice-pmix-ho"})
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_SOCKET = "socket:["


class Listener(NamedTuple):
    """A listening socket of this node; `address` as the kernel has it, without the brackets or zones of texts."""

    address: str
    port: int
    inode: int

    @property
    def is_wildcard(self) -> bool:
        return self.address in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    @property
    def target(self) -> str:
        """Where to connect to reach it."""
        if self.is_wildcard:
            return "127.0.0.1" if self.address == "0.0.0.0" else "::1"  # noqa: S104 - compared, not bound
        return self.address


class Owner(NamedTuple):
    """A process of the run that has a socket."""

    pid: int
    program: str


def parse_table(lines: Iterable[str]) -> list[Listener]:
    """The listening sockets in /proc/net/tcp or tcp6.

    The kernel lists them before all others, and takes long to go through all connections of a node: the rest is not read.
    """
    found = []
    for place, line in enumerate(lines):
        fields = line.split()
        if place and (len(fields) < 10 or fields[3] != LISTEN):
            break
        if place:
            address, _, port = fields[1].partition(":")
            found.append(Listener(_address(address), int(port, 16), int(fields[9])))
    return found


def _address(text: str) -> str:
    """The kernel writes words of four bytes, each in the order of the machine."""
    words = [bytes.fromhex(text[place : place + 8])[::-1] for place in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def choose(listeners: Iterable[Listener], owned: Mapping[int, Owner], port: int) -> Listener | None:
    """The socket of the run to connect to at this port; None when there is none that is the run's beyond doubt."""
    here = [each for each in listeners if each.port == port]
    for each in here:
        if each.inode in owned and all(rival.inode in owned for rival in here if _may_take(rival, each.target)):
            return each
    return None


def _may_take(listener: Listener, target: str) -> bool:
    """Whether the kernel might give it a connection to that address; a socket on `::` may take IPv4 as well."""
    if listener.address == target or listener.address == "::":
        return True
    return listener.is_wildcard and ":" not in target


def own_ports(listeners: Iterable[Listener], owned: Mapping[int, Owner]) -> list[tuple[Listener, Owner]]:
    """The run's sockets, one for each port, by number."""
    found: dict[int, tuple[Listener, Owner]] = {}
    for each in listeners:
        if each.inode in owned:
            found.setdefault(each.port, (each, owned[each.inode]))
    return [found[port] for port in sorted(found)]


def read_listeners() -> list[Listener]:
    """Every listening socket of this node's network."""
    found = []
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:
                found += parse_table(file)
        except OSError:
            continue  # without IPv6 there is no table of it
    return found


def read_owned(pids: Iterable[int], inodes: frozenset[int]) -> dict[int, Owner]:
    """Which of these sockets the processes have open, except what serves the ranks of steps.

    A process in a network of its own has none of this node's.
    """
    network = os.readlink("/proc/self/ns/net")
    owned: dict[int, Owner] = {}
    for pid in pids:
        try:
            if os.readlink(f"/proc/{pid}/ns/net") != network:
                continue
            for entry in os.scandir(f"/proc/{pid}/fd"):
                link = os.readlink(entry.path)
                inode = int(link[len(_SOCKET) : -1]) if link.startswith(_SOCKET) else 0
                if inode in inodes and inode not in owned:
                    owner = Owner(pid, _program(pid))
                    if owner.program not in SERVICES:
                        owned[inode] = owner
        except OSError:
            continue  # it ended, or closed the file meanwhile
    return owned


def _program(pid: int) -> str:
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
