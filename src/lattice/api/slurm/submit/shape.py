"""How many nodes a job gets and what each must have: from tasks, CPUs, memory and GPUs as Slurm counts them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.slurm.faults import Fault, error
from lattice.slurm.submit.job import SUBMISSION_FAILED, Job
from lattice.slurm.text.features import matches_features, plain_features
from lattice.slurm.text.times import UNLIMITED

NODE_LIMIT, TIME_LIMIT, NO_NODES = "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig"


@dataclass(slots=True)
class Shape:
    """What is asked of the machine. Per-node figures are 0 where nodes are not shared: then a job gets all of a node."""

    nodes: int = 1
    max_nodes: int = 0
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    not_before_ms: int = 0
    never: str = ""  # why it can never start as things are
    warnings: list[str] = field(default_factory=list)


def shape_of(state: State, job: Job, vcluster: Vcluster, program: str) -> Shape:
    """Raises Fault for what Slurm refuses at once; what it keeps waiting for good has `never`."""
    members = [node for node in state.nodes.values() if not vcluster.nodes or node.id in vcluster.nodes]
    shape = Shape(gpu_type=_gpu_type(job), exclude=job.exclude, node_list=job.nodelist)
    _check_names(state, job, program)
    if members and all(node.id in job.exclude for node in members):
        raise error(program, f"{SUBMISSION_FAILED}Requested node configuration is not available")
    _take_features(shape, job, members, program)
    largest = _largest(members)
    _count_nodes(shape, job, largest)
    _count_gpus(shape, job, members, program)
    per_node = _cpus_per_node(shape, job)
    memory_mb = _memory_per_node(shape, job, per_node)
    if members and job.min_cpus > largest.cpus:
        raise Fault(
            f"{program}: error: CPU count per node can not be satisfied",
            f"{program}: error: {SUBMISSION_FAILED}Requested node configuration is not available",
        )
    if members and memory_mb > largest.memory_mb:
        raise Fault(
            f"{program}: error: Memory specification can not be satisfied",
            f"{program}: error: {SUBMISSION_FAILED}Requested node configuration is not available",
        )
    if vcluster.node_sharing is NodeSharing.SHARED and not job.is_exclusive:
        shape.cpus, shape.memory_mb = per_node, memory_mb
    shape.never = _never(shape, job, vcluster, members, per_node)
    return shape


def _gpu_type(job: Job) -> str:
    return job.gpus_per_node.kind or job.gpus.kind or job.gpus_per_task.kind


def _largest(members: list[Node]) -> Hardware:
    hardware = [node.hardware for node in members]
    return Hardware(
        cpus=max((each.cpus for each in hardware), default=1),
        memory_mb=max((each.memory_mb for each in hardware), default=0),
        gpus=max((each.gpus for each in hardware), default=0),
    )


def _check_names(state: State, job: Job, program: str) -> None:
    if any(name not in state.nodes for name in (*job.nodelist, *job.exclude)):
        raise error(program, f"{SUBMISSION_FAILED}Invalid node name specified")
    most = job.max_nodes or job.min_nodes
    if most and len(job.nodelist) > most:
        raise error(program, f"invalid number of nodes (-N {len(job.nodelist)}-{most})")


def _take_features(shape: Shape, job: Job, members: list[Node], program: str) -> None:
    """Features joined by & are asked of each node; what says more rules out the nodes that do not fit."""
    if not job.features:
        return
    holds: Callable[[frozenset[str]], bool] | None = matches_features(job.features)
    fitting = [] if holds is None else [node for node in members if holds(frozenset(node.hardware.features))]
    if holds is None or (members and not fitting):
        raise error(program, f"{SUBMISSION_FAILED}Invalid feature specification")
    plain = plain_features(job.features)
    if plain is not None:
        shape.features = plain
        return
    fits = {node.id for node in fitting}
    shape.exclude = (*shape.exclude, *(node.id for node in members if node.id not in fits))


def _count_nodes(shape: Shape, job: Job, largest: Hardware) -> None:
    tasks, per_task = job.ntasks, max(1, job.cpus_per_task)
    if job.min_nodes:
        shape.nodes, shape.max_nodes = job.min_nodes, job.max_nodes
    elif tasks and job.ntasks_per_node:
        shape.nodes = -(-tasks // job.ntasks_per_node)
    elif tasks:
        shape.nodes = -(-tasks // max(1, largest.cpus // per_task))
    if shape.node_list and not job.min_nodes:
        shape.nodes = max(shape.nodes, len(shape.node_list))
    if job.gpus.number and not job.min_nodes and largest.gpus:
        shape.nodes = max(shape.nodes, -(-job.gpus.number // largest.gpus))


def _count_gpus(shape: Shape, job: Job, members: list[Node], program: str) -> None:
    if job.gpus_per_node.number:
        shape.gpus = job.gpus_per_node.number
    elif job.gpus_per_task.number:
        shape.gpus = job.gpus_per_task.number * tasks_per_node(shape.nodes, job)
    elif job.gpus.number:
        shape.gpus = -(-job.gpus.number // shape.nodes)
    if not shape.gpus:
        shape.gpu_type = ""
        return
    kinds = [node.hardware for node in members if shape.gpu_type in ("", node.hardware.gpu_type)]
    if members and shape.gpus > max((each.gpus for each in kinds), default=0):
        raise error(program, f"{SUBMISSION_FAILED}Requested node configuration is not available")


def tasks_per_node(nodes: int, job: Job) -> int:
    """How many tasks run on a node at most."""
    return job.ntasks_per_node or max(1, -(-job.ntasks // nodes))


def _cpus_per_node(shape: Shape, job: Job) -> int:
    by_tasks = tasks_per_node(shape.nodes, job) * max(1, job.cpus_per_task)
    return max(by_tasks, job.min_cpus, job.cpus_per_gpu * shape.gpus)


def _memory_per_node(shape: Shape, job: Job, cpus: int) -> int:
    return job.memory_mb or job.memory_per_cpu_mb * cpus or job.memory_per_gpu_mb * shape.gpus


def _never(shape: Shape, job: Job, vcluster: Vcluster, members: list[Node], cpus: int) -> str:
    """One word for what keeps it waiting until the site or the request changes."""
    limit = vcluster.max_walltime_s
    if limit and job.time_s is not None and (job.time_s == UNLIMITED or job.time_s > limit):
        return TIME_LIMIT
    if vcluster.max_nodes and shape.nodes > vcluster.max_nodes:
        return NODE_LIMIT
    if members and (shape.nodes > len(members) or cpus > max(node.hardware.cpus for node in members)):
        return NO_NODES
    return ""
