"""Options of srun about the step itself: tasks, streams, behaviour at the first failure."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from lattice.slurm.faults import error
from lattice.slurm.submit.getopt import Given
from lattice.slurm.submit.job import Job

PROGRAM = "srun"
_PER_TASK = re.compile(r"%\d*[tnN]")
_RANKS = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*$")


@dataclass(frozen=True, kw_only=True)
class StepLine:
    """Options that a submission does not have."""

    jobid: str = ""
    label: bool = False
    pty: bool = False
    overlap: bool = False
    overcommit: bool = False
    kills_on_failure: bool = False
    multi_prog: bool = False
    open_mode: str = ""
    immediate: bool = False
    cyclic: bool = False
    mpi: str = "auto"
    cpu_bind: str = ""
    gpu_bind: str = ""
    task_prologue: str = ""


MPI_KINDS = ("none", "pmi1", "pmi2", "pmix")
# Slurm has a type for each version of PMIx that it was built for.
PMIX_VERSIONS = ("pmix_v2", "pmix_v3", "pmix_v4", "pmix_v5")
MPI_LIST = "MPI plugin types are...\n" + "".join(f"\t{kind}\n" for kind in MPI_KINDS)


def _mpi(word: str) -> str:
    """How the tasks of the step find each other. Raises Fault for what is not available."""
    if not word or word in (*MPI_KINDS, "list"):
        return word or "auto"
    if word in PMIX_VERSIONS:
        return "pmix"
    raise error(PROGRAM, f"invalid MPI type '{word[:60]}', --mpi=list for acceptable types")


_CPU_BIND = {
    "no": "none",
    "none": "none",
    "cores": "cores",
    "threads": "cores",
    "rank": "cores",
    "ldoms": "numa",
    "rank_ldom": "numa",
}
_MAP_CPU = "map_cpu:"
_SAID_ASIDE = ("quiet", "q", "verbose", "v")


def _cpu_bind(words: str) -> str:
    """How tasks are bound, in the words of a launch. Raises Fault for what is not available."""
    for prefix in _SAID_ASIDE:
        words = words.removeprefix(f"{prefix},")
    if not words or words in (*_SAID_ASIDE, "yes"):
        return ""
    if words.startswith(_MAP_CPU) and re.fullmatch(r"\d+(,\d+)*", words.removeprefix(_MAP_CPU)):
        return f"map:{words.removeprefix(_MAP_CPU)}"
    if words not in _CPU_BIND:
        raise error(PROGRAM, f"--cpu-bind={words[:60]} is not supported; use none, cores, ldoms or map_cpu:LIST")
    return _CPU_BIND[words]


def _gpu_bind(words: str) -> str:
    for prefix in _SAID_ASIDE:
        words = words.removeprefix(f"{prefix},")
    if words not in ("", "none", "closest"):
        raise error(PROGRAM, f"--gpu-bind={words[:60]} is not supported; use none or closest")
    return words


def step_line(given: Iterable[Given]) -> StepLine:
    """The last value of each option counts."""
    values = {each.option.name: each.value for each in given}
    return StepLine(
        jobid=values.get("jobid", ""),
        label="label" in values,
        pty="pty" in values,
        overlap="overlap" in values or "oversubscribe" in values,
        overcommit="overcommit" in values,
        kills_on_failure=values.get("kill-on-bad-exit", "0" if "kill-on-bad-exit" not in values else "1") != "0",
        multi_prog="multi-prog" in values,
        open_mode=values.get("open-mode", ""),
        immediate="immediate" in values,
        cyclic=values.get("distribution", "").lower().startswith("cyclic"),
        mpi=_mpi(values.get("mpi", "").lower()),
        cpu_bind=_cpu_bind(values.get("cpu-bind", "").lower()),
        gpu_bind=_gpu_bind(values.get("gpu-bind", "").lower()),
        task_prologue=values.get("task-prolog", ""),
    )


def is_per_task(pattern: str) -> bool:
    """Whether each task has its own files, which it opens itself."""
    return _PER_TASK.search(pattern) is not None


def task_count(job: Job, environment_tasks: str, asked: int, nodes: int) -> int:
    """How many tasks; 0 = one on each node."""
    if job.ntasks:
        return job.ntasks
    if job.ntasks_per_node:
        return 0
    if environment_tasks.isascii() and environment_tasks.isdigit() and not job.min_nodes:
        return int(environment_tasks)
    return asked if not job.min_nodes or job.min_nodes == nodes else 0


def narrowed_warning(tasks: int, nodes: int, *, is_named: bool) -> str:
    """Slurm's warning about work with fewer tasks than nodes, which gets as many nodes as it has tasks; otherwise empty."""
    if not tasks or tasks >= nodes or is_named:
        return ""
    return f"can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"


def read_programs(text: str) -> list[tuple[str, list[str]]]:
    """Ranks and what they run, from the file of --multi-prog; `*` is the ranks that no line names."""
    found = []
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        ranks, _, rest = line.strip().partition(" ")
        try:
            words = shlex.split(rest)
        except ValueError:
            words = []
        if not words or (ranks != "*" and _RANKS.match(ranks) is None):
            raise error(PROGRAM, f"Invalid line {number} of the multi-prog file: {line.strip()[:60]}")
        found.append((ranks, words))
    if not found:
        raise error(PROGRAM, "the multi-prog file names no program")
    return found
