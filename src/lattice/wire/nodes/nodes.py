"""Nodes on the wire: the JSON view of a node's record and of what was last heard of it."""

from typing import Literal

from msgspec import Struct

from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.nodes.records import record_of, status_of
from lattice.wire.agents.health import CheckView, VitalsView
from lattice.wire.text.times import rfc3339

Holding = Literal["free", "whole", "shared", "claimed"]


class FreeView(Struct, frozen=True, kw_only=True, gc=False):
    cpus: int
    memory_mb: int
    gpus: int


class NodeView(Struct, frozen=True, kw_only=True):
    id: str
    state: NodeState
    reason: str
    reason_by: str
    down_cause: str | None
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    group: str
    features: tuple[str, ...]
    unified_memory: bool
    cxl_memory_mb: int
    power_w: int
    address: str
    vcluster: str
    allocations: tuple[str, ...]
    free: FreeView
    holding: Holding
    last_heartbeat_s: float | None
    load1: float | None
    registered_at: str | None
    changed_at: str | None
    status: str  # the state in the words of 2001
    last_response: int | None  # seconds since 1970
    os: str
    speed: float
    virtual_memory_mb: int
    tmp_disk_mb: int
    partitions: tuple[int, ...]
    position: int
    shortfall: str  # why it is not configured for work
    reports_through: str = ""  # the collector that brought its last heartbeat; empty = it came from the node itself
    fingerprint: str = ""  # of its configuration; empty = not known, or not lately
    conformance: str = ""  # baseline, drifted, escalated, waits for approval, unknown; empty = no baseline
    vitals: VitalsView | None = None  # None = not heard yet
    checks: tuple[CheckView, ...] = ()  # its own health checks; in lists only those that did not pass
    home: str = ""  # whose it is, while it is lent to another vCluster
    lent_since: str | None = None


def holding_of(node: Node) -> Holding:
    if node.claimant:
        return "claimed"
    if node.holder:
        return "whole"
    return "shared" if node.tenures else "free"


def free_of(node: Node) -> FreeView:
    cpus, memory_mb, gpus = (0, 0, 0) if node.holder else node.free_share()
    return FreeView(cpus=cpus, memory_mb=memory_mb, gpus=gpus)


def node_view(
    node: Node,
    *,
    home: str = "",
    last_heartbeat_s: float | None,
    load1: float | None,
    last_response: int | None = None,
    via: str = "",
) -> NodeView:
    """The JSON shape of a node; `home` is the vCluster it was given to by name, `last_heartbeat_s` how long ago it was heard
    (None = never by this server)."""
    hardware, record = node.hardware, record_of(node)
    return NodeView(
        id=node.id,
        state=node.state,
        reason=node.reason,
        reason_by=node.reason_by,
        down_cause=node.down_cause,
        cpus=hardware.cpus,
        memory_mb=hardware.memory_mb,
        gpus=hardware.gpus,
        gpu_type=hardware.gpu_type,
        group=hardware.group,
        features=hardware.features,
        unified_memory=hardware.unified_memory,
        cxl_memory_mb=hardware.cxl_memory_mb,
        power_w=hardware.power_w,
        address=node.address,
        vcluster=node.vcluster or home,
        allocations=tuple(allocation_id(number) for number in node.holders()),
        free=free_of(node),
        holding=holding_of(node),
        last_heartbeat_s=None if last_heartbeat_s is None else round(last_heartbeat_s, 3),
        load1=load1,
        registered_at=rfc3339(node.registered_at),
        changed_at=rfc3339(node.changed_at),
        status=status_of(node),
        last_response=last_response,
        os=record.os,
        speed=record.speed,
        virtual_memory_mb=record.virtual_memory_mb,
        tmp_disk_mb=record.tmp_disk_mb,
        partitions=record.partitions,
        position=node.specification.position if node.specification is not None else 0,
        shortfall=node.shortfall,
        reports_through=via,
    )
