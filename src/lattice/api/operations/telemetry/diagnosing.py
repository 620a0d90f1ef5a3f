"""How an allocation fares on its nodes: network, storage and GPUs, each with a judgement and with what is not known."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.operations.telemetry.metrics import resolution_s
from lattice.api.telemetry.asking import Heard, ask_nodes, find_measured, parse_period
from lattice.api.telemetry.gathering import figures_of
from lattice.api.telemetry.rows import MetricRow, rows_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.alerts import RULES
from lattice.core.model.telemetry.catalogue import Unit
from lattice.core.model.telemetry.windows import WINDOW_MS
from lattice.core.model.work.allocations import Allocation
from lattice.ports.site.storage_qos import QosUnavailable
from lattice.wire.bounds import Short

MAX_NAMED = 8
FULL_PERCENT = 90.0
CONGESTED_PERCENT = 10.0
_LIMITS = {rule.metric: rule.limit for rule in RULES}


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    UNKNOWN = "unknown"


class AllocationDiagnosticsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    duration: Short = ""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at: its figure where there is one, and what it means. `unknown` says why nothing is known."""

    name: str
    health: str
    text: str
    value: float | None = None
    unit: str = ""
    node: str | None = None
    device: str | None = None


class DiagnosticsView(Struct, frozen=True, kw_only=True):
    """A section that was not asked for is empty."""

    id: str
    source: str
    note: str
    resolution_s: float
    network: tuple[Finding, ...]
    storage: tuple[Finding, ...]
    gpus: tuple[Finding, ...]
    unreachable: tuple[str, ...]


async def diagnostics(context: Context, request: AllocationDiagnosticsQuery) -> DiagnosticsView:
    """Say how the network, the storage and the GPUs of an allocation fare."""
    return await _diagnosed(context, request, network=True, storage=True, gpus=True)


async def network_diagnostics(context: Context, request: AllocationDiagnosticsQuery) -> DiagnosticsView:
    """Say how the network of an allocation fares."""
    return await _diagnosed(context, request, network=True)


async def storage_diagnostics(context: Context, request: AllocationDiagnosticsQuery) -> DiagnosticsView:
    """Say how the storage of an allocation fares."""
    return await _diagnosed(context, request, storage=True)


async def _diagnosed(
    context: Context,
    request: AllocationDiagnosticsQuery,
    *,
    network: bool = False,
    storage: bool = False,
    gpus: bool = False,
) -> DiagnosticsView:
    period_s = parse_period(request.duration)
    found = await find_measured(context, request.id)
    wanted = (NETWORK if network else ()) + (STORAGE if storage else ()) + (GPUS if gpus else ())
    own = await figures_of(context, found, period_s, wanted)
    # Of sensitive work only its own traffic is shown, not that of its nodes.
    is_open = found.vcluster not in context.state.audit.sensitive and not found.is_terminal
    nodes = await _of_nodes(context, found, period_s) if is_open and (network or storage) else Heard()
    rows = rows_of(own.measured, per_device=True)
    of_nodes = rows_of(nodes.measured, per_device=True)
    return DiagnosticsView(
        id=allocation_id(found.number),
        source=own.source,
        note=own.note,
        resolution_s=resolution_s(own),
        network=tuple(_network(context, found, rows, of_nodes)) if network else (),
        storage=(*_storage(rows, of_nodes), *await _guaranteed(context)) if storage else (),
        gpus=tuple(_gpus(rows)) if gpus else (),
        unreachable=tuple(own.unreachable),
    )


NETWORK = ("network_tx_bytes", "network_rx_bytes", "peer_tx_bytes", "peer_rx_bytes")
STORAGE = (
    "io_read_bytes",
    "io_write_bytes",
    "io_latency_p99",
    "block_latency",
    "block_read_bytes",
    "block_write_bytes",
    "block_requests",
    "io_pressure",
)
GPUS = ("gpu_utilization", "gpu_nvlink_bytes", "gpu_ecc_errors", "gpu_throttled")
OF_NODES = ("network_error_rate", "network_congestion", "mount_used", "disk_busy")


async def _of_nodes(context: Context, found: Allocation, period_s: int) -> Heard:
    since_ms = max(0, context.services.wall_ms() - period_s * 1000 - WINDOW_MS)
    return await ask_nodes(context, found.nodes, None, since_ms, OF_NODES)


def _network(
    context: Context, found: Allocation, rows: tuple[MetricRow, ...], of_nodes: tuple[MetricRow, ...]
) -> Iterable[Finding]:
    known = (context.state.nodes.get(node) for node in found.nodes)
    groups = sorted({node.hardware.group for node in known if node is not None and node.hardware.group})
    if groups:
        names = ", ".join(groups[:MAX_NAMED]) + (" and more" if len(groups) > MAX_NAMED else "")
        text = f"{len(groups)} group{'s' if len(groups) > 1 else ''} ({names})"
        yield Finding(name="group span", health=Health.OK, text=text, value=float(len(groups)))
    else:
        yield _unknown("group span", "the nodes belong to no group")
    yield from _judged(
        of_nodes,
        "network_congestion",
        "congestion",
        is_bad=lambda row: row.mean > CONGESTED_PERCENT,
        missing="these nodes have no interfaces that count it (InfiniBand, Slingshot)",
    )
    yield from _judged(rows, "network_tx_bytes", "sent", missing="bytes of runs are not counted on these nodes")
    yield from _judged(rows, "network_rx_bytes", "received", missing="bytes of runs are not counted on these nodes")
    yield from _judged(rows, "peer_tx_bytes", "sent to")
    yield from _judged(rows, "peer_rx_bytes", "received from")
    yield from _judged(of_nodes, "network_error_rate", "packets lost", is_bad=_above("network_error_rate"))


def _storage(rows: tuple[MetricRow, ...], of_nodes: tuple[MetricRow, ...]) -> Iterable[Finding]:
    yield from _judged(rows, "io_read_bytes", "read", missing="bytes of runs are not counted on these nodes")
    yield from _judged(rows, "io_write_bytes", "written", missing="bytes of runs are not counted on these nodes")
    yield from _judged(
        rows,
        "io_latency_p99",
        "p99 latency",
        is_bad=_above("io_latency_p99"),
        missing="block requests are timed only where nodes may load BPF programs, and there were some",
    )
    yield from _judged(rows, "block_latency", "mean latency", is_bad=_above("io_latency_p99"))
    yield from _judged(rows, "block_requests", "requests")
    yield from _judged(rows, "io_pressure", "waiting for storage", is_bad=lambda row: row.mean > 50)
    yield from _judged(of_nodes, "mount_used", "file system full", is_bad=lambda row: row.now > FULL_PERCENT)
    yield from _judged(of_nodes, "disk_busy", "disk busy", is_bad=lambda row: row.mean > FULL_PERCENT)


async def _guaranteed(context: Context) -> list[Finding]:
    """What the storage system promises, where the site asks it."""
    source = context.services.storage_qos
    if source is None:
        return [_unknown("guaranteed rates", "no storage system is asked (telemetry.storage_endpoint)")]
    try:
        rates = await source.rates()
    except QosUnavailable as error:
        return [_unknown("guaranteed rates", str(error))]
    found = []
    for rate in rates:
        promised = (("guaranteed reads", rate.read_least), ("guaranteed writes", rate.write_least))
        limited = (("reads at most", rate.read_most), ("writes at most", rate.write_most))
        known = [(name, value) for name, value in (*promised, *limited) if value is not None]
        if not known:
            found.append(Finding(name="guaranteed rates", health=Health.OK, text="none", device=rate.place))
        for name, value in known:
            unit = Unit.BYTES_PER_S.value
            found.append(Finding(name=name, health=Health.OK, text="", value=value, unit=unit, device=rate.place))
    return found


def _gpus(rows: tuple[MetricRow, ...]) -> Iterable[Finding]:
    is_idle = _LIMITS["gpu_utilization"]
    yield from _judged(
        rows, "gpu_utilization", "use", is_bad=lambda row: row.mean < is_idle, missing="it has no GPU that is measured"
    )
    yield from _judged(rows, "gpu_nvlink_bytes", "NVLink")
    yield from _judged(rows, "gpu_ecc_errors", "memory errors", is_bad=lambda row: row.now > 0)
    yield from _judged(rows, "gpu_throttled", "slowed down", is_bad=lambda row: row.mean > 0)


def _above(metric: str) -> Callable[[MetricRow], bool]:
    """Over the whole period: what lasted a moment was an alert then."""
    limit = _LIMITS[metric]
    return lambda row: row.mean > limit


def _judged(
    rows: Iterable[MetricRow],
    metric: str,
    name: str,
    *,
    is_bad: Callable[[MetricRow], bool] = lambda row: False,
    missing: str = "",
) -> Iterable[Finding]:
    found = [row for row in rows if row.metric == metric]
    if not found and missing:
        yield _unknown(name, missing)
    for row in found:
        yield Finding(
            name=name,
            health=Health.WARNING if is_bad(row) else Health.OK,
            text="",
            value=row.mean,
            unit=row.unit,
            node=row.node,
            device=row.device,
        )


def _unknown(name: str, why: str) -> Finding:
    return Finding(name=name, health=Health.UNKNOWN, text=why)
