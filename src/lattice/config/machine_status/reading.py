"""A set of files becomes one import: a SlurmConf with the files it names, or a NodeSpecConf alone.

Nothing is read here: the caller passes the files in, learns which others are needed, and calls again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lattice.config.machine_status.node_spec_conf import FIELDS, NodeSpecConf, read_node_spec_conf
from lattice.config.machine_status.partition_conf import Partition, PartitionConf, read_partition_conf
from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.records import plain_lines
from lattice.config.machine_status.slurm_conf import PARAMETERS, SlurmConf, read_slurm_conf
from lattice.core.model.nodes.specifications import MAX_PARTITION, Specification
from lattice.slurm.text.hostlists import fold

LONGEST_GRACE_S = 60.0
_FIELDS = frozenset(name.lower() for name in FIELDS)
_PARAMETERS = frozenset(name.lower() for name in PARAMETERS)


@dataclass(frozen=True, kw_only=True)
class GivenFile:
    """A file as its owner could read it: its text, or why there is none."""

    path: str
    text: str | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """What a partition becomes: a vCluster of this name with these nodes."""

    partition: Partition
    nodes: tuple[str, ...]


@dataclass(kw_only=True)
class MachineImport:
    """What the files ask for."""

    nodes: dict[str, Specification]
    partitions: list[PartitionPlan] = field(default_factory=list)
    default_partition: str = ""  # name of its vCluster; empty = the files do not say, or it is the cluster's own
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Reading:
    """`needs` are files that must be handed in as well before anything can be said; `asked` is None when there are errors."""

    findings: Findings
    needs: tuple[str, ...] = ()
    asked: MachineImport | None = None


def read_files(given: list[GivenFile]) -> Reading:
    """What the first file and those that it names ask for."""
    findings, first = Findings(), given[0]
    if first.text is None:
        findings.error(first.path, 0, first.problem or "cannot be read")
        return Reading(findings=findings)
    others = {file.path: file for file in given[1:]}
    if _is_node_spec_conf(first.text):
        nodes = read_node_spec_conf(first.text, first.path, findings)
        return _joined(None, nodes, None, findings)
    conf = read_slurm_conf(first.text, first.path, findings)
    if findings.errors:
        return Reading(findings=findings)
    needs = tuple(path for path in (conf.node_spec_conf, conf.partition_conf) if path not in others)
    if needs:
        return Reading(findings=findings, needs=needs)
    return _read_named(conf, others, findings)


def _is_node_spec_conf(text: str) -> bool:
    """By what most of its lines begin with; a first line with a typing error makes no other file of it."""
    nodes = settings = 0
    for _, line in plain_lines(text, "", Findings()):
        nodes += any(word.partition("=")[0].lower() in _FIELDS for word in line.split())
        settings += line.partition("=")[0].strip().lower() in _PARAMETERS
    return nodes > settings


def _read_named(conf: SlurmConf, others: Mapping[str, GivenFile], findings: Findings) -> Reading:
    spec, named = others[conf.node_spec_conf], others[conf.partition_conf]
    nodes, partitions = NodeSpecConf(spec.path), None
    if spec.text is None:
        line = conf.lines.get("NodeSpecConf", 0)
        named_where = "" if line else "the file names no NodeSpecConf, and there is none at its usual place; "
        findings.error(conf.file, line, f"{named_where}NodeSpecConf {spec.path}: {spec.problem}")
    else:
        nodes = read_node_spec_conf(spec.text, spec.path, findings)
    if named.text is not None:
        partitions = read_partition_conf(named.text, named.path, findings)
    elif "PartitionConf" in conf.lines:
        findings.error(conf.file, conf.lines["PartitionConf"], f"PartitionConf {named.path}: {named.problem}")
    return _joined(conf, nodes, partitions, findings)


def _joined(
    conf: SlurmConf | None, nodes: NodeSpecConf, partitions: PartitionConf | None, findings: Findings
) -> Reading:
    plans = _plans(nodes, partitions, findings)
    asked = MachineImport(nodes=nodes.nodes, partitions=plans)
    if conf is not None:
        _check_collectors(conf, nodes, findings)
        asked.default_partition = _default(conf, plans, findings)
        asked.settings = settings_of(conf)
    return Reading(findings=findings, asked=None if findings.errors else asked)


def _plans(nodes: NodeSpecConf, conf: PartitionConf | None, findings: Findings) -> list[PartitionPlan]:
    """Every partition that a file names. A partition zero that none names stands for the vCluster of all nodes."""
    named = conf.partitions if conf is not None else {}
    members: dict[int, list[str]] = {number: [] for number in sorted(set(named) | nodes.partitions)}
    for name, wanted in nodes.nodes.items():
        for number in wanted.partitions:
            if number in members:
                members[number].append(name)
    plans = []
    for number, names in members.items():
        if not names and conf is not None:
            findings.warn(conf.file, conf.lines[str(number)], f"partition {number} has no nodes and is left out")
            continue
        partition = named.get(number) or Partition(number=number, name=f"partition{number}")
        plans.append(PartitionPlan(partition=partition, nodes=tuple(names)))
    return plans


def _check_collectors(conf: SlurmConf, nodes: NodeSpecConf, findings: Findings) -> None:
    strangers = [name for name in conf.collector_nodes if name not in nodes.nodes]
    if strangers and nodes.nodes:
        line = conf.lines["CollectorNodes"]
        findings.error(conf.file, line, f"CollectorNodes: {fold(strangers)} not in {nodes.file}")


def _default(conf: SlurmConf, plans: list[PartitionPlan], findings: Findings) -> str:
    """The name of the vCluster that DefaultPartition, a name or a number, stands for."""
    wanted = conf.default_partition
    if not wanted:
        return ""
    for plan in plans:
        if wanted in (plan.partition.name, str(plan.partition.number)):
            return plan.partition.name
    if wanted != "0" and not findings.errors:
        known = ", ".join(plan.partition.name for plan in plans) or "none"
        line = conf.lines["DefaultPartition"]
        text = f'DefaultPartition: no partition "{wanted[:80]}"; known: {known}, or a number from 0 to {MAX_PARTITION}'
        findings.error(conf.file, line, text)
    return ""


def settings_of(conf: SlurmConf) -> dict[str, str]:
    """The settings of the cluster that the file decides; what it does not name stays as it is."""
    settings: dict[str, str] = {}
    if conf.has_heartbeats:
        interval, timeout = conf.heartbeat_interval_s, conf.heartbeat_timeout_s
        # A node is Down when the time-out of the file is over. It is Degraded shortly before, but never while the answer of
        # its collector, which may take one and a half intervals, can still be under way.
        grace = min(LONGEST_GRACE_S, max(0.0, (timeout - 1.5 * interval) / 2))
        settings["node.heartbeat_interval_s"] = f"{interval:g}"
        settings["node.heartbeat_timeout_s"] = f"{timeout - grace:g}"
        settings["node.grace_s"] = f"{grace:g}"
    if "CollectorNodes" in conf.lines:
        settings["node.collectors"] = fold(conf.collector_nodes)
    if "MachStatusDebug" in conf.lines:
        settings["node.debug"] = ",".join(conf.debug)
    return settings
