"""What a run may take of its node: CPU time and memory by its share, processes by its CPUs.

A run that has the whole node may use all of its CPUs, but not all of its memory: the agent and the shim must outlive any work.
"""

import msgspec

from lattice.agent.runs.device_files import DeviceFiles
from lattice.agent.runs.devices import NOTHING, Devices
from lattice.agent.runs.rlimits import Rlimits

CONFINED_FEATURE = "confined"
IO_FEATURE = "io_limits"
LIMIT_FEATURES = frozenset({CONFINED_FEATURE, IO_FEATURE})
MB = 1_000_000  # of rates of storage
DEFAULT_PIDS_PER_CPU = 512
DEFAULT_RESERVE_MB = 512
# The controllers that hold a share, and what each limits.
SHARED_LIMITS = {"memory": "memory", "cpu": "CPU time", "pids": "processes", "devices": "devices"}
MAX_RESERVED_PERCENT = 10  # of a small machine, whatever the reserve says


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`machine_memory_mb` is what the machine really has (0 = not known); a node may offer less."""

    pids_per_cpu: int = DEFAULT_PIDS_PER_CPU  # 0 = not limited
    reserve_mb: int = DEFAULT_RESERVE_MB
    machine_memory_mb: int = 0
    device_files: DeviceFiles | None = None  # None = devices are not confined
    rlimits: Rlimits = {}  # of every process; what is not named stays as the shim has it


class NodeSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the node offers."""

    cpus: int
    memory_mb: int


def run_limits(
    settings: LimitSettings,
    node: NodeSize,
    cpus: int,
    memory_mb: int,
    devices: Devices = NOTHING,
    storage: tuple[int, int] = (0, 0),
) -> dict[str, object]:
    """The part of a request that tells the shim. `cpus` and `memory_mb` are the run's share, 0 where it was given none;
    `devices` are the CPUs and GPUs that it was given, if they are particular ones; `storage` is what it may read and write,
    in MB per second."""
    is_share = 0 < cpus < node.cpus
    limits: dict[str, object] = {}
    if is_share:
        limits["cpus"] = float(cpus)
    if settings.pids_per_cpu:
        limits["pids"] = settings.pids_per_cpu * (cpus if is_share else node.cpus)
    if devices.cpus:
        limits["cpuset"] = list(devices.cpus)
    if is_share and settings.device_files is not None:
        limits["devices"] = settings.device_files.rules(devices.gpus or ())
    for name, rate in zip(("read_bps", "write_bps"), storage, strict=True):
        if rate:
            limits[name] = rate * MB
    if settings.rlimits:
        limits["rlimits"] = {name: list(pair) for name, pair in settings.rlimits.items()}
    return {"memory_mb": memory_mb or (0 if is_share else _most_memory_mb(settings, node)), "limits": limits}


def what_lacks(known: tuple[str, ...] | None) -> str:
    """What shared work does without on this node, given the controllers that its shim uses; None = one of an earlier release."""
    if known is None:
        return "the shim that runs here is older than this agent: work that shares the node is refused"
    missing = [words for name, words in SHARED_LIMITS.items() if name not in known]
    return f"runs that share this node are not limited in {', '.join(missing)}" if missing else ""


def confinement_features(known: tuple[str, ...] | None) -> set[str]:
    """What a node offers that enforces every limit of a share, and of storage."""
    found = set() if what_lacks(known) else {CONFINED_FEATURE}
    return found | ({IO_FEATURE} if known and "io" in known else set())


def _most_memory_mb(settings: LimitSettings, node: NodeSize) -> int:
    """What work on the whole node may take: all that the node offers, less the reserve where that is the whole machine."""
    machine_mb = settings.machine_memory_mb or node.memory_mb
    reserve_mb = min(settings.reserve_mb, machine_mb * MAX_RESERVED_PERCENT // 100)
    return max(1, min(node.memory_mb, machine_mb - reserve_mb)) if machine_mb else 0
