"""The machine status: chosen fields of nodes, nodes folded by their states, and imports of a site's files."""

from msgspec import UNSET, Struct, UnsetType


class NodeStatus(Struct, frozen=True, kw_only=True):
    """One node, by the names of its items; only those that were asked for are set."""

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
    """Nodes in one state; `nodes` folded, `n[1-3,5]`."""

    State: str = ""
    NodeState: str = ""
    count: int = 0
    nodes: str = ""


class ConfFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a site: its text or, where it could not be read, why."""

    path: str
    text: str | None = None
    problem: str = ""


class ImportChange(Struct, frozen=True, kw_only=True):
    """What an import changes: `name` is a setting, a vCluster or a folded set of nodes."""

    what: str = ""
    name: str = ""
    change: str = ""


class NodeImportReport(Struct, frozen=True, kw_only=True):
    """What an import did or would do. While `needs` names files, nothing was done: hand them in as well."""

    needs: list[str] = []
    dry_run: bool = False
    nodes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    changes: list[ImportChange] = []
    unfit: list[ImportChange] = []
    warnings: list[str] = []
