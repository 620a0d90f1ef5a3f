"""How many nodes a job gets and what each must have: from tasks, CPUs, memory and GPUs as Slurm counts them.

A job that names tasks but no nodes is sized when it is submitted, by the nodes that can run it: those that match its requests and
are in service. The fewest nodes win, unless only a larger number of smaller ones is free at that moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.slurm.faults import Fault, error
from lattice.slurm.submit.job import SUBMISSION_FAILED, Job
from lattice.slurm.submit.step_line import narrowed_warning
from lattice.slurm.text.features import TooLong, matches_features, plain_features
from lattice.slurm.text.times import UNLIMITED

NODE_LIMIT, TIME_LIMIT, NO_NODES = "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig"
IN_SERVICE = frozenset({NodeState.READY, NodeState.DEGRADED, NodeState.BOOTING})


@dataclass(slots=True)
class Shape:
    """What is asked of the machine. On whole nodes `cpus` and `min_memory_mb` say what a node must have, and all of it is given."""

    nodes: int = 1
    max_nodes: int = 0
    cpus: int = 0
    memory_mb: int = 0  # of a shared node
    min_memory_mb: int = 0  # of a whole one
    tasks_per_node: int = 0  # at the least, where nodes were counted by tasks; 0 = spread evenly
    whole: bool = False  # nodes of its own even where nodes are shared
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    not_before_ms: int = 0
    never: str = ""  # why it can never start as things are
    warnings: list[str] = field(default_factory=list)


def shape_of(state: State, job: Job, vcluster: Vcluster, program: str) -> Shape:
    """Raises Fault for what Slurm refuses immediately; what it leaves pending forever has `never`."""
    members = [node for node in state.nodes.values() if not vcluster.nodes or node.id in vcluster.nodes]
    shape = Shape(gpu_type=_gpu_type(job), exclude=job.exclude, node_list=job.nodelist)
    _check_names(state, job, program)
    if members and all(node.id in job.exclude for node in members):
        raise _unavailable(program, f"none of {len(members)} nodes: --exclude names all of them")
    _take_features(shape, job, members, program)
    largest = _largest(members)
    is_shared = vcluster.node_sharing is NodeSharing.SHARED and not job.is_exclusive
    shape.whole = job.is_exclusive
    _count_nodes(shape, job, members, is_shared=is_shared)
    _count_gpus(shape, job, members, program)
    per_node = _cpus_per_node(shape, job)
    memory_mb = _memory_per_node(shape, job, per_node)
    if members and job.min_cpus > largest.cpus:
        first = f"{program}: error: CPU count per node can not be satisfied"
        raise _unavailable(program, f"{job.min_cpus} CPUs per node; the largest node has {largest.cpus}", first)
    if members and memory_mb > largest.memory_mb:
        first = f"{program}: error: Memory specification can not be satisfied"
        raise _unavailable(program, f"{memory_mb} MB per node; the largest node has {largest.memory_mb}", first)
    if is_shared and not shape.whole:
        shape.cpus, shape.memory_mb = per_node, memory_mb
    else:
        shape.cpus, shape.min_memory_mb = per_node if per_node > 1 else 0, memory_mb
    shape.never = _never(shape, job, vcluster, members, per_node)
    if shape.never == NO_NODES and shape.nodes > len(members) and not job.is_test:
        has = f"partition {vcluster.name} has {len(members)}"
        shape.warnings.append(f"the job asks for {shape.nodes} nodes and stays pending: {has}")
    return shape


def _unavailable(program: str, requested: str, *before: str) -> Fault:
    """What Slurm says, which clients look for, and the figures on a line of their own."""
    return Fault(
        *before,
        f"{program}: error: {SUBMISSION_FAILED}Requested node configuration is not available",
        f"{program}: error: requested: {requested}",
    )


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
    try:
        holds: Callable[[frozenset[str]], bool] | None = matches_features(job.features)
    except TooLong as problem:
        raise error(program, f"{SUBMISSION_FAILED}Invalid feature specification: {problem}") from None
    fitting = [] if holds is None else [node for node in members if holds(frozenset(node.hardware.features))]
    if holds is None or (members and not fitting):
        raise error(program, f"{SUBMISSION_FAILED}Invalid feature specification")
    plain = plain_features(job.features)
    if plain is not None:
        shape.features = plain
        return
    fits = {node.id for node in fitting}
    shape.exclude = (*shape.exclude, *(node.id for node in members if node.id not in fits))


def _count_nodes(shape: Shape, job: Job, members: list[Node], *, is_shared: bool) -> None:
    fitting = [node for node in members if _suits(node, shape, job)]
    usable = [node for node in fitting if node.state in IN_SERVICE]
    tasks = job.ntasks
    if job.min_nodes:
        _take_nodes(shape, job)
    elif tasks and job.ntasks_per_node:
        shape.nodes = -(-tasks // job.ntasks_per_node)
    elif tasks and not _spread(shape, job, usable, is_shared) and not _spread(shape, job, fitting, is_shared):
        _narrow(shape, job, fitting)
    if shape.node_list and not job.min_nodes:
        shape.nodes = max(shape.nodes, len(shape.node_list))
    gpus = _largest(usable).gpus or _largest(fitting).gpus
    if job.gpus.number and not job.min_nodes and gpus:
        shape.nodes = max(shape.nodes, -(-job.gpus.number // gpus))


def _take_nodes(shape: Shape, job: Job) -> None:
    """As many as named, but never more than there are tasks for."""
    shape.nodes, shape.max_nodes = job.min_nodes, job.max_nodes
    narrowed = narrowed_warning(job.ntasks, job.min_nodes, is_named=bool(job.nodelist))
    if narrowed:
        shape.nodes, shape.max_nodes = job.ntasks, 0
        shape.warnings.append(narrowed)
    elif job.ntasks and not job.nodelist:
        shape.max_nodes = min(shape.max_nodes, job.ntasks)


def _suits(node: Node, shape: Shape, job: Job) -> bool:
    """Whether the job might run there, however many of its tasks."""
    hardware = node.hardware
    return (
        node.id not in shape.exclude
        and (not shape.node_list or node.id in shape.node_list)
        and set(shape.features) <= set(hardware.features)
        and (not shape.gpu_type or shape.gpu_type == hardware.gpu_type)
        and max(job.gpus_per_node.number, job.gpus_per_task.number) <= hardware.gpus
        and (job.memory_mb or 0) <= hardware.memory_mb
        and job.min_cpus <= hardware.cpus
    )


def _most_tasks(job: Job, cpus: int, memory_mb: int, gpus: int) -> int:
    """Tasks for which there is room in so much of a node."""
    per_task = max(1, job.cpus_per_task)
    most = cpus // per_task
    if job.memory_per_cpu_mb:
        most = min(most, memory_mb // (job.memory_per_cpu_mb * per_task))
    if job.gpus_per_task.number:
        most = min(most, gpus // job.gpus_per_task.number)
    return most


def _spread(shape: Shape, job: Job, nodes: list[Node], is_shared: bool) -> bool:
    """The fewest of these nodes that have room for all tasks, evenly spread; more of them when those are free now.

    Nodes that differ may have room only unevenly; then enough are taken, as a whole, that any choice of them suffices.
    """
    room = {
        node.id: _most_tasks(job, node.hardware.cpus, node.hardware.memory_mb, node.hardware.gpus) for node in nodes
    }
    free = {node.id: _free_tasks(job, node, is_shared) for node in nodes}
    options: list[tuple[int, int]] = []
    for size in sorted({most for most in room.values() if most}, reverse=True):
        count = -(-job.ntasks // size)
        each = -(-job.ntasks // count)
        if sum(most >= each for most in room.values()) >= count:
            options.append((count, each))
    for count, each in options:
        if sum(most >= each for most in free.values()) >= count:
            shape.nodes, shape.tasks_per_node = count, each
            return True
    if options:
        shape.nodes, shape.tasks_per_node = options[0]
        return True
    covered = 0
    for count, most in enumerate(sorted(most for most in room.values() if most), 1):
        covered += most
        if covered >= job.ntasks:
            shape.nodes, shape.tasks_per_node, shape.whole = count, 1, True
            return True
    return False


def _free_tasks(job: Job, node: Node, is_shared: bool) -> int:
    if node.state is not NodeState.READY or node.holder or node.claimant or (node.tenures and not is_shared):
        return 0
    return _most_tasks(job, *node.free_share())


def _narrow(shape: Shape, job: Job, nodes: list[Node]) -> None:
    """There is not enough in the partition: counted by its largest node, and told as what can never start."""
    most = max(
        (_most_tasks(job, each.hardware.cpus, each.hardware.memory_mb, each.hardware.gpus) for each in nodes), default=0
    )
    shape.nodes = -(-job.ntasks // max(1, most))


def _count_gpus(shape: Shape, job: Job, members: list[Node], program: str) -> None:
    if job.gpus_per_node.number:
        shape.gpus = job.gpus_per_node.number
    elif job.gpus_per_task.number:
        shape.gpus = job.gpus_per_task.number * _tasks_on_each(shape, job)
    elif job.gpus.number:
        shape.gpus = -(-job.gpus.number // shape.nodes)
    if not shape.gpus:
        shape.gpu_type = ""
        return
    kinds = [node.hardware for node in members if shape.gpu_type in ("", node.hardware.gpu_type)]
    most = max((each.gpus for each in kinds), default=0)
    if members and shape.gpus > most:
        kind = f" {shape.gpu_type}" if shape.gpu_type else ""
        raise _unavailable(program, f"{shape.gpus}{kind} GPUs per node; no node has more than {most}")


def tasks_per_node(nodes: int, job: Job) -> int:
    """How many tasks run on a node at most."""
    return job.ntasks_per_node or max(1, -(-job.ntasks // nodes))


def _tasks_on_each(shape: Shape, job: Job) -> int:
    return shape.tasks_per_node or tasks_per_node(shape.nodes, job)


def _cpus_per_node(shape: Shape, job: Job) -> int:
    by_tasks = _tasks_on_each(shape, job) * max(1, job.cpus_per_task)
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
