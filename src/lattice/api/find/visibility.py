"""Which vClusters and reservations a caller may know of. What belongs to other tenants alone appears under no name."""

from collections.abc import Mapping

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import unknown
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Vcluster

OTHERS = "others"  # stands for tenants and users that are none of the caller's business


def sees_all_vclusters(context: Context) -> bool:
    return Reach.ALL in (context.reach(Permission.READ_TENANTS), context.reach(Permission.CONTROL_NODES))


def may_see_vcluster(context: Context, vcluster: Vcluster) -> bool:
    return not vcluster.tenants or sees_all_vclusters(context) or not _own(context).isdisjoint(vcluster.tenants)


def visible_vclusters(context: Context) -> Mapping[str, Vcluster]:
    """Those that the caller's tenants may use; all for administrators and operators of the system."""
    vclusters = context.state.vclusters
    if sees_all_vclusters(context):
        return vclusters
    return {name: each for name, each in vclusters.items() if may_see_vcluster(context, each)}


def find_vcluster(context: Context, name: str) -> Vcluster:
    """The vCluster, if the caller may know of it. Raises ApiError with those that may be known."""
    found = context.state.vclusters.get(name)
    if found is None or not may_see_vcluster(context, found):
        raise unknown("vCluster", name, visible_vclusters(context))
    return found


def vclusters_of_nodes(context: Context) -> dict[str, str]:
    """For which vCluster each node works, else to which it was given by name; of those that the caller may know of."""
    visible = visible_vclusters(context)
    given = {node: each.name for each in visible.values() for node in each.nodes}
    working = {node.id: node.vcluster for node in context.state.nodes.values() if node.vcluster in visible}
    return given | working


def sees_all_reservations(context: Context) -> bool:
    return context.reach(Permission.WRITE_RESERVATIONS) is Reach.ALL


def may_see_reservation(context: Context, record: AdvanceReservation) -> bool:
    """Maintenance concerns everybody; a reservation for somebody concerns those alone."""
    if not (record.tenants or record.users) or sees_all_reservations(context):
        return True
    return context.user in record.users or not _own(context).isdisjoint(record.tenants)


def visible_reservations(context: Context) -> dict[str, AdvanceReservation]:
    """By name, those that the caller may know of."""
    records = context.state.reservations.items()
    return {name: record for name, record in records if may_see_reservation(context, record)}


def own_tenants_among(context: Context, names: tuple[str, ...]) -> tuple[str, ...]:
    """One's own tenants; that there are others is said, which ones is not."""
    return _without_others(names, _own(context))


def own_user_among(context: Context, names: tuple[str, ...]) -> tuple[str, ...]:
    return _without_others(names, frozenset({context.user}))


def _without_others(names: tuple[str, ...], own: frozenset[str]) -> tuple[str, ...]:
    kept = tuple(name for name in names if name in own)
    return kept if len(kept) == len(names) else (*kept, OTHERS)


def _own(context: Context) -> frozenset[str]:
    return frozenset(context.identity.tenants)
