"""The lines of sinfo: nodes of a partition with identical values in all columns share one line."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.listings.machine import NodeRow, PartitionRow
from lattice.slurm.text.formats import Column, Field, Parts, line
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.times import format_limit, format_moment

DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
SUMMARY = "%9P %.5a %.10l %.16F %N"
LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
NODES = "%10N %.5D %.9P %6t"
NODES_LONG = "%10N %.5D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
REASONS = "%20E %9u %19H %N"
REASONS_LONG = "%20E %12U %19H %6t %N"

LETTERS: Mapping[str, str] = {
    "P": "PARTITION",
    "R": "PARTITION",
    "a": "AVAIL",
    "l": "TIMELIMIT",
    "L": "DEFAULTTIME",
    "s": "JOB_SIZE",
    "r": "ROOT",
    "h": "OVERSUBSCRIBE",
    "g": "GROUPS",
    "p": "PRIO_TIER",
    "I": "PRIO_JOB_FACTOR",
    "M": "PREEMPT_MODE",
    "S": "ALLOCNODES",
    "B": "MAX_CPUS_PER_NODE",
    "D": "NODES",
    "A": "NODES(A/I)",
    "F": "NODES(A/I/O/T)",
    "C": "CPUS(A/I/O/T)",
    "N": "NODELIST",
    "n": "HOSTNAMES",
    "o": "NODE_ADDR",
    "t": "STATE",
    "T": "STATE",
    "c": "CPUS",
    "m": "MEMORY",
    "d": "TMP_DISK",
    "w": "WEIGHT",
    "X": "SOCKETS",
    "Y": "CORES",
    "Z": "THREADS",
    "z": "S:C:T",
    "O": "CPU_LOAD",
    "e": "FREE_MEM",
    "f": "AVAIL_FEATURES",
    "b": "ACTIVE_FEATURES",
    "G": "GRES",
    "E": "REASON",
    "u": "USER",
    "U": "USER",
    "H": "TIMESTAMP",
    "v": "VERSION",
    "V": "CLUSTER",
}
_NAMED = (
    ("Available", "a"),
    ("CPUs", "c"),
    ("CPUsLoad", "O"),
    ("CPUsState", "C"),
    ("Cluster", "V"),
    ("Cores", "Y"),
    ("DefaultTime", "L"),
    ("Disk", "d"),
    ("Features", "f"),
    ("features_act", "b"),
    ("FreeMem", "e"),
    ("Gres", "G"),
    ("Groups", "g"),
    ("MaxCPUsPerNode", "B"),
    ("Memory", "m"),
    ("NodeAI", "A"),
    ("NodeAIOT", "F"),
    ("NodeAddr", "o"),
    ("NodeHost", "n"),
    ("NodeList", "N"),
    ("Nodes", "D"),
    ("OverSubscribe", "h"),
    ("Partition", "P"),
    ("PartitionName", "R"),
    ("PreemptMode", "M"),
    ("PriorityJobFactor", "I"),
    ("PriorityTier", "p"),
    ("Reason", "E"),
    ("Root", "r"),
    ("SCT", "z"),
    ("Size", "s"),
    ("Sockets", "X"),
    ("StateCompact", "t"),
    ("StateLong", "T"),
    ("State", "t"),
    ("Threads", "Z"),
    ("Time", "l"),
    ("TimeStamp", "H"),
    ("User", "u"),
    ("UserLong", "U"),
    ("Version", "v"),
    ("Weight", "w"),
)
_LONG_ONLY = {"statecomplete": "STATECOMPLETE", "allocmem": "ALLOCMEM", "gresused": "GRES_USED"}
NAMES: Mapping[str, Column] = {name.lower(): Column(letter, LETTERS[letter]) for name, letter in _NAMED} | {
    name: Column(name, header) for name, header in _LONG_ONLY.items()
}


def header_of(key: str) -> str:
    return LETTERS.get(key) or _LONG_ONLY[key]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The output form: `is_exact` separates nodes whose figures differ, `by_node` all nodes."""

    cluster: str
    is_exact: bool = False
    by_node: bool = False
    time_form: str = ""


@dataclass(frozen=True)
class _Line:
    partition: PartitionRow
    nodes: tuple[NodeRow, ...]


def lines(partitions: Sequence[PartitionRow], parts: Parts, shown: Shown) -> Iterator[str]:
    """A partition without remaining nodes has its own line, unless nodes are listed one by one."""
    keys = [part.key for part in parts if isinstance(part, Field)]
    made = _by_node(partitions) if shown.by_node else _alike(partitions, keys, shown)
    for each in made:
        yield line(parts, _values(each, shown))


def _by_node(partitions: Sequence[PartitionRow]) -> list[_Line]:
    made = [_Line(partition, (node,)) for partition in partitions for node in partition.nodes]
    return sorted(made, key=lambda each: each.nodes[0].name)


def _alike(partitions: Sequence[PartitionRow], keys: Sequence[str], shown: Shown) -> Iterable[_Line]:
    """Lines in the order of partitions, then of states."""
    apart = [key for key in keys if key in _OF_NODE or (key in _FIGURES and shown.is_exact)]
    of_partition = [key for key in keys if key in _OF_PARTITION]
    groups: dict[tuple[str, ...], _Line] = {}
    for partition in partitions:
        head = tuple(_OF_PARTITION[key](partition) for key in of_partition)
        for node in sorted(partition.nodes, key=lambda node: node.rank):
            key = (*head, *(_node_text(name, node, shown) for name in apart))
            known = groups.get(key)
            if known is None:
                groups[key] = _Line(partition, (node,))
            elif node not in known.nodes:
                groups[key] = _Line(known.partition, (*known.nodes, node))
        if not partition.nodes:
            groups.setdefault((*head, "n/a"), _Line(partition, ()))
    return groups.values()


def _values(each: _Line, shown: Shown) -> Callable[[str], str]:
    def value(key: str) -> str:
        if key == "V":
            return shown.cluster
        if key in _OF_PARTITION:
            return _OF_PARTITION[key](each.partition)
        if key in _SUMS:
            return _SUMS[key](each.nodes)
        if not each.nodes:
            return "n/a"
        if key in _FIGURES:
            return _spread([_FIGURES[key](node) for node in each.nodes])
        return _node_text(key, each.nodes[0], shown)

    return value


def _node_text(key: str, node: NodeRow, shown: Shown) -> str:
    if key == "H":
        return format_moment(node.reason_at if node.reason else None, shown.time_form, "Unknown")
    if key in _FIGURES:
        return _FIGURES[key](node)
    return _OF_NODE[key](node)


def _spread(texts: Sequence[str]) -> str:
    """The common figure, or the smallest one with a plus."""
    different = set(texts)
    if len(different) == 1:
        return texts[0]
    return f"{min(different, key=lambda text: (not _is_number(text), float(text) if _is_number(text) else 0.0))}+"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _counts(nodes: Sequence[NodeRow], amount: Callable[[NodeRow], int]) -> tuple[int, int, int, int]:
    """Allocated, idle, out of service and total; `amount` is the weight of a node."""
    total = sum(amount(node) for node in nodes)
    held = sum(amount(node) for node in nodes if node.is_busy and not node.is_out)
    out = sum(amount(node) for node in nodes if node.is_out)
    return held, total - held - out, out, total


def _cpu_counts(nodes: Sequence[NodeRow]) -> str:
    total = sum(node.cpus for node in nodes)
    held = sum(node.cpus_held for node in nodes)
    out = sum(node.cpus - node.cpus_held for node in nodes if node.is_out)
    return f"{held}/{total - held - out}/{out}/{total}"


def _job_size(partition: PartitionRow) -> str:
    return f"1-{partition.max_nodes or 'infinite'}"


def _limit(seconds: int, missing: str) -> str:
    return format_limit(seconds) if seconds else missing


_OF_PARTITION: Mapping[str, Callable[[PartitionRow], str]] = {
    "P": lambda partition: partition.shown_name,
    "R": lambda partition: partition.name,
    "a": lambda partition: "up" if partition.is_up else "down",
    "l": lambda partition: _limit(partition.max_time_s, "infinite"),
    "L": lambda partition: _limit(partition.default_time_s, "n/a"),
    "s": _job_size,
    "r": lambda partition: "no",
    "h": lambda partition: "NO" if not partition.is_shared else "YES:4",
    "g": lambda partition: "all",
    "p": lambda partition: "1",
    "I": lambda partition: "1",
    "M": lambda partition: partition.preempt_mode,
    "S": lambda partition: "all",
    "B": lambda partition: "UNLIMITED",
}
_SUMS: Mapping[str, Callable[[Sequence[NodeRow]], str]] = {
    "D": lambda nodes: str(len(nodes)),
    "N": lambda nodes: fold(sorted(node.name for node in nodes)),
    "A": lambda nodes: "/".join(map(str, _counts(nodes, lambda node: 1)[:2])),
    "F": lambda nodes: "/".join(map(str, _counts(nodes, lambda node: 1))),
    "C": _cpu_counts,
}
# Nodes with different figures share a line unless it has to be exact.
_FIGURES: Mapping[str, Callable[[NodeRow], str]] = {
    "c": lambda node: str(node.cpus),
    "m": lambda node: str(node.memory_mb),
    "d": lambda node: "0",
    "w": lambda node: "1",
    "X": lambda node: "1",
    "Y": lambda node: str(node.cpus),
    "Z": lambda node: "1",
    "z": lambda node: f"1:{node.cpus}:1",
    "O": lambda node: "N/A" if node.load is None else f"{node.load:.2f}",
    "e": lambda node: "N/A" if node.memory_free_mb is None else str(node.memory_free_mb),
    "allocmem": lambda node: str(node.memory_held_mb),
}
_OF_NODE: Mapping[str, Callable[[NodeRow], str]] = {
    "n": lambda node: node.name,
    "o": lambda node: node.address or node.name,
    "t": lambda node: node.state_word(short=True),
    "T": lambda node: node.state_word(short=False),
    "f": lambda node: node.features or "(null)",
    "b": lambda node: node.features or "(null)",
    "G": lambda node: node.gres or "(null)",
    "E": lambda node: node.reason or "none",
    "u": lambda node: node.reason_by or "Unknown",
    "U": lambda node: f"{node.reason_by}({node.reason_uid})" if node.reason_by else "Unknown",
    "H": lambda node: "",
    "v": lambda node: node.version or "N/A",
    "statecomplete": lambda node: node.state.lower(),
    "gresused": lambda node: f"gpu:{node.gpus_held}" if node.gpus else "gpu:0",
}
