"""Connections to ports of running work, through its node's agent.

TunnelRefused   nothing was connected; `code` says why, `listening` names the ports that could be
TunnelBroken    an open connection ended in the middle
"""

from typing import Literal, Protocol

from msgspec import Struct

from lattice.ports.nodes.agents import RunKey

RefusalCode = Literal["not_listening", "gone", "unreachable", "unsupported", "broken"]


class ListeningPort(Struct, frozen=True, kw_only=True):
    """A port on which a process of the run listens; `address` is what it is bound to."""

    port: int
    address: str = ""
    pid: int = 0
    program: str = ""


class TunnelRefused(Exception):
    def __init__(self, code: RefusalCode, message: str, listening: tuple[ListeningPort, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.listening = listening


class TunnelBroken(Exception):
    """Bytes may be missing on either side."""


class Tunnel(Protocol):
    """One connection; one task may read while another writes."""

    @property
    def is_quiet(self) -> bool:
        """Whether it is open in both directions and everything that came was read."""
        ...

    async def read(self) -> bytes:
        """The next bytes; none when the other side has ended. Raises TunnelBroken."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when more may come; raises TunnelBroken."""
        ...

    def end(self) -> None:
        """Nothing more is written."""
        ...

    def close(self) -> None:
        """Harmless when repeated."""
        ...


class PortLinks(Protocol):
    """The way to the ports of runs."""

    async def connect_port(self, node: str, key: RunKey, port: int) -> Tunnel:
        """A connection to a process of the run that listens there; raises TunnelRefused."""
        ...

    async def listening(self, node: str, key: RunKey) -> tuple[ListeningPort, ...]:
        """Every port on which a process of the run listens, by number; raises TunnelRefused."""
        ...
