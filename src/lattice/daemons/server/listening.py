"""Addresses to listen on: parsed, bound and announced."""

import errno
import socket
from typing import NamedTuple


class ListenFailed(Exception):
    """Cannot listen on an address; the text says which and what to do."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str, key: str) -> Address:
    """Host and port of `host:port` or `[v6]:port`."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ListenFailed(f'{key}: "{text}" has no port between 0 and 65535')
    return Address(host.strip("[]"), int(port))


def bind(address: Address, key: str) -> socket.socket:
    """A bound socket that does not listen yet; port 0 takes a free one."""
    bound: socket.socket | None = None
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise ListenFailed(f"{key}: cannot listen on {address}: {_why(error)}") from error
    return bound


def check_free(address: Address, key: str) -> None:
    """Raises ListenFailed if the address cannot be bound now."""
    bind(address, key).close()


def reachable(address: Address) -> Address:
    """The address as others use it: a wildcard becomes this host's name."""
    if address.host in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return Address(socket.gethostname(), address.port)
    return address


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use by another process; choose another one, or 0 for a free one"
    return error.strerror or str(error)
