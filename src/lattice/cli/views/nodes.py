"""How nodes look in a table and on a sheet."""

from lattice.cli.output import Column
from lattice.cli.times import stamp_text
from lattice.cli.views.checks import checks_text, vitals_text
from lattice_sdk.models.records import Node


def gpus_text(node: Node) -> str:
    if not node.gpus:
        return ""
    return f"{node.gpus}x{node.gpu_type}" if node.gpu_type else str(node.gpus)


def memory_text(megabytes: int) -> str:
    gigabytes = megabytes / 1024
    return f"{gigabytes:.0f}G" if gigabytes == int(gigabytes) else f"{gigabytes:.1f}G"


def reason_text(node: Node) -> str:
    if not node.reason:
        return node.shortfall or node.down_cause or ""
    return f"{node.reason} ({node.reason_by})" if node.reason_by else node.reason


def heartbeat_text(node: Node) -> str:
    return "" if node.last_heartbeat_s is None else f"{node.last_heartbeat_s:.0f} s ago"


def load_text(node: Node) -> str:
    return "" if node.load1 is None else f"{node.load1:.2f}"


def conformance_text(node: Node) -> str:
    """The group of like nodes, and how the node stands to its baseline where that is not as it should be."""
    group = node.fingerprint[:12]
    if node.conformance in ("", "baseline"):
        return group
    return f"{group} ({node.conformance})" if group else node.conformance


def free_text(node: Node) -> str:
    return f"{node.free.cpus} CPUs, {memory_text(node.free.memory_mb)}, {node.free.gpus} GPUs"


COLUMNS: tuple[Column[Node], ...] = (
    Column("NODE", lambda n: n.id),
    Column("STATE", lambda n: n.state),
    Column("GPUS", gpus_text),
    Column("VCLUSTER", lambda n: n.vcluster or ""),
    Column("GROUP", lambda n: n.group or ""),
    Column("CPUS", lambda n: str(n.cpus)),
    Column("MEMORY", lambda n: memory_text(n.memory_mb)),
    Column("HELD", lambda n: n.holding),
    Column("ALLOCATIONS", lambda n: ",".join(n.allocations)),
    Column("FREE", free_text, is_wide=True),
    Column("LENT_BY", lambda n: n.home, is_wide=True),
    Column("LENT_SINCE", lambda n: stamp_text(n.lent_since), is_wide=True),
    Column("LOAD", load_text, is_wide=True),
    Column("HEARTBEAT", heartbeat_text, is_wide=True),
    Column("CONFORMANCE", conformance_text, is_wide=True),
    Column("ADDRESS", lambda n: n.address or "", is_wide=True),
    Column("FEATURES", lambda n: ",".join(n.features), is_wide=True),
    Column("REASON", reason_text, is_sparse=True),
)


def _memory(node: Node) -> str:
    kind = " unified" if node.unified_memory else ""
    more = f" + {memory_text(node.cxl_memory_mb)} CXL" if node.cxl_memory_mb else ""
    return f"{memory_text(node.memory_mb)}{kind}{more}"


def node_sheet(node: Node) -> list[tuple[str, str]]:
    return [
        ("Node", node.id),
        ("State", node.state),
        ("Reason", reason_text(node)),
        ("Checks", checks_text(node.checks)),
        ("Vitals", vitals_text(node.vitals)),
        ("Held", node.holding),
        ("Allocations", ", ".join(node.allocations)),
        ("vCluster", node.vcluster or ""),
        ("Group", node.group or ""),
        ("Conformance", conformance_text(node)),
        ("Status", node.status),
        ("OS", node.os),
        ("CPUs", str(node.cpus)),
        ("Speed", f"{node.speed:g} MHz" if node.speed else ""),
        ("Virtual memory", memory_text(node.virtual_memory_mb) if node.virtual_memory_mb else ""),
        ("Temporary disk", memory_text(node.tmp_disk_mb) if node.tmp_disk_mb else ""),
        ("Partitions", ", ".join(map(str, node.partitions))),
        ("Memory", _memory(node)),
        ("GPUs", gpus_text(node)),
        ("Features", ", ".join(node.features)),
        ("Power", f"{node.power_w} W" if node.power_w else ""),
        ("Free", free_text(node)),
        ("Load", load_text(node)),
        ("Heartbeat", heartbeat_text(node)),
        ("Reports through", node.reports_through),
        ("Address", node.address or ""),
        ("Registered", stamp_text(node.registered_at)),
        ("Changed", stamp_text(node.changed_at)),
    ]
