"""The nodes that a submission asks for: how many, what each has to give, and which may not be taken."""

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.units import BadUnit, parse_size_mb
from lattice.core.model.work.allocations import Request
from lattice.wire.bounds import NodeSet, Short
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_names

TOPOLOGIES = ("", "tight", "any")
MAX_NODES = 1_000_000
MAX_GPUS = 1024  # of a node


class NodeRange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    min: int
    max: int


class Constraints(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpu_type: str = ""
    gpu_count: int = 0
    memory_gb: float = 0
    features: list[str] = []
    topology: str = ""
    nodes: list[str] | NodeSet = []
    exclude: list[str] | NodeSet = []
    require_unified_memory: bool = False
    allow_cxl_memory: bool = False
    require_conformance: bool = False
    prefer_same_numa: bool = False
    prefer_local_memory: bool = False
    memory_policy: str = ""
    storage_gbps: float = 0


NO_CONSTRAINTS = Constraints()


class Resources(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int | NodeRange = 1
    max_nodes: int | None = None
    cpus: int = 0
    memory: Short | int = 0
    gpus: int = 0
    exclusive: bool = False
    constraints: Constraints = NO_CONSTRAINTS


def read_request(wanted: Resources, needed: tuple[str, ...]) -> Request:
    """What the nodes have to be like; `needed` are features that follow from other fields. Raises BadField."""
    nodes, max_nodes = _node_range(wanted)
    amounts = Request(
        nodes=nodes,
        max_nodes=max_nodes,
        cpus=between(wanted.cpus, "resources.cpus", 0, MAX_NODES),
        memory_mb=memory_mb(wanted.memory, "resources.memory"),
        gpus=_gpus(wanted),
        features=needed,
        exclusive=wanted.exclusive,
    )
    rules = wanted.constraints
    return amounts if rules == NO_CONSTRAINTS else _constrained(amounts, rules)


def _constrained(amounts: Request, rules: Constraints) -> Request:
    if rules.topology not in TOPOLOGIES:
        raise BadField(
            "resources.constraints.topology",
            f'"{rules.topology[:60]}" is not a topology',
            hint='"tight" or "any"',
        )
    return replace(
        amounts,
        gpu_type=check_line(rules.gpu_type, "resources.constraints.gpu_type"),
        min_memory_mb=_min_memory_mb(rules.memory_gb),
        features=_features(rules.features, amounts.features),
        topology=rules.topology,
        node_list=node_names(rules.nodes, "resources.constraints.nodes"),
        exclude=node_names(rules.exclude, "resources.constraints.exclude"),
        require_unified_memory=rules.require_unified_memory,
        allow_cxl_memory=rules.allow_cxl_memory,
        require_conformance=rules.require_conformance,
        prefer_same_numa=rules.prefer_same_numa,
        prefer_local_memory=rules.prefer_local_memory,
        storage_gbps=_storage_gbps(rules.storage_gbps),
    )


def _features(named: list[str], needed: tuple[str, ...]) -> tuple[str, ...]:
    if not named:
        return needed
    asked = check_names(named, "resources.constraints.features")
    return (*asked, *(each for each in needed if each not in asked))


def _node_range(wanted: Resources) -> tuple[int, int]:
    asked = wanted.nodes
    low, high = (asked.min, asked.max) if isinstance(asked, NodeRange) else (asked, 0)
    low = between(low, "resources.nodes", 1, MAX_NODES)
    if wanted.max_nodes is not None:
        high = wanted.max_nodes
    if not high:
        return low, 0
    high = between(high, "resources.max_nodes", 1, MAX_NODES)
    if high < low:
        raise BadField("resources.max_nodes", f"at most {high} nodes, but at least {low} are asked for")
    return low, high if high > low else 0


def _gpus(wanted: Resources) -> int:
    asked = between(wanted.gpus, "resources.gpus", 0, MAX_GPUS)
    counted = between(wanted.constraints.gpu_count, "resources.constraints.gpu_count", 0, MAX_GPUS)
    if asked and counted and asked != counted:
        raise BadField(
            "resources.gpus",
            f"{asked} GPUs are asked for, but constraints.gpu_count says {counted}",
            hint="give one of the two",
        )
    return asked or counted


def memory_mb(value: str | int, field: str) -> int:
    """Megabytes of a size; 0 for one that is not given. Raises BadField."""
    if not value:
        return 0
    try:
        return parse_size_mb(str(value))
    except BadUnit as error:
        raise BadField(field, str(error)) from None


def _min_memory_mb(gigabytes: float) -> int:
    if not 0 <= gigabytes <= 1_000_000:
        raise BadField("resources.constraints.memory_gb", "must lie between 0 and 1,000,000")
    return round(gigabytes * 1024)


def _storage_gbps(value: float) -> float:
    if not 0 <= value <= 1_000_000:
        raise BadField("resources.constraints.storage_gbps", "must lie between 0 and 1,000,000")
    return value


def between(value: int, field: str, low: int, high: int) -> int:
    """The value. Raises BadField for one outside of the bounds."""
    if not low <= value <= high:
        raise BadField(field, f"{value} is not possible", limit=f"from {low:,} to {high:,}")
    return value
