"""The status of nodes in the words of the machine status of 2001: ten items by these names, and a few more of ours.

The attributes are spelled as the items are, because the wire is.
"""

from msgspec import UNSET, Struct, UnsetType


class NodeStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One node with the requested fields."""

    Name: str | UnsetType = UNSET
    OS: str | UnsetType = UNSET
    CPUs: int | UnsetType = UNSET
    Speed: float | UnsetType = UNSET
    RealMemory: int | UnsetType = UNSET
    VirtualMemory: int | UnsetType = UNSET
    TmpDisk: int | UnsetType = UNSET
    Partition: str | UnsetType = UNSET
    LastResponse: int | UnsetType = UNSET
    State: str | UnsetType = UNSET
    NodeState: str | UnsetType = UNSET
    Reason: str | UnsetType = UNSET
    Position: int | UnsetType = UNSET
    vCluster: str | UnsetType = UNSET
    Group: str | UnsetType = UNSET
    GPUs: int | UnsetType = UNSET
    GPUType: str | UnsetType = UNSET
    Features: str | UnsetType = UNSET
    Address: str | UnsetType = UNSET
    Held: str | UnsetType = UNSET
    Allocations: int | UnsetType = UNSET
    Load: float | UnsetType = UNSET


class NodeSummary(Struct, frozen=True, kw_only=True):
    """The nodes in one state; `nodes` is a host list such as `n[1-4]`."""

    State: str
    NodeState: str
    count: int
    nodes: str
