"""The registry of services: who runs what under which name, and where. Entries follow the state; readiness is observed."""

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.gateway.tickets import TICKET_S, Grant, service_prefix
from lattice.api.limits import DEFAULT_PAGE, MAX_PAGE, MAX_WAIT_S
from lattice.api.running.pages import ticket_url
from lattice.api.running.sharing import may_reach
from lattice.core.machine.parts.services import ServiceKey
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.exposure import find_exposed
from lattice.wire.bounds import Argument, Short
from lattice.wire.services.registry import RegisteredService, ServiceLookup, service_lookup, service_view
from lattice.wire.text.problems import BadField

# Readiness is no change of the log: those who wait look for it this often.
LOOK_EVERY_S = 0.25


class ServiceQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The services of one's tenants, or of the one that is named."""

    tenant: str = ""
    limit: int | None = None
    cursor: str = ""


class LookupQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service of a tenant. With a `timeout` the answer comes when it differs from `version`, or with the time."""

    name: Short
    tenant: str = ""
    version: Short = ""
    timeout: float = 0.0


class OpenService(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service whose web page is to be opened at `path`; `keep_path` as for a port."""

    name: Short
    request_id: str = ""
    tenant: str = ""
    path: Argument = "/"
    keep_path: bool = False


class OpenedService(Struct, frozen=True, kw_only=True):
    """An address that is good once and for `expires_in_s`."""

    url: str
    expires_in_s: float


async def list_services(context: Context, request: ServiceQuery) -> Page[RegisteredService]:
    """List the services of the caller's tenants, by tenant and name."""
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    after = read_cursor(request.cursor, tuple[str, str]) if request.cursor else ("", "")
    named = context.chosen_tenant(Permission.READ_SERVICES, request.tenant) if request.tenant else ""
    tenants = (named,) if named else context.visible_tenants(Permission.READ_SERVICES)
    items: list[RegisteredService] = []
    for key, running in context.state.services.registered():
        if key <= after or (tenants is not None and key.tenant not in tenants):
            continue
        if not context.covers_tenant(Permission.READ_SERVICES, key.tenant):
            continue
        if len(items) == limit:
            return Page(items=items, next_cursor=make_cursor(items[-1].tenant, items[-1].name))
        items.append(service_view(key, running, context.services.ready))
    return Page(items=items)


async def lookup_service(context: Context, request: LookupQuery) -> ServiceLookup:
    """The endpoints of a service; with `timeout` a long poll."""
    if not 0 <= request.timeout <= MAX_WAIT_S:
        raise BadField("timeout", f"{request.timeout:g} is not possible", limit=f"from 0 to {MAX_WAIT_S:g} s")
    key = _key(context, request.name, request.tenant)
    clock, feed = context.services.clock, context.services.feed
    deadline = clock.monotonic_s() + request.timeout
    while True:
        place = feed.end
        found = _found(context, key)
        left = deadline - clock.monotonic_s()
        is_new = found is None if request.version else found is not None
        if is_new or (found is not None and found.version != request.version) or left <= 0 or feed.is_closed:
            if found is None:
                raise _unknown(key)
            return found
        # Nothing is awaited between looking and waiting, or a change could slip through.
        await feed.more(place, min(left, LOOK_EVERY_S))


async def open_service(context: Context, request: OpenService) -> OpenedService:
    """An address for a browser, good once and for a minute, that leads to a service."""
    key = _key(context, request.name, request.tenant)
    running = context.state.services.running(key)
    if not running:
        raise _unknown(key)
    if not _is_shared(context, running, key.name):
        raise ApiError("forbidden", f'service "{key.name}" is not shared with you', hint="ask its owner to share it")
    grant = Grant(
        user=context.user,
        prefix=service_prefix(key.name),
        port=key.name,
        tenant=key.tenant,
        keeps_path=request.keep_path,
        is_own=running[0].user == context.user,
    )
    return OpenedService(url=ticket_url(context, grant, request.path), expires_in_s=TICKET_S)


def _key(context: Context, name: str, tenant: str) -> ServiceKey:
    chosen = context.chosen_tenant(Permission.READ_SERVICES, tenant)
    if not context.covers_tenant(Permission.READ_SERVICES, chosen):
        raise ApiError("forbidden", "your role does not allow to read the services of this tenant")
    return ServiceKey(chosen, name)


def _found(context: Context, key: ServiceKey) -> ServiceLookup | None:
    running = context.state.services.running(key)
    if not running:
        return None
    shared = _is_shared(context, running, key.name)
    return service_lookup(key, running, context.services.ready, shared=shared)


def _is_shared(context: Context, running: list[Allocation], name: str) -> bool:
    return any(may_reach(context.identity, each, find_exposed(each.exposes, name)) for each in running)


def _unknown(key: ServiceKey) -> ApiError:
    return ApiError(
        "not_found",
        f'tenant "{key.tenant}" has no service "{key.name[:60]}" that runs',
        hint="`lattice service list` shows those that do",
    )
