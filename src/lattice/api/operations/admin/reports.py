"""Reports: what ended in a span of time, per user, project or tenant: hours, how long it waited, how well it used what it held.

An allocation counts whole, with its last run, in the span in which it ended; tasks of groups count one by one. Hours of runs that
were followed by another run are in `usage`, which sums all of them by day.
"""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.auth.scope import Scope
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.selection import Selection, archived_records, hot_records
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.work.allocations import TERMINAL, Allocation, AllocationState
from lattice.core.model.work.efficiency import finite, used_percent
from lattice.wire.bounds import Short, TagFilters
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import parse_tag
from lattice.wire.text.times import parse_moment, rfc3339

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_DEFAULT_DAYS = 30

Axis = Literal["user", "project", "tenant"]


class ReportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose usage to report and since when; by default the last 30 days."""

    by: Axis = "user"
    since: Short = ""
    until: Short = ""
    tenant: str = ""
    user: str = ""
    project: str = ""
    vcluster: str = ""
    tag: TagFilters = []


class ReportRow(Struct, frozen=True, kw_only=True):
    """Waits are in seconds, from the earliest possible start to the actual one; efficiency is in percent."""

    name: str
    tenant: str
    allocations: int
    completed: int
    failed: int
    cancelled: int
    node_hours: float
    gpu_hours: float
    cpu_hours: float
    wait_mean_s: float | None
    wait_p50_s: float | None
    wait_p95_s: float | None
    cpu_efficiency: float | None
    memory_efficiency: float | None


class UsageReport(Struct, frozen=True, kw_only=True):
    by: Axis
    since: str | None
    until: str | None
    rows: list[ReportRow]
    total: ReportRow


@dataclass(slots=True)
class _Sum:
    states: Counter[AllocationState] = field(default_factory=Counter)
    node_ms: int = 0
    gpu_ms: int = 0
    cpu_s: float = 0.0
    held_cpu_s: float = 0.0
    used_mb_s: float = 0.0
    held_mb_s: float = 0.0
    waits_s: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, record: Allocation, nodes: Mapping[str, Node]) -> None:
        self.states[record.state] += 1
        if not record.started_at:
            return
        ran_ms = max(0, record.ended_at - record.started_at)
        node_ms, gpu_ms = _amounts(record, nodes, ran_ms)
        self.node_ms += node_ms
        self.gpu_ms += gpu_ms
        self.cpu_s += finite(record.cpu_s)
        self.held_cpu_s += record.held_cpus * ran_ms / 1000
        # Long runs say more about how well memory was chosen than short ones.
        self.used_mb_s += record.peak_memory_mb * ran_ms / 1000
        self.held_mb_s += record.held_memory_mb * ran_ms / 1000
        self.waits_s.append(max(0, record.started_at - max(record.submitted_at, record.eligible_at)) / 1000)

    def row(self, name: str, tenant: str) -> ReportRow:
        waits = sorted(self.waits_s)
        return ReportRow(
            name=name,
            tenant=tenant,
            allocations=self.states.total(),
            completed=self.states[AllocationState.COMPLETED],
            failed=self.states[AllocationState.FAILED],
            cancelled=self.states[AllocationState.CANCELLED],
            node_hours=round(self.node_ms / _HOUR_MS, 4),
            gpu_hours=round(self.gpu_ms / _HOUR_MS, 4),
            cpu_hours=round(self.cpu_s / 3600, 4),
            wait_mean_s=round(sum(waits) / len(waits), 3) if waits else None,
            wait_p50_s=_percentile(waits, 0.5),
            wait_p95_s=_percentile(waits, 0.95),
            cpu_efficiency=used_percent(self.cpu_s, self.held_cpu_s),
            memory_efficiency=used_percent(self.used_mb_s, self.held_mb_s),
        )


async def usage_report(context: Context, request: ReportQuery) -> UsageReport:
    """Report the usage of ended work by user, project or tenant, as far as the caller may see it."""
    wanted = _selection(context, request)
    sums: dict[tuple[str, str], _Sum] = {}
    total = _Sum()
    nodes, seen = context.state.nodes, set[int]()
    async for record in hot_records(context.state, wanted):
        seen.add(record.number)
        _count(record, request.by, sums, total, nodes)
    async for record in archived_records(context, wanted, None):
        if record.number not in seen:
            _count(record, request.by, sums, total, nodes)
    return UsageReport(
        by=request.by,
        since=rfc3339(wanted.since),
        until=rfc3339(wanted.until),
        rows=[sums[key].row(key[1], key[0]) for key in sorted(sums)],
        total=total.row("total", ""),
    )


def _count(record: object, by: Axis, sums: dict[tuple[str, str], _Sum], total: _Sum, nodes: Mapping[str, Node]) -> None:
    if isinstance(record, Allocation):
        name = record.tenant if by == "tenant" else record.user if by == "user" else record.project
        sums.setdefault((record.tenant, name), _Sum()).add(record, nodes)
        total.add(record, nodes)


def _selection(context: Context, request: ReportQuery) -> Selection:
    now_ms = context.services.clock.now_ms()
    until = parse_moment(request.until, "until") if request.until else now_ms + 1
    since = parse_moment(request.since, "since") if request.since else max(1, until - _DEFAULT_DAYS * _DAY_MS)
    if since >= until:
        raise BadField("since", "does not lie before until", current=f"{rfc3339(since)} to {rfc3339(until)}")
    return Selection(
        states=TERMINAL,
        scope=_whose(context, request),
        user=request.user,
        project=request.project,
        vcluster=request.vcluster,
        tags=tuple(parse_tag(text) for text in request.tag),
        tasks=True,
        since=since,
        until=until,
    )


def _whose(context: Context, request: ReportQuery) -> Scope:
    """Whose work is summed: one's own, and that of the tenants that one administers."""
    scope = context.scope(Permission.READ_USAGE, request.tenant)
    if scope.only_user and request.user not in ("", context.user):
        raise ApiError(
            "forbidden",
            "only administrators see reports on others",
            hint="`lattice report` without --user shows your own work",
        )
    return scope


def _amounts(record: Allocation, nodes: Mapping[str, Node], ran_ms: int) -> tuple[int, int]:
    """Node and GPU milliseconds; a share counts by its CPUs, of the node as it is now."""
    node_ms = gpu_ms = 0
    for share in record.shares:
        node = nodes.get(share.node)
        cpus, gpus = (node.hardware.cpus, node.hardware.gpus) if node is not None else (0, 0)
        node_ms += ran_ms if share.whole else ran_ms * share.cpus // max(1, cpus)
        gpu_ms += ran_ms * (gpus if share.whole else share.gpus)
    return node_ms, gpu_ms


def _percentile(ordered: list[float], part: float) -> float | None:
    """Between the two values nearest to that part of the list."""
    if not ordered:
        return None
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (place - low), 3)
