"""Ports that a node chooses for the work it starts: free at that moment, and given to one run at a time."""

import errno
import secrets
import socket
from collections.abc import Callable

import msgspec

from lattice.ports.nodes.agents import NamedPort, RunKey, StartOrder

# Below the ports that kernels take for outgoing connections, so that none of these is taken between the choice and the start.
FIRST = 20_000
LAST = 29_999
TRIES = 200


class NoPort(Exception):
    """The node has no port left; the text is for the user."""


def is_free(port: int) -> bool:
    """Whether nothing listens on the port at any address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                return False
    return True


class PortChooser:
    """Remembers whom it gave a port, so that two runs that start together do not get the same one."""

    def __init__(self, free: Callable[[int], bool] = is_free, draw: Callable[[int], int] = secrets.randbelow) -> None:
        self._free = free
        self._draw = draw
        self._given: dict[int, RunKey] = {}

    def chosen(self, order: StartOrder, is_alive: Callable[[RunKey], bool]) -> StartOrder:
        """The order with a number for every port; raises NoPort."""
        if all(each.port for each in order.exposes):
            return order
        self._given = {port: key for port, key in self._given.items() if key == order.key or is_alive(key)}
        taken = {each.port for each in order.exposes}
        filled = []
        for each in order.exposes:
            port = each.port or self._choose(order.key, taken)
            taken.add(port)
            filled.append(NamedPort(name=each.name, port=port))
        return msgspec.structs.replace(order, exposes=tuple(filled))

    def _choose(self, key: RunKey, taken: set[int]) -> int:
        for _ in range(TRIES):
            port = FIRST + self._draw(LAST - FIRST + 1)
            if port not in taken and port not in self._given and self._free(port):
                self._given[port] = key
                return port
        raise NoPort("this node has no free port for what the allocation exposes")
