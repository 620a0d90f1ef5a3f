"""The SLURM_* variables of a job and of its steps. The only place that knows them; the code that starts work sets them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lattice.slurm.text.hostlists import fold


@dataclass(frozen=True, kw_only=True)
class ArrayFacts:
    """The array that a task belongs to."""

    number: int
    index: int
    first: int
    last: int
    step: int
    count: int


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """A running job as one of its nodes sees it; `cpus` in the order of `nodes`. 0 means not requested."""

    number: int
    name: str
    user: str
    uid: int
    gid: int
    account: str
    partition: str
    qos: str
    cluster: str
    nodes: Sequence[str]
    cpus: Sequence[int]
    node: str
    submit_dir: str
    submit_host: str = ""
    ntasks: int = 0
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    memory_mb: int = 0  # -1 = all of a node's
    memory_per_cpu_mb: int = 0
    gpus: int = 0  # on this node
    gpus_asked: str = ""
    dependency: str = ""
    reservation: str = ""
    restarts: int = 0
    array: ArrayFacts | None = None


def repeated(figures: Sequence[int]) -> str:
    """`2(x3),4`: figures per node, run-length encoded."""
    runs = [(figure, len(list(group))) for figure, group in groupby(figures)]
    return ",".join(f"{figure}(x{count})" if count > 1 else f"{figure}" for figure, count in runs)


def tasks_on_nodes(nodes: int, ntasks: int, per_node: int, cpus: Sequence[int], cpus_per_task: int) -> list[int]:
    """The number of tasks per node: as requested, else as many as its CPUs allow."""
    if per_node:
        return [per_node] * nodes
    if ntasks:
        return [ntasks // nodes + (place < ntasks % nodes) for place in range(nodes)]
    return [max(1, count // max(1, cpus_per_task)) for count in cpus]


def batch_variables(facts: JobFacts) -> dict[str, str]:
    """The variables of the batch script."""
    count = len(facts.nodes)
    folded = fold(facts.nodes)
    place = facts.nodes.index(facts.node) if facts.node in facts.nodes else 0
    tasks = tasks_on_nodes(count, facts.ntasks, facts.ntasks_per_node, facts.cpus, facts.cpus_per_task)
    found = {
        "SLURM_JOB_ID": f"{facts.number}",
        "SLURM_JOBID": f"{facts.number}",
        "SLURM_JOB_NAME": facts.name,
        "SLURM_JOB_NODELIST": folded,
        "SLURM_NODELIST": folded,
        "SLURM_JOB_NUM_NODES": f"{count}",
        "SLURM_NNODES": f"{count}",
        "SLURM_JOB_PARTITION": facts.partition,
        "SLURM_JOB_CPUS_PER_NODE": repeated(facts.cpus),
        "SLURM_TASKS_PER_NODE": repeated(tasks),
        "SLURM_CPUS_ON_NODE": f"{facts.cpus[place] if facts.cpus else 1}",
        "SLURM_SUBMIT_DIR": facts.submit_dir,
        "SLURM_SUBMIT_HOST": facts.submit_host,
        "SLURM_CLUSTER_NAME": facts.cluster,
        "SLURM_JOB_USER": facts.user,
        "SLURM_JOB_UID": f"{facts.uid}",
        "SLURM_JOB_GID": f"{facts.gid}",
        "SLURM_JOB_ACCOUNT": facts.account,
        "SLURM_JOB_QOS": facts.qos,
        "SLURMD_NODENAME": facts.node,
        "SLURM_TOPOLOGY_ADDR": facts.node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_NODEID": f"{place}",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_PRIO_PROCESS": "0",
    }
    return found | _asked(facts) | _array(facts.array)


def _asked(facts: JobFacts) -> dict[str, str]:
    """Only what was requested."""
    ntasks = facts.ntasks or facts.ntasks_per_node * len(facts.nodes)
    wanted: Mapping[str, int | str] = {
        "SLURM_NTASKS": ntasks,
        "SLURM_NPROCS": ntasks,
        "SLURM_NTASKS_PER_NODE": facts.ntasks_per_node,
        "SLURM_CPUS_PER_TASK": facts.cpus_per_task,
        "SLURM_MEM_PER_NODE": max(0, facts.memory_mb),
        "SLURM_MEM_PER_CPU": facts.memory_per_cpu_mb,
        "SLURM_GPUS_ON_NODE": facts.gpus,
        "SLURM_GPUS": facts.gpus_asked,
        "SLURM_JOB_DEPENDENCY": facts.dependency,
        "SLURM_JOB_RESERVATION": facts.reservation,
        "SLURM_RESTART_COUNT": facts.restarts,
    }
    return {name: f"{value}" for name, value in wanted.items() if value}


def _array(array: ArrayFacts | None) -> dict[str, str]:
    if array is None:
        return {}
    return {
        "SLURM_ARRAY_JOB_ID": f"{array.number}",
        "SLURM_ARRAY_TASK_ID": f"{array.index}",
        "SLURM_ARRAY_TASK_MIN": f"{array.first}",
        "SLURM_ARRAY_TASK_MAX": f"{array.last}",
        "SLURM_ARRAY_TASK_STEP": f"{array.step}",
        "SLURM_ARRAY_TASK_COUNT": f"{array.count}",
    }


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """A step, and one of its tasks; `tasks` per node in the order of `nodes`, `ranks` are those on this node."""

    number: int
    nodes: Sequence[str]
    tasks: Sequence[int]
    node: str
    rank: int
    local_rank: int
    ranks: Sequence[int]
    cpus_per_task: int = 0
    launch_address: str = "127.0.0.1"


def step_variables(facts: StepFacts) -> dict[str, str]:
    """Variables of a task of a step in addition to the job's own, some of which it replaces."""
    total = sum(facts.tasks)
    per_node = repeated(facts.tasks)
    found = {
        "SLURM_STEP_ID": f"{facts.number}",
        "SLURM_STEPID": f"{facts.number}",
        "SLURM_STEP_NUM_TASKS": f"{total}",
        "SLURM_STEP_NUM_NODES": f"{len(facts.nodes)}",
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_STEP_NODELIST": fold(facts.nodes),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_NTASKS": f"{total}",
        "SLURM_NPROCS": f"{total}",
        "SLURM_NNODES": f"{len(facts.nodes)}",
        "SLURM_NODEID": f"{facts.nodes.index(facts.node)}",
        "SLURMD_NODENAME": facts.node,
        "SLURM_TOPOLOGY_ADDR": facts.node,
        "SLURM_PROCID": f"{facts.rank}",
        "SLURM_LOCALID": f"{facts.local_rank}",
        "SLURM_GTIDS": ",".join(map(str, facts.ranks)),
        "SLURM_SRUN_COMM_HOST": facts.launch_address,
        "SLURM_LAUNCH_NODE_IPADDR": facts.launch_address,
        "SLURM_DISTRIBUTION": "block",
    }
    if facts.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = f"{facts.cpus_per_task}"
    return found
