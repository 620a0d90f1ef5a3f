"""Which nodes a request may use at all: members of its vCluster whose hardware and name satisfy every constraint.

See docs/architecture/scheduler.md.
"""

from dataclasses import dataclass

import numpy as np

from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.shares import DEFAULT_CPUS, takes_whole_nodes
from lattice.core.scheduler.tables.slots import Bools, Ints
from lattice.core.scheduler.tables.snapshot import STATES, NodeColumns, Snapshot

_NOTHING: Ints = np.zeros(0, np.int64)
_READY = STATES.index(NodeState.READY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """A request in terms of node columns. A share takes `cpus`, `gpus` and, by kind of node, `memory_mb`."""

    request: Request
    vcluster: int
    is_whole: bool
    usable: Bools
    cpus: int
    gpus: int
    memory_mb: Ints

    @property
    def least(self) -> int:
        return self.request.nodes

    @property
    def most(self) -> int:
        return max(self.request.nodes, self.request.max_nodes)


def usable_nodes(nodes: NodeColumns) -> Bools:
    """Nodes that may be given work, as far as the nodes themselves go."""
    usable: Bools = (nodes.state == _READY) & nodes.connected & ~nodes.claimed
    return usable


def suitable_nodes(snapshot: Snapshot, request: Request, vcluster: Vcluster, *, everywhere: bool = False) -> Bools:
    """Nodes that would do if they were empty and in good order; `everywhere` = also those of other vClusters."""
    nodes = snapshot.nodes
    suitable: Bools = nodes.kind_table.suits(request)[nodes.kind]
    members = snapshot.members.get(vcluster.name)
    if members is not None and not everywhere:
        suitable &= members
    if request.node_list:
        listed = np.zeros(len(nodes.ids), np.bool_)
        listed[[nodes.rows[node] for node in request.node_list if node in nodes.rows]] = True
        suitable &= listed
    if request.exclude:
        suitable[[nodes.rows[node] for node in request.exclude if node in nodes.rows]] = False
    return suitable


def demand_of(snapshot: Snapshot, request: Request, vcluster: Vcluster, usable: Bools) -> Demand:
    is_whole = takes_whole_nodes(request, vcluster.node_sharing)
    return Demand(
        request=request,
        vcluster=snapshot.vcluster_names.index(vcluster.name),
        is_whole=is_whole,
        usable=suitable_nodes(snapshot, request, vcluster) & usable,
        cpus=request.cpus or DEFAULT_CPUS,
        gpus=request.gpus,
        memory_mb=_NOTHING if is_whole else snapshot.nodes.kind_table.share_memory_mb(request),
    )
