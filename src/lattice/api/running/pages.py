"""Web pages of running allocations: addresses for browsers, and the way from the gateway to the work."""

from urllib.parse import quote

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.gateway.server import TICKET, Refused
from lattice.api.gateway.tickets import TICKET_S, Grant
from lattice.api.running.ports import parse_port, reached
from lattice.api.services import Services
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import AllocationState
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import Tunnel, TunnelRefused
from lattice.ports.site.identity import Unauthenticated
from lattice.wire.bounds import Argument, Short
from lattice.wire.text.problems import BadField


class OpenPort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of an allocation whose web page is to be opened at `path`. With `keep_path` the application sees the whole path
    of the address, /proxy/ID/PORT/..., for applications that are configured to be there; otherwise what follows."""

    id: str
    port: Short
    request_id: str = ""
    node: Short = ""
    path: Argument = "/"
    keep_path: bool = False


class OpenedPort(Struct, frozen=True, kw_only=True):
    """An address that is good once and for `expires_in_s`."""

    url: str
    port: int
    node: str
    expires_in_s: float


async def open_page(context: Context, fields: OpenPort) -> OpenedPort:
    """Raises ApiError."""
    allocation, node = await reached(context, fields.id, fields.node)
    services, port = context.services, parse_port(fields.port)
    if not services.proxy_url:
        raise ApiError(
            "conflict",
            "this cluster has no gateway to web pages",
            hint="use `lattice forward`; administrators set api.proxy_listen",
        )
    path = fields.path
    if not path.startswith("/") or path.startswith("//") or not path.isprintable():
        raise BadField("path", f'"{path[:60]}" is not a path', hint="begin it with one /")
    grant = Grant(
        user=context.user,
        number=allocation.number,
        name=allocation_id(allocation.number),
        port=port,
        node=node,
        keeps_path=fields.keep_path,
    )
    ticket = services.tickets.issue(grant)
    address = quote(path, safe="/?&=%:@!$'()*+,;~-._")
    mark = "&" if "?" in address else "?"
    url = f"{services.proxy_url}{grant.prefix}{address}{mark}{TICKET}={ticket}"
    return OpenedPort(url=url, port=port, node=node, expires_in_s=TICKET_S)


class PortWork:
    """Implements `Work` of the gateway: each request is judged by the state of now."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.tickets = services.tickets

    async def connect(self, grant: Grant) -> Tunnel:
        state, links = self._services.replica.state, self._services.ports
        allocation = state.allocations.get(grant.number)
        if allocation is None or allocation.state is not AllocationState.RUNNING or links is None:
            raise Refused(404, f"{grant.name} is not running")
        if allocation.user != grant.user or grant.node not in allocation.nodes:
            raise Refused(403, f"{grant.name} is not yours, or does not run there any more")
        if allocation.vcluster in state.audit.sensitive:
            raise Refused(403, f"{grant.name} is sensitive work")
        try:
            return await links.connect_port(grant.node, RunKey(allocation.number, allocation.run), grant.port)
        except TunnelRefused as refusal:
            raise Refused(502, f"{grant.name}: {refusal}") from None

    def is_token(self, text: str) -> bool:
        try:
            self._services.verifier.verify(text)
        except Unauthenticated:
            return False
        return True
