"""Judges what a vCluster is lent: that its owners lend it, to this one, and not too much.

A loan is no record: a node is lent while work of a vCluster that does not list it holds it. So nothing has to be returned or can be
forgotten; what is lent is counted from the nodes each time, and a vCluster that changes its list changes what is a loan.
How long a node was idle is not judged: only plans know it. See docs/architecture/lending.md.
"""

from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.capacity.lending import borrows, homes_of, lending_of, lends_to, may_run_borrowed
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import SENSITIVE, Lends, Vcluster
from lattice.core.model.work.allocations import Allocation


def foreign_nodes(vcluster: Vcluster, shares: tuple[Share, ...]) -> list[str]:
    """Those that the vCluster does not list; one that lists none may use all."""
    return [share.node for share in shares if share.node not in vcluster.nodes] if vcluster.nodes else []


def check_placement(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    vcluster = state.vclusters[allocation.vcluster]
    foreign = foreign_nodes(vcluster, shares)
    if not foreign:
        return None
    if not may_run_borrowed(allocation, vcluster):
        return _stale(f"node {foreign[0]} is not of vCluster {vcluster.name}, and this work may not borrow it")
    most = lending_of(vcluster).max_borrowed
    if most and len(borrowed_by(state, vcluster)) + len(foreign) > most:
        return _stale(f'vCluster "{vcluster.name}" borrows {most} nodes at most')
    lent: dict[str, int] = {}
    for node in foreign:
        homes = homes_of(node, state.vclusters.values())
        if not homes or not all(lends_to(home, vcluster.name) for home in homes):
            return _stale(f"node {node} is not lent to vCluster {vcluster.name}")
        for home in homes:
            lent[home.name] = lent.get(home.name, 0) + 1
    for name, more in lent.items():
        most = lending_of(state.vclusters[name]).max_lent
        if most and len(lent_by(state, state.vclusters[name])) + more > most:
            return _stale(f'vCluster "{name}" lends {most} nodes at most')
    return None


def within_reach(state: State, vcluster: Vcluster) -> frozenset[str]:
    """Nodes that the vCluster could ever borrow."""
    if not borrows(vcluster):
        return frozenset()
    found = {node for home in state.vclusters.values() if lends_to(home, vcluster.name) for node in home.nodes}
    kept = {node for home in state.vclusters.values() if not lends_to(home, vcluster.name) for node in home.nodes}
    return frozenset(found - kept)


def lent_by(state: State, home: Vcluster) -> list[str]:
    """Nodes of the vCluster that work for others which do not list them."""
    return [node for node in home.nodes if _works_abroad(state, node, home.name)]


def _works_abroad(state: State, name: str, home: str) -> bool:
    node = state.nodes.get(name)
    user = state.vclusters.get(node.vcluster) if node is not None and node.vcluster != home else None
    return user is not None and bool(user.nodes) and name not in user.nodes


def borrowed_by(state: State, vcluster: Vcluster) -> list[str]:
    """Nodes that work for the vCluster and that it does not list."""
    if not vcluster.nodes:
        return []
    own = frozenset(vcluster.nodes)
    return [node.id for node in state.nodes.values() if node.vcluster == vcluster.name and node.id not in own]


def check_vcluster(state: State, vcluster: Vcluster) -> Rejected | None:
    """A vCluster whose settings say something that could never hold is refused."""
    lending = lending_of(vcluster)
    if lending.lends is Lends.NEVER and not lending.borrows:
        return None
    word = "lends" if lending.lends is not Lends.NEVER else "borrows"
    if vcluster.scheduler == SENSITIVE:
        return _invalid(f'vCluster "{vcluster.name}" is sensitive: it neither lends nor borrows nodes')
    if not vcluster.nodes:
        return _invalid(
            f'vCluster "{vcluster.name}" lists no nodes, so none of them are its own',
            hint=f"Give --nodes; what it {word} follows from that.",
        )
    if vcluster.name in lending.lend_to:
        return _invalid(f'vCluster "{vcluster.name}" cannot lend to itself')
    strangers = sorted(set(lending.lend_to) - set(state.vclusters))
    if strangers:
        known = ", ".join(sorted(state.vclusters))
        return Rejected(code="not_found", message=f'unknown vCluster "{strangers[0]}"', hint=f"Known: {known}.")
    return None


def _invalid(message: str, hint: str = "") -> Rejected:
    return Rejected(code="invalid", message=message, hint=hint)


def _stale(message: str) -> Rejected:
    return Rejected(code="stale", message=message)
