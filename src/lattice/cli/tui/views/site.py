"""Usage against budgets, and the parts of administration."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from lattice.cli.context import Clock
from lattice.cli.times import clock_text, readable_detail, rfc3339, stamp_text
from lattice.cli.tui.lines import ACCENT, BAD, DIM, GOOD, STRONG, WARN, Line, Span, line, meter, pairs, title, wrapped
from lattice.cli.tui.views.view import PageView
from lattice.slurm.text.hostlists import fold
from lattice_sdk.client import Client
from lattice_sdk.errors import Forbidden, LatticeError
from lattice_sdk.models.audit import AuditEntry, AuditFilter
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import (
    GAP,
    QuorumStatus,
    Reservation,
    SchedulerStatus,
    Setting,
    Tenant,
    Usage,
    Vcluster,
)
from lattice_sdk.models.reports import ReportRow, UsageReport
from lattice_sdk.models.web.page import Alert, VclusterWeights

Draw = Callable[[int], list[Line]]
Answer = tuple[Usage, list[tuple[Tenant, Usage]], UsageReport | None]

DAYS = 30
SHOWN_USERS = 30
SHOWN_ENTRIES = 200
LABELS = {"node_hours": ("Node hours", "Your node hours"), "gpu_hours": ("GPU hours", "Your GPU hours")}


class UsageView(PageView[Answer]):
    word = "usage"
    every_s = 30.0
    keys = "Esc back"

    def __init__(self, address: str, clock: Clock) -> None:
        super().__init__(address)
        self._clock = clock
        self.found: Answer | None = None

    def heading(self) -> str:
        return f"Usage, {DAYS} days"

    def command(self, who: str) -> str:
        return f"lattice usage --days={DAYS}"

    def read(self, client: Client) -> Answer:
        since = datetime.fromtimestamp(self._clock.now(), UTC) - timedelta(days=DAYS)
        own = client.user_usage("", DAYS)
        tenants = [(tenant, _usage_of(client, tenant.name, own.user or "")) for tenant in client.list_tenants()]
        try:
            report = client.usage_report(by="user", since=rfc3339(since))
        except LatticeError:  # not for everybody
            report = None
        return own, tenants, report

    def take(self, answer: Answer) -> None:
        self.found = answer

    def compose(self, width: int) -> list[Line]:
        if self.found is None:
            return []
        own, tenants, report = self.found
        lines = [line(f"You: {own.node_hours:,.1f} node hours, {own.gpu_hours:,.1f} GPU hours, {own.running} running")]
        for tenant, usage in tenants:
            lines += title(tenant.name)
            for kind in ("node_hours", "gpu_hours"):
                lines.append(_budget(usage, kind))
            if tenant.fair_share_target:
                target = float(tenant.fair_share_target)
                lines.append(meter("Fair share, target", target, f"{target:.0%}", tone=DIM))
            most = max((user.node_hours for user in usage.users), default=0) or 1
            for user in usage.users[:SHOWN_USERS]:
                lines.append(meter(f"  {user.user}", user.node_hours / most, f"{user.node_hours:,.1f} h"))
        if report is not None and report.rows:
            lines += title("Finished work: what was held and not used is waste")
            lines.append(
                (
                    Span(
                        f"{'USER':<14}{'RUNS':>7}{'FAILED':>8}{'NODE H':>10}{'WAIT P50':>10}{'CPU':>7}{'MEM':>7}",
                        STRONG,
                    ),
                )
            )
            lines += [line(_row(row)) for row in (*report.rows, report.total)]
        return lines


def _usage_of(client: Client, tenant: str, user: str) -> Usage:
    """All of a tenant is for those who administer it; others see their own."""
    try:
        return client.tenant_usage(tenant, DAYS)
    except Forbidden:
        return client.tenant_usage(tenant, DAYS, user=user)


def _budget(usage: Usage, kind: str) -> Line:
    used, budget = float(getattr(usage, kind)), getattr(usage, f"{kind}_budget")
    label, own_label = LABELS[kind]
    if usage.user:
        return (Span(f"{own_label:<20}", DIM), Span(f"{used:,.1f} h"))
    if not budget:
        return (Span(f"{label:<20}", DIM), Span(f"{used:,.1f} h, no budget"))
    share = getattr(usage, f"{kind}_fraction") or 0.0
    tone = BAD if share >= 1 else WARN if share >= 0.8 else ACCENT
    return meter(label, share, f"{used:,.1f} of {budget:,.0f} h", tone=tone)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _row(row: ReportRow) -> str:
    return (
        f"{row.name[:13]:<14}{row.allocations:>7}{row.failed:>8}{row.node_hours:>10,.1f}{clock_text(row.wait_p50_s):>10}"
        f"{_percent(row.cpu_efficiency):>7}{_percent(row.memory_efficiency):>7}"
    )


PARTS = ("servers", "alerts", "reservations", "quotas", "weights", "settings", "audit")


class Admin(PageView[Draw]):
    """One part at a time; each has an address of its own."""

    word = "admin"
    every_s = 5.0
    keys = "Tab next part  :drain NODES REASON  :lattice command  Esc back"

    def __init__(self, address: str, part: str, clock: Clock) -> None:
        super().__init__(address)
        self.part = part if part in PARTS else PARTS[0]
        self._clock = clock
        self._body: Draw = lambda _: []

    def heading(self) -> str:
        return "Admin"

    def command(self, who: str) -> str:
        return {
            "servers": "lattice admin raft status",
            "alerts": "lattice admin alerts",
            "reservations": "lattice admin reservation list",
            "quotas": "lattice admin tenant list",
            "weights": "lattice admin vcluster list",
            "settings": "lattice admin config list",
            "audit": "lattice audit query --since=7d",
        }[self.part]

    def beside(self, step: int) -> str:
        return f"admin/{PARTS[(PARTS.index(self.part) + step) % len(PARTS)]}"

    def read(self, client: Client) -> Draw:
        match self.part:
            case "servers":
                return partial(_servers, client.quorum_status(), client.scheduler_status())
            case "alerts":
                return partial(_alerts, client.list_alerts())
            case "reservations":
                return partial(_reservations, client.list_reservations())
            case "quotas":
                return partial(_quotas, client.list_tenants())
            case "weights":
                found = [(each, client.vcluster_weights(each.name)) for each in client.list_vclusters()]
                return partial(_weights, found)
            case "settings":
                return partial(_settings, client.list_settings())
            case _:
                return partial(_audit, _newest(client, datetime.fromtimestamp(self._clock.now(), UTC)))

    def take(self, answer: Draw) -> None:
        self._body = answer

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.what in ("tenant", "vcluster", "reservation", "setting")

    def compose(self, width: int) -> list[Line]:
        tabs = tuple(Span(f" {name} ", ACCENT if name == self.part else DIM) for name in PARTS)
        return [tabs, (), *self._body(width)]


def _servers(quorum: QuorumStatus, scheduler: SchedulerStatus, width: int) -> list[Line]:
    lines: list[Line] = []
    for member in quorum.members:
        tone, said = (GOOD, "healthy") if member.healthy else (BAD, "not healthy")
        leads = " leads" if member.name == quorum.leader else ""
        lines.append(
            (
                *line(f"{member.name + leads:<24}"),
                Span(f"{said:<14}", tone),
                *line(f"applied {member.applied_index or 0:,}  {member.problem or member.warning}"),
            )
        )
    found = [
        ("Last cycle", stamp_text(scheduler.last_cycle_at)),
        ("It took", f"{scheduler.last_cycle_ms or 0:.1f} ms"),
        ("Waiting", f"{scheduler.pending:,}"),
        ("Running", f"{scheduler.running:,}"),
        ("Placements", f"{scheduler.placements:,}"),
        ("Failed cycles", f"{scheduler.failed_cycles:,}"),
        ("Last error", scheduler.last_error or ""),
    ]
    return [*lines, *title("Scheduler"), *pairs(found, width)]


def _alerts(found: list[Alert], width: int) -> list[Line]:
    if not found:
        return [line("Nothing is wrong that the servers know of.", GOOD)]
    lines: list[Line] = []
    for each in found:
        tone = BAD if each.severity == "critical" else WARN
        lines += [(Span(f"{each.severity:<10}", tone), Span(each.name)), *wrapped(f"  {each.text}", width, DIM, "  ")]
    return lines


def _reservations(found: list[Reservation], _: int) -> list[Line]:
    lines = []
    for each in found:
        whom = ", ".join((*(f"tenant {name}" for name in each.tenants), *(f"user {name}" for name in each.users)))
        lines.append(line(f"{each.name:<16} {each.state:<9} {stamp_text(each.start)} to {stamp_text(each.end)}"))
        lines.append(line(f"{'':<16} {fold(each.nodes)} for {whom or 'maintenance'}  {each.reason}", DIM))
    return lines or [line("No reservations. `:admin reservation create ...` makes one.", DIM)]


def _quotas(found: list[Tenant], _: int) -> list[Line]:
    head = f"{'TENANT':<16}{'IN USE':>8}{'NODES':>8}{'AT ONCE':>9}{'NODE H':>10}{'GPU H':>10}{'SHARE':>7}"
    lines: list[Line] = [(Span(head, STRONG),)]
    for each in found:
        lines.append(
            line(
                f"{each.name[:15]:<16}{each.in_use.nodes:>8}{_figure(each.max_nodes):>8}{_figure(each.max_concurrent_allocations):>9}"
                f"{_figure(each.node_hours_budget):>10}{_figure(each.gpu_hours_budget):>10}{_figure(each.fair_share_target):>7}"
            )
        )
    return [*lines, (), line(":admin tenant set-quota NAME --max-nodes=N changes one", DIM)]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}"


def _weights(found: list[tuple[Vcluster, VclusterWeights]], _: int) -> list[Line]:
    lines: list[Line] = []
    for vcluster, profile in found:
        lines += [*title(f"{vcluster.name}, profile {profile.profile or vcluster.scheduler}")]
        most = max(profile.weights.values(), default=0.0) or 1.0
        for name, value in profile.weights.items():
            lines.append(meter(name.replace("_", " "), value / most, f"{value:.2f}"))
    return [*lines[1:], (), line(":admin vcluster set-weights NAME --fair-share=0.5 changes them", DIM)]


def _settings(found: list[Setting], width: int) -> list[Line]:
    lines: list[Line] = []
    for each in found:
        changed = "" if str(each.value) == each.default else f" (default {each.default})"
        lines += [line(f"{each.key} = {each.value}{changed}"), line(f"    {each.help}"[: width * 2], DIM)]
    return lines


def _newest(client: Client, now: datetime) -> list[AuditEntry]:
    """Newest first. The log is read oldest first, so in pieces of time, each longer than the one after it."""
    found: list[AuditEntry] = []
    until, span, first = now + timedelta(minutes=1), timedelta(minutes=10), now - timedelta(days=7)
    while until > first and len(found) < SHOWN_ENTRIES:
        since = max(first, until - span)
        found += reversed(client.query_audit(AuditFilter(since=rfc3339(since), until=rfc3339(until))))
        until, span = since, 6 * span
    return found[:SHOWN_ENTRIES]


def _audit(found: list[AuditEntry], _: int) -> list[Line]:
    lines: list[Line] = []
    for each in found:
        said = f"{each.actor:<10} {each.type:<20} {each.subject:<10} {each.outcome} {readable_detail(each.detail)}"
        lines.append((Span(f"{stamp_text(each.at)}  ", DIM), *line(said)))
    return lines or [line("Nothing in the last 7 days.", DIM)]
