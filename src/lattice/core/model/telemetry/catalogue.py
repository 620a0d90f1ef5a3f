"""Every metric of runs and nodes: its unit, what it says, and how the figures of several nodes become one.

The names are those of the API, of the command line and, behind a prefix, of the time-series store. See docs/architecture/telemetry.md.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Unit(StrEnum):
    PERCENT = "%"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    PER_S = "1/s"
    CPUS = "CPUs"
    COUNT = ""
    WATTS = "W"
    CELSIUS = "°C"
    MICROSECONDS = "us"


class Merge(StrEnum):
    """How figures of several nodes, or of several devices of one, become one."""

    SUM = "sum"
    MEAN = "mean"
    HIGHEST = "highest"


class Metric(Struct, frozen=True, kw_only=True):
    """`of_run`, `of_node`: whose figures these can be. `device`: what distinguishes its series, empty = there is one."""

    name: str
    unit: Unit
    help: str
    merge: Merge = Merge.SUM
    of_run: bool = True
    of_node: bool = True
    device: str = ""


def _run(name: str, unit: Unit, text: str, merge: Merge = Merge.SUM, device: str = "") -> Metric:
    return Metric(name=name, unit=unit, help=text, merge=merge, device=device)


def _node(name: str, unit: Unit, text: str, merge: Merge = Merge.SUM, device: str = "") -> Metric:
    return Metric(name=name, unit=unit, help=text, merge=merge, of_run=False, device=device)


_MEAN, _HIGHEST = Merge.MEAN, Merge.HIGHEST
CATALOGUE: tuple[Metric, ...] = (
    _run("gpu_utilization", Unit.PERCENT, "time in which a kernel ran on the GPU", _MEAN, "gpu"),
    _run("gpu_memory_used", Unit.BYTES, "GPU memory in use", device="gpu"),
    _run("gpu_memory_utilization", Unit.PERCENT, "share of the GPU memory in use", _MEAN, "gpu"),
    _run("gpu_power_draw", Unit.WATTS, "power that the GPU draws", device="gpu"),
    _run("cpu_utilization", Unit.PERCENT, "CPU time, as a share of the CPUs that the run or node has", _MEAN),
    _run("cpus_used", Unit.CPUS, "CPU time per second"),
    _run("memory_used", Unit.BYTES, "memory that cannot be reclaimed: anonymous and shared"),
    _run("network_tx_bytes", Unit.BYTES_PER_S, "bytes sent"),
    _run("network_rx_bytes", Unit.BYTES_PER_S, "bytes received"),
    _run("io_read_bytes", Unit.BYTES_PER_S, "bytes read from storage"),
    _run("io_write_bytes", Unit.BYTES_PER_S, "bytes written to storage"),
    _run("io_latency_p99", Unit.MICROSECONDS, "99th percentile of the time that a block request took", _HIGHEST),
    _run(
        "cpu_throttled",
        Unit.PERCENT,
        "time in which the run had to wait because its share of the CPUs was used up",
        _MEAN,
    ),
    _run("cpu_pressure", Unit.PERCENT, "time in which some task waited for a CPU", _MEAN),
    _run("memory_pressure", Unit.PERCENT, "time in which some task waited for memory", _MEAN),
    _run("io_pressure", Unit.PERCENT, "time in which some task waited for storage", _MEAN),
    _run("memory_cache", Unit.BYTES, "page cache, which can be reclaimed"),
    _run("run_queue_latency", Unit.MICROSECONDS, "mean time that a task that could run waited for a CPU", _HIGHEST),
    _run(
        "run_queue_latency_p99",
        Unit.MICROSECONDS,
        "99th percentile of the time that a task that could run waited for a CPU",
        _HIGHEST,
    ),
    _run("block_latency", Unit.MICROSECONDS, "mean time that a block request took", _HIGHEST, "disk"),
    _run("block_requests", Unit.PER_S, "block requests that ended", device="disk"),
    _run("block_read_bytes", Unit.BYTES_PER_S, "bytes that a disk read", device="disk"),
    _run("block_write_bytes", Unit.BYTES_PER_S, "bytes that a disk wrote", device="disk"),
    _run("peer_tx_bytes", Unit.BYTES_PER_S, "bytes sent to one peer", device="peer"),
    _run("peer_rx_bytes", Unit.BYTES_PER_S, "bytes received from one peer", device="peer"),
    _run("numa_memory", Unit.BYTES, "memory in one NUMA node, of machines with several", device="numa"),
    _run("page_faults", Unit.PER_S, "page faults"),
    _run("context_switches", Unit.PER_S, "context switches"),
    _run("processes", Unit.COUNT, "processes and threads"),
    _run(
        "gpu_sm_occupancy",
        Unit.PERCENT,
        "warps on the multiprocessors of the GPU, as a share of what they can hold",
        _MEAN,
        "gpu",
    ),
    _run("gpu_temperature", Unit.CELSIUS, "temperature of the GPU", _HIGHEST, "gpu"),
    _run("gpu_pcie_tx_bytes", Unit.BYTES_PER_S, "bytes that the GPU sent over PCIe", device="gpu"),
    _run("gpu_pcie_rx_bytes", Unit.BYTES_PER_S, "bytes that the GPU received over PCIe", device="gpu"),
    _run("gpu_nvlink_bytes", Unit.BYTES_PER_S, "bytes over all NVLinks of the GPU, both ways", device="gpu"),
    _run(
        "gpu_ecc_errors", Unit.COUNT, "uncorrected memory errors of the GPU since the driver was loaded", device="gpu"
    ),
    _run("gpu_throttled", Unit.PERCENT, "time in which the GPU was slowed down for heat or power", _MEAN, "gpu"),
    _node("load1", Unit.COUNT, "load average over one minute"),
    _node("memory_total", Unit.BYTES, "memory of the node"),
    _node("nic_tx_bytes", Unit.BYTES_PER_S, "bytes sent by a network interface", device="nic"),
    _node("nic_rx_bytes", Unit.BYTES_PER_S, "bytes received by a network interface", device="nic"),
    _node("nic_errors", Unit.PER_S, "errors and drops of a network interface", device="nic"),
    _node("network_error_rate", Unit.PERCENT, "packets that were in error or dropped", _HIGHEST),
    _node(
        "network_congestion",
        Unit.PERCENT,
        "time in which the fabric let a network interface wait with data to send",
        _HIGHEST,
        "nic",
    ),
    _node("numa_misses", Unit.PER_S, "pages that came from this NUMA node instead of a preferred one", device="numa"),
    _node("disk_read_bytes", Unit.BYTES_PER_S, "bytes read from a disk", device="disk"),
    _node("disk_write_bytes", Unit.BYTES_PER_S, "bytes written to a disk", device="disk"),
    _node("disk_latency", Unit.MICROSECONDS, "mean time that a request to a disk took", _HIGHEST, "disk"),
    _node("disk_busy", Unit.PERCENT, "time in which a disk had requests", _HIGHEST, "disk"),
    _node("mount_used", Unit.PERCENT, "share of a file system that is in use", _HIGHEST, "mount"),
    _node("power_draw", Unit.WATTS, "power that the node draws, as far as its sensors say"),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in CATALOGUE}
# What a summary shows unless it is asked for others.
SHOWN = tuple(metric.name for metric in CATALOGUE[:12] if metric.name not in ("gpu_memory_utilization",))


class UnknownMetric(ValueError):
    """Says which there are."""


def choose(names: Iterable[str], *, of_node: bool = False) -> tuple[str, ...]:
    """The metrics of these names, of a run or of a node, each once; empty = all. Raises UnknownMetric."""
    known = [metric.name for metric in CATALOGUE if (metric.of_node if of_node else metric.of_run)]
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise UnknownMetric(f'no metric "{name[:60]}"; known are {", ".join(known)}')
    return wanted


def merged(metric: str, values: Iterable[float]) -> float | None:
    """One figure of several; None of none."""
    figures = list(values)
    if not figures:
        return None
    found = METRICS.get(metric)
    match found.merge if found else Merge.MEAN:
        case Merge.SUM:
            return sum(figures)
        case Merge.MEAN:
            return sum(figures) / len(figures)
        case Merge.HIGHEST:
            return max(figures)
