"""What a run or a step used, as it is shown."""

from msgspec import Struct

from lattice.core.model.work.efficiency import finite, used_percent
from lattice.core.model.work.usage import Usage


class RunUsageView(Struct, frozen=True, kw_only=True, gc=False):
    """Beyond CPU time and memory; 0 also where a node does not measure it."""

    throttled_s: float  # waited because its share of the CPUs was used up
    read_bytes: int  # from storage, on all nodes
    written_bytes: int
    peak_pids: int  # processes and threads at the same time, on the node that had most
    gpu_efficiency: float | None  # use of its GPUs in percent, where it was measured
    energy_kwh: float | None  # as far as the sensors of its nodes say


def usage_view(usage: Usage) -> RunUsageView:
    return RunUsageView(
        throttled_s=round(finite(usage.throttled_s), 3),
        read_bytes=usage.read_bytes,
        written_bytes=usage.written_bytes,
        peak_pids=usage.peak_pids,
        gpu_efficiency=used_percent(usage.gpu_used_s, finite(usage.gpu_held_s)),
        energy_kwh=round(finite(usage.energy_j) / 3.6e6, 6) if finite(usage.energy_j) > 0 else None,
    )
