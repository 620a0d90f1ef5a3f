"""Services of the registry as people and programs read them."""

import hashlib
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from lattice.core.machine.parts.services import ServiceKey, endpoints_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.exposure import find_exposed

Ready = Callable[[Allocation, str], bool | None]


class EndpointView(Struct, frozen=True, kw_only=True):
    """One instance of a service. A port of 0: its node has not told which one it chose."""

    id: str  # of the allocation
    run: int
    node: str
    port: int
    ready: bool  # as its readiness probe says; without one, always


class RegisteredService(Struct, frozen=True, kw_only=True):
    """A service that runs: allocations of one user that expose a port under the same name."""

    name: str
    tenant: str
    user: str
    allocations: tuple[str, ...]
    ready: int  # endpoints
    size: int  # all endpoints


class ServiceLookup(Struct, frozen=True, kw_only=True):
    """A service with its endpoints. `version` changes with them, and with their readiness; a long poll names the last one seen."""

    name: str
    tenant: str
    user: str
    allocations: tuple[str, ...]
    ready: int
    size: int
    endpoints: tuple[EndpointView, ...]
    shared: bool  # with the caller, or the caller's own: /proxy/services/NAME/ leads there
    version: str


def endpoint_views(running: Sequence[Allocation], name: str, ready: Ready) -> tuple[EndpointView, ...]:
    found = []
    for record in running:
        exposed = find_exposed(record.exposes, name)
        if exposed is not None:
            found += [
                EndpointView(
                    id=allocation_id(each.number),
                    run=each.run,
                    node=each.node,
                    port=each.port,
                    ready=ready(record, each.node) is not False,
                )
                for each in endpoints_of(record, exposed)
            ]
    return tuple(found)


def service_view(key: ServiceKey, running: Sequence[Allocation], ready: Ready) -> RegisteredService:
    endpoints = endpoint_views(running, key.name, ready)
    return RegisteredService(
        name=key.name,
        tenant=key.tenant,
        user=running[0].user,
        allocations=tuple(allocation_id(each.number) for each in running),
        ready=sum(each.ready for each in endpoints),
        size=len(endpoints),
    )


def service_lookup(key: ServiceKey, running: Sequence[Allocation], ready: Ready, *, shared: bool) -> ServiceLookup:
    view = service_view(key, running, ready)
    endpoints = endpoint_views(running, key.name, ready)
    return ServiceLookup(
        name=view.name,
        tenant=view.tenant,
        user=view.user,
        allocations=view.allocations,
        ready=view.ready,
        size=view.size,
        endpoints=endpoints,
        shared=shared,
        version=hashlib.sha256(msgspec.json.encode(endpoints)).hexdigest()[:16],
    )
