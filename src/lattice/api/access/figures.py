"""Who may read the metrics that name tenants: those who may see every tenant, and a monitoring system with a token of its own."""

from lattice.api.access.admission import admit
from lattice.api.auth.rbac import Permission, Role
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.api.operations.operation import Operation
from lattice.api.services import Services
from lattice.ports.site.identity import Identity

_EVERYTHING = frozenset({Role.SYSTEM_ADMIN, Role.OPERATOR})


async def _page(context: Context, request: NoParameters) -> bytes:
    return context.services.metrics.render_tenants()


TENANT_PAGE = Operation(
    name="tenant_metrics",
    handle=_page,
    request=NoParameters,
    permission=Permission.READ_FIGURES,
    method="GET",
    path="/metrics/tenants",
)


async def tenant_page(services: Services, authorization: str, source: str) -> bytes:
    """The page. Raises ApiError and Unauthenticated."""
    identity = await admit(services, TENANT_PAGE, authorization, source)
    if not _sees_all(identity):
        raise ApiError(
            "forbidden",
            "this page names every tenant, and your token belongs to one",
            current=f"tenants: {', '.join(identity.tenants[:5])}",
            hint="a monitoring system needs a token with the scope `readonly` and no tenant",
        )
    return services.metrics.render_tenants()


def _sees_all(identity: Identity) -> bool:
    return bool(_EVERYTHING.intersection(identity.roles)) or not identity.tenants
