"""Which CPUs and GPUs of a node the tasks of a step have, of those that their allocation has there. Pure; asked by the node itself.

CPUs: each task has as many of its own as it asked for, out of as few memory domains as possible (`cores`), or all of the allocation's
CPUs in these domains (`numa`), or those of a list (`map:0,2`). GPUs: those nearest to the CPUs of the task. docs/architecture/steps.md.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from lattice.core.model.nodes.memory import MemoryTopology, choose_cpus

CPU_BINDINGS = ("none", "cores", "numa")
GPU_BINDINGS = ("none", "closest")
MAP = "map:"
MAX_MAPPED = 4096
MAX_CPU = 65_535


class BadBinding(ValueError):
    """The binding is not possible; the text is for the user."""


class TaskDevices(Struct, frozen=True, kw_only=True):
    """What one task has. No `cpus` = it is not bound; no `gpus` = all of the allocation's."""

    cpus: tuple[int, ...] = ()
    gpus: tuple[int, ...] | None = None


def parse_map(kind: str) -> tuple[int, ...]:
    """The CPUs of `map:0,2,4-7`. Raises BadBinding."""
    cpus: list[int] = []
    for piece in kind.removeprefix(MAP).split(","):
        first, dash, last = piece.partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise BadBinding(f'"{piece[:20]}" is not a CPU: use map:0,2 or map:0-3')
        low, high = int(first), int(last or first)
        if high > MAX_CPU or low > high or len(cpus) + high - low >= MAX_MAPPED:
            raise BadBinding(
                f'"{piece[:20]}" is not a range of CPUs: use map:FIRST-LAST, with {MAX_MAPPED} CPUs at most'
            )
        cpus += range(low, high + 1)
    return tuple(cpus)


def check_cpu_binding(kind: str) -> str:
    """The binding; raises BadBinding for one that does not exist."""
    if kind.startswith(MAP):
        parse_map(kind)
    elif kind and kind not in CPU_BINDINGS:
        raise BadBinding(f'"{kind[:40]}" is not known: use none, cores, numa or map:LIST')
    return kind


def bind_cpus(
    kind: str, memory: MemoryTopology, cpus: Sequence[int], taken: Collection[int], tasks: int, cpus_per_task: int
) -> list[tuple[int, ...]]:
    """The CPUs of each task, none where it is not bound. `cpus` are the allocation's, `taken` of these those of its other steps.

    Without a kind the tasks get cores of their own where there are enough; a single task that asked for nothing has them all.
    Raises BadBinding.
    """
    unbound: list[tuple[int, ...]] = [()] * tasks
    if kind == "none" or (not kind and (not cpus or (tasks == 1 and cpus_per_task <= 1))):
        return unbound
    if not cpus:
        raise BadBinding(
            "this node does not say which CPUs the allocation has, so its tasks cannot be bound: use --cpu-bind none"
        )
    if kind.startswith(MAP):
        return _mapped(parse_map(kind), cpus, tasks)
    free = set(cpus).difference(taken)
    if tasks * cpus_per_task > len(free):
        if not kind:
            return unbound
        raise BadBinding(
            f"{tasks * cpus_per_task} CPUs are needed to bind the tasks, {len(free)} are free here: "
            "use fewer tasks, or --cpu-bind none"
        )
    own = []
    for _ in range(tasks):
        chosen = choose_cpus(memory, free, cpus_per_task)
        free.difference_update(chosen)
        own.append(chosen)
    return [_domains(memory, each, cpus) for each in own] if kind == "numa" else own


def _mapped(listed: tuple[int, ...], cpus: Sequence[int], tasks: int) -> list[tuple[int, ...]]:
    strange = next((cpu for cpu in listed if cpu not in cpus), None)
    if strange is not None:
        own = ",".join(map(str, cpus))
        raise BadBinding(
            f"CPU {strange} of the map is not one of the allocation's on this node: use {own}, or --cpu-bind cores"
        )
    return [(listed[place % len(listed)],) for place in range(tasks)]


def _domains(memory: MemoryTopology, own: Collection[int], cpus: Sequence[int]) -> tuple[int, ...]:
    """All of the allocation's CPUs in the memory domains of these."""
    near = {
        cpu
        for domain in memory.domains
        if not set(own).isdisjoint(domain.attached_cpus)
        for cpu in domain.attached_cpus
    }
    return tuple(cpu for cpu in cpus if cpu in near) or tuple(own)


def bind_gpus(
    kind: str, memory: MemoryTopology, gpus: Sequence[int], task_cpus: Sequence[tuple[int, ...]], per_task: int
) -> list[tuple[int, ...] | None]:
    """The GPUs of each task, None where it sees all of the allocation's. Raises BadBinding."""
    if per_task:
        if per_task * len(task_cpus) > len(gpus):
            wanted = f"{len(task_cpus)} tasks with {per_task} GPUs each"
            hint = "use fewer tasks, or --gpus-per-task with fewer" if gpus else "ask for GPUs at submission"
            raise BadBinding(f"{wanted} do not fit: the allocation has {len(gpus)} on this node: {hint}")
        return list(_dealt(kind, memory, gpus, task_cpus, per_task))
    if kind != "closest":
        return [None] * len(task_cpus)
    return [tuple(gpu for gpu in gpus if gpu in _near(memory, cpus)) or None for cpus in task_cpus]


def _dealt(
    kind: str, memory: MemoryTopology, gpus: Sequence[int], task_cpus: Sequence[tuple[int, ...]], per_task: int
) -> list[tuple[int, ...]]:
    free = list(gpus)
    dealt = []
    for cpus in task_cpus:
        near = _near(memory, cpus) if kind != "none" else frozenset()
        chosen = sorted(free, key=lambda gpu: (gpu not in near, gpu))[:per_task]
        free = [gpu for gpu in free if gpu not in chosen]
        dealt.append(tuple(sorted(chosen)))
    return dealt


def _near(memory: MemoryTopology, cpus: Collection[int]) -> frozenset[int]:
    return frozenset(
        gpu
        for domain in memory.domains
        if not set(cpus).isdisjoint(domain.attached_cpus)
        for gpu in domain.attached_gpus
    )
