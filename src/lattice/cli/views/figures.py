"""Figures for people: with their unit, no more digits than they are worth, and `-` for what was not measured."""

from collections.abc import Callable, Iterable, Sequence

from lattice.cli.output import Column
from lattice.cli.views.allocations import bytes_text
from lattice_sdk.models.telemetry.metrics import MetricRow, Metrics

# The columns of lists, in their order: what heads them, and the metric.
HEADS = {
    "gpu_utilization": "GPU",
    "gpu_memory_used": "GPUMEM",
    "gpu_power_draw": "GPUPOWER",
    "cpu_utilization": "CPU",
    "cpus_used": "CPUS",
    "memory_used": "MEMORY",
    "network_tx_bytes": "SENT",
    "network_rx_bytes": "RECEIVED",
    "io_read_bytes": "READ",
    "io_write_bytes": "WRITTEN",
    "io_latency_p99": "IOP99",
}


def figure_text(value: float | None, unit: str) -> str:
    """One figure; empty for what is not known."""
    if value is None:
        return ""
    match unit:
        case "bytes":
            return bytes_text(value)
        case "bytes/s":
            return f"{bytes_text(value)}/s"
        case "%":
            return f"{value:.1f}%"
        case "CPUs":
            return f"{value:.2f}"
        case _:
            return f"{value:,.1f}{f' {unit}' if unit and unit != '1/s' else '/s' if unit else ''}"


ROWS: tuple[Column[MetricRow], ...] = (
    Column("METRIC", lambda row: row.metric),
    Column("DEVICE", lambda row: row.device or "", is_sparse=True),
    Column("NOW", lambda row: figure_text(row.now, row.unit)),
    Column("MEAN", lambda row: figure_text(row.mean, row.unit)),
    Column("MAX", lambda row: figure_text(row.max, row.unit)),
    Column("SAMPLES", lambda row: str(row.count), is_wide=True),
)


def heading(found: Metrics) -> str:
    """Where the figures come from, how fine and how old they are."""
    age = "no figures yet" if found.age_s is None else f"{found.age_s:.0f} s old"
    words = [f"from {found.source}", f"{found.resolution_s:g} s windows", age]
    if found.read:
        words.insert(1, f"measured by {' and '.join(found.read)}")
    if found.mode != "prod":
        words.append(f"mode {found.mode}")
    return f"{found.id}: {', '.join(words)}"


Grouped = tuple[str, str, dict[str, MetricRow]]


def grouped(rows: Iterable[MetricRow]) -> list[Grouped]:
    """One entry for each node and device, with its figures by metric."""
    found: dict[tuple[str, str], dict[str, MetricRow]] = {}
    for row in rows:
        found.setdefault((row.node or "", row.device or ""), {})[row.metric] = row
    return [(node, device, figures) for (node, device), figures in found.items()]


def group_columns(metrics: Sequence[str], *, with_device: bool) -> tuple[Column[Grouped], ...]:
    """Node, device and a column for each metric."""
    device = (Column[Grouped]("GPU", lambda each: each[1]),) if with_device else ()
    heads = [Column[Grouped](HEADS.get(name, name.upper()), _of(name)) for name in metrics]
    return (Column[Grouped]("NODE", lambda each: each[0]), *device, *heads)


def _of(name: str) -> Callable[[Grouped], str]:
    return lambda each: now_text(each[2].get(name))


def now_text(row: MetricRow | None) -> str:
    return "" if row is None else figure_text(row.now, row.unit)
