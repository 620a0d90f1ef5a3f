"""Lending and borrowing of nodes between vClusters. The home of a node are the vClusters that list it.

The plan and the rules both ask here, so that they cannot disagree. See docs/architecture/lending.md.
"""

from collections.abc import Iterable

from lattice.core.model.site.tenants import SENSITIVE, Lending, Lends, Vcluster
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.evictions import CRITICAL_CLASS, is_fixed

NO_LENDING = Lending()


def lending_of(vcluster: Vcluster) -> Lending:
    lending = vcluster.demands.lending if vcluster.demands is not None else None
    return NO_LENDING if lending is None else lending


def lends_to(home: Vcluster, borrower: str) -> bool:
    """Whether the vCluster lends its idle nodes to that one. Sensitive ones never lend, and one without a list has no home nodes."""
    lending = lending_of(home)
    return (
        lending.lends is Lends.IDLE
        and bool(home.nodes)
        and home.scheduler != SENSITIVE
        and home.name != borrower
        and (not lending.lend_to or borrower in lending.lend_to)
    )


def borrows(vcluster: Vcluster) -> bool:
    return lending_of(vcluster).borrows and bool(vcluster.nodes) and vcluster.scheduler != SENSITIVE


def may_run_borrowed(record: Allocation, vcluster: Vcluster) -> bool:
    """Only work that can be taken off the nodes again, and that ends soon enough where the vCluster says so."""
    longest_s = lending_of(vcluster).max_borrow_s
    return (
        borrows(vcluster)
        and record.preemption_class < CRITICAL_CLASS
        and not is_fixed(record)
        and (not longest_s or 0 < record.walltime_s <= longest_s)
    )


def homes_of(node: str, vclusters: Iterable[Vcluster]) -> list[Vcluster]:
    return [vcluster for vcluster in vclusters if node in vcluster.nodes]


def is_lent(node: str, user: str, vclusters: dict[str, Vcluster]) -> bool:
    """Whether a node that works for the vCluster `user` belongs to others and not to it."""
    own = vclusters.get(user)
    if own is None or not own.nodes or node in own.nodes:
        return False
    return any(lending_of(each).lends is Lends.IDLE and node in each.nodes for each in vclusters.values())
