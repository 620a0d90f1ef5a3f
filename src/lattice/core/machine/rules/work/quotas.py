"""Hard quotas: never exceeded, not even for one log entry. Checked when a submission arrives and again at each placement.

See docs/architecture/core.md.
"""

from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import OnQuota, Tenant
from lattice.core.model.work.allocations import Allocation

_HINT = "Cancel running allocations or request a quota increase from your tenant admin."


def check_submission(state: State, tenant: Tenant, nodes: int, *, queue: bool) -> Rejected | None:
    """Refuses what can never fit, and what does not fit now unless it may wait."""
    if tenant.max_nodes is not None and nodes > tenant.max_nodes:
        return _over_nodes(state, tenant, nodes, "Request fewer nodes or ask your tenant admin for a larger quota.")
    if tenant.max_concurrent_allocations == 0:
        return _over_allocations(state, tenant)
    if queue or tenant.on_quota is OnQuota.QUEUE:
        return None
    return check_headroom(state, tenant, nodes)


def check_headroom(state: State, tenant: Tenant, nodes: int) -> Rejected | None:
    """Refuses when the tenant would hold more than its quota with `nodes` further nodes and one further allocation."""
    use = state.use_of(tenant.name)
    if tenant.max_nodes is not None and use.nodes + nodes > tenant.max_nodes:
        return _over_nodes(state, tenant, nodes, _HINT)
    limit = tenant.max_concurrent_allocations
    if limit is not None and use.allocations + 1 > limit:
        return _over_allocations(state, tenant)
    return None


def check_placement(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    """The same limits with the very nodes of a placement, and those of its user and project."""
    tenant = state.tenants[allocation.tenant]
    added = sum(_adds_node(state, allocation.tenant, share) for share in shares)
    refusal = check_headroom(state, tenant, added)
    if refusal is not None:
        return refusal
    limit = tenant.max_running_per_user
    running = state.user_use(allocation.tenant, allocation.user).holding
    if limit is not None and running + 1 > limit:
        return Rejected(
            code="quota",
            message=f'user "{allocation.user}" would exceed the running limit of tenant "{tenant.name}"',
            current=f"{running} running",
            requested="1 more",
            limit=f"{limit} running",
        )
    return _check_project(state, allocation, len(shares))


def check_growth(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    """The limits on nodes, for an allocation that runs and gets further ones."""
    tenant = state.tenants[allocation.tenant]
    added = sum(_adds_node(state, allocation.tenant, share) for share in shares)
    if tenant.max_nodes is not None and state.use_of(tenant.name).nodes + added > tenant.max_nodes:
        return _over_nodes(state, tenant, added, _HINT)
    return _check_project(state, allocation, len(shares))


def _adds_node(state: State, tenant: str, share: Share) -> bool:
    """A node on which the tenant already has a share is not counted again."""
    node = state.nodes[share.node]
    return not any(tenure.tenant == tenant for tenure in node.tenures)


def _check_project(state: State, allocation: Allocation, nodes: int) -> Rejected | None:
    key = (allocation.tenant, allocation.project)
    project = state.projects.get(key)
    if project is None or project.max_nodes is None:
        return None
    held = state.project_nodes.get(key, 0)
    if held + nodes <= project.max_nodes:
        return None
    return Rejected(
        code="quota",
        message=f'project "{project.name}" would exceed its max_nodes limit',
        current=f"{held} nodes in use",
        requested=f"{nodes} additional nodes",
        limit=f"{project.max_nodes} nodes",
    )


def _over_nodes(state: State, tenant: Tenant, nodes: int, hint: str) -> Rejected:
    return Rejected(
        code="quota",
        message=f'allocation rejected: tenant "{tenant.name}" would exceed max_nodes quota',
        current=f"{state.use_of(tenant.name).nodes} nodes in use",
        requested=f"{nodes} additional nodes",
        limit=f"{tenant.max_nodes} nodes",
        hint=hint,
    )


def _over_allocations(state: State, tenant: Tenant) -> Rejected:
    return Rejected(
        code="quota",
        message=f'allocation rejected: tenant "{tenant.name}" would exceed max_concurrent_allocations quota',
        current=f"{state.use_of(tenant.name).allocations} allocations running",
        requested="1 additional allocation",
        limit=f"{tenant.max_concurrent_allocations} allocations",
        hint=_HINT,
    )
