"""`lattice report`: finished work, summarized by user, project or tenant."""

import argparse
import csv
import io
from dataclasses import dataclass

import msgspec

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, structured, table
from lattice.cli.times import clock_text, parse_moment
from lattice.cli.views.allocations import percent_text
from lattice_sdk.models.reports import ReportRow, UsageReport

AXES = ("user", "project", "tenant")


@dataclass(frozen=True, kw_only=True)
class Options:
    by: str = "user"
    since: str = ""
    until: str = ""
    user: str = ""
    project: str = ""
    tag: tuple[str, ...] = ()
    csv: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--by", choices=AXES, metavar="WHAT", help="one row per user, project or tenant (default: user)")
    add("--since", metavar="TIME", help="finished at or after: 2026-03-01, RFC 3339, 16:30 or 7d (default: 30d)")
    add("--until", metavar="TIME", help="finished before (default: now)")
    add("--user", metavar="NAME", help="include only work of this user")
    add("--project", metavar="NAME", help="include only work of this project")
    add("--tag", action="append", metavar="KEY=VALUE", help="include only work with this tag; may be repeated")
    add("--csv", action="store_true", help="print comma-separated values with a header row")


def run(options: Options, context: Context) -> int:
    now = context.clock.now()
    report = context.client.usage_report(
        options.by,
        since=parse_moment(options.since, now, past=True) if options.since else "",
        until=parse_moment(options.until, now, past=True) if options.until else "",
        tenant=context.flags.tenant or "",
        vcluster=context.flags.vcluster or "",
        user=options.user,
        project=options.project,
        tags=options.tag,
    )
    if options.csv:
        context.streams.write(_csv(report))
    elif not structured(context, report):
        wide = context.output == "wide"
        context.note(f"finished from {report.since} to {report.until}")
        shown = [*report.rows, report.total] if len(report.rows) > 1 else report.rows
        context.streams.write(table(shown, _columns(report.by), wide=wide, coloured=False))
    return OK


def _columns(by: str) -> tuple[Column[ReportRow], ...]:
    return (
        Column(by.upper(), lambda row: row.name),
        Column("TENANT", lambda row: row.tenant, is_wide=by == "tenant"),
        Column("ALLOCATIONS", lambda row: str(row.allocations)),
        Column("COMPLETED", lambda row: str(row.completed), is_wide=True),
        Column("FAILED", lambda row: str(row.failed)),
        Column("CANCELLED", lambda row: str(row.cancelled), is_wide=True),
        Column("NODE_HOURS", lambda row: f"{row.node_hours:.2f}"),
        Column("GPU_HOURS", lambda row: f"{row.gpu_hours:.2f}"),
        Column("CPU_HOURS", lambda row: f"{row.cpu_hours:.2f}", is_wide=True),
        Column("WAIT_MEAN", lambda row: clock_text(row.wait_mean_s)),
        Column("WAIT_P50", lambda row: clock_text(row.wait_p50_s)),
        Column("WAIT_P95", lambda row: clock_text(row.wait_p95_s)),
        Column("CPU_EFF", lambda row: percent_text(row.cpu_efficiency)),
        Column("MEM_EFF", lambda row: percent_text(row.memory_efficiency)),
    )


def _csv(report: UsageReport) -> str:
    """One line per row, without a total: spreadsheets compute their own."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(ReportRow.__struct_fields__)
    writer.writerows(msgspec.structs.astuple(row) for row in report.rows)
    return lines.getvalue()


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    fill=fill,
    run=run,
    examples=(
        "lattice report",
        "lattice report --by=project --since=2026-03-01 --until=2026-04-01",
        "lattice report --by=tenant --since=7d -o json",
        "lattice report --by=user --tenant=physics --csv",
    ),
)
