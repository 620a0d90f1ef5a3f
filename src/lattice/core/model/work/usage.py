"""What a run or a step used of its nodes, besides CPU time and memory, as it is remembered. See docs/architecture/core.md."""

from collections.abc import Iterable

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Zero also where a node did not measure it. Bytes are those that storage read and wrote, not those that caches served."""

    throttled_s: float = 0.0  # how long it waited because its share of the CPUs was used up
    read_bytes: int = 0
    written_bytes: int = 0
    peak_pids: int = 0  # processes and threads at the same time, on the node that had most
    gpu_used_s: float = 0.0  # use of its GPUs, added up over time
    gpu_held_s: float = 0.0  # how long they were measured, all of them together
    energy_j: float = 0.0  # of its GPUs, and its share of what the processors drew, as far as sensors say
    is_oom: bool = False  # of a step: processes of it were killed for lack of memory


NO_USAGE = Usage()
SINCE_LEVEL = 2  # of the log


def total_usage(usages: Iterable[Usage]) -> Usage:
    """The amounts of all, and the highest peak."""
    total = NO_USAGE
    for usage in usages:
        if usage == NO_USAGE:
            continue
        total = Usage(
            throttled_s=round(total.throttled_s + usage.throttled_s, 6),
            read_bytes=total.read_bytes + usage.read_bytes,
            written_bytes=total.written_bytes + usage.written_bytes,
            peak_pids=max(total.peak_pids, usage.peak_pids),
            gpu_used_s=round(total.gpu_used_s + usage.gpu_used_s, 3),
            gpu_held_s=round(total.gpu_held_s + usage.gpu_held_s, 3),
            energy_j=round(total.energy_j + usage.energy_j, 3),
            is_oom=total.is_oom or usage.is_oom,
        )
    return total
