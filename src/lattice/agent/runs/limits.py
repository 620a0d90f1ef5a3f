"""What a run may take of its node: CPU time and memory by its share, processes by its CPUs.

A run that has the whole node may use all of its CPUs, but not all of its memory: the agent and the shim must outlive any work.
"""

import msgspec

DEFAULT_PIDS_PER_CPU = 512
DEFAULT_RESERVE_MB = 512
MAX_RESERVED_PERCENT = 10  # of a small machine, whatever the reserve says


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`machine_memory_mb` is what the machine really has (0 = not known); a node may offer less."""

    pids_per_cpu: int = DEFAULT_PIDS_PER_CPU  # 0 = not limited
    reserve_mb: int = DEFAULT_RESERVE_MB
    machine_memory_mb: int = 0


class NodeSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the node offers."""

    cpus: int
    memory_mb: int


def run_limits(
    settings: LimitSettings, node: NodeSize, cpus: int, memory_mb: int, bound: tuple[int, ...] = ()
) -> dict[str, object]:
    """The part of a request that tells the shim. `cpus` and `memory_mb` are the run's share, 0 where it was given none;
    `bound` are the CPUs it may use, if it was given particular ones."""
    is_share = 0 < cpus < node.cpus
    limits: dict[str, object] = {}
    if is_share:
        limits["cpus"] = float(cpus)
    if settings.pids_per_cpu:
        limits["pids"] = settings.pids_per_cpu * (cpus if is_share else node.cpus)
    if bound:
        limits["cpuset"] = list(bound)
    return {"memory_mb": memory_mb or (0 if is_share else _most_memory_mb(settings, node)), "limits": limits}


def _most_memory_mb(settings: LimitSettings, node: NodeSize) -> int:
    """What work on the whole node may take: all that the node offers, less the reserve where that is the whole machine."""
    machine_mb = settings.machine_memory_mb or node.memory_mb
    reserve_mb = min(settings.reserve_mb, machine_mb * MAX_RESERVED_PERCENT // 100)
    return max(1, min(node.memory_mb, machine_mb - reserve_mb)) if machine_mb else 0
