"""What the gateway needs of the server it belongs to: who may reach what, and the way there."""

from typing import NamedTuple, Protocol

from lattice.api.gateway.tickets import SERVICES, Grant, Ticket, Tickets, port_prefix, service_prefix
from lattice.core.model.work.exposure import is_label
from lattice.ports.nodes.tunnels import Tunnel


class Refused(Exception):
    """Answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Link(Protocol):
    """A connection to the work for one request."""

    @property
    def tunnel(self) -> Tunnel: ...

    def failed(self) -> None:
        """The work did not answer on it."""
        ...

    def done(self, *, is_good: bool) -> None:
        """Called once at the end; `is_good` = it can carry another request."""
        ...


class Address(NamedTuple):
    """What an address below /proxy/ names: a port of an allocation, or with `allocation` empty a service."""

    allocation: str
    port: str

    @property
    def prefix(self) -> str:
        return port_prefix(self.allocation, self.port) if self.allocation else service_prefix(self.port)


class Work(Protocol):
    """The way to the work, as the leader has it."""

    tickets: Tickets
    domain: str  # below which each page has a host of its own; empty = all share one

    async def authorized(self, authorization: str, tenant: str, address: Address, source: str) -> Grant:
        """What the bearer of a token may reach at the address. Raises Refused."""
        ...

    async def use_up(self, ticket: Ticket, source: str) -> bool:
        """Whether the ticket had not been used before, whichever server led; it has been now. Raises Refused."""
        ...

    async def connect(self, grant: Grant, *, is_safe: bool, is_again: bool) -> Link:
        """A connection, if the grant still holds. Raises Refused.

        A request that is not `is_safe` to repeat gets one that is certainly alive; one that is asked again a new one, elsewhere if
        there is another place.
        """
        ...

    def is_token(self, text: str) -> bool:
        """Whether this is a token of ours, which no work may see."""
        ...


def split_target(target: str) -> tuple[Address, str]:
    """The address, and what follows its prefix; raises Refused."""
    path, mark, query = target.partition("?")
    words = path.split("/", 4)
    if len(words) >= 4 and words[1] == "proxy" and _is_page(words[2], words[3]):
        rest = f"/{words[4]}" if len(words) > 4 else ""
        allocation = "" if words[2] == SERVICES else words[2]
        return Address(allocation, words[3]), rest + mark + query
    raise Refused(404, "nothing here; pages are below /proxy/ID/PORT/ and /proxy/services/NAME/")


def _is_page(place: str, port: str) -> bool:
    is_number = port.isascii() and port.isdigit() and len(port) < 6
    if place == SERVICES:
        return is_label(port)
    return place.isascii() and place.isalnum() and len(place) < 24 and (is_number or is_label(port))
