"""Web pages of running allocations: addresses for browsers."""

from urllib.parse import quote, urlsplit

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.gateway.server import TICKET
from lattice.api.gateway.tickets import TICKET_S, Grant, port_prefix
from lattice.api.running.ports import must_listen, reach
from lattice.api.services import Services
from lattice.core.model.ids import allocation_id
from lattice.wire.bounds import Argument, Short
from lattice.wire.text.problems import BadField


class OpenPort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of an allocation, by number or name, whose web page is to be opened at `path`. With `keep_path` the application sees the
    whole path of the address, /proxy/ID/PORT/..., for applications that are configured to be there; otherwise what follows."""

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
    reached = await reach(context, fields.id, fields.port, fields.node)
    await must_listen(context, reached)
    allocation = reached.allocation
    grant = Grant(
        user=context.user,
        prefix=port_prefix(allocation_id(allocation.number), fields.port),
        number=allocation.number,
        port=fields.port,
        tenant=allocation.tenant,
        node=reached.node,
        keeps_path=fields.keep_path,
        is_own=allocation.user == context.user,
    )
    url = ticket_url(context, grant, fields.path)
    return OpenedPort(url=url, port=reached.port, node=reached.node, expires_in_s=TICKET_S)


def ticket_url(context: Context, grant: Grant, path: str) -> str:
    """An address with a new ticket for the grant. Raises ApiError and BadField."""
    services = context.services
    if not services.proxy_url:
        raise ApiError(
            "conflict",
            "this cluster has no gateway to web pages",
            hint="use `lattice forward`; administrators set api.proxy_listen",
        )
    if not grant.is_own and not services.proxy_domain:
        raise ApiError(
            "conflict",
            f"{grant.name} is not yours, and this gateway shows all pages on one origin, where its scripts could use your other pages",
            hint="use `lattice forward`, or send your token as a program; administrators set api.proxy_domain",
        )
    if not path.startswith("/") or path.startswith("//") or not path.isprintable():
        raise BadField("path", f'"{path[:60]}" is not a path', hint="begin it with one /")
    ticket = services.tickets.issue(grant)
    address = quote(path, safe="/?&=%:@!$'()*+,;~-._")
    mark = "&" if "?" in address else "?"
    return f"{_origin(services, grant)}{grant.prefix}{address}{mark}{TICKET}={ticket}"


def _origin(services: Services, grant: Grant) -> str:
    if not services.proxy_domain:
        return services.proxy_url
    parts = urlsplit(services.proxy_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{grant.label}.{services.proxy_domain}{port}"
