"""`lattice usage`: node hours and GPU hours of a user or a tenant."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, sheet, structured, table
from lattice_sdk.models.records import Usage, UserUsage

COLUMNS: tuple[Column[UserUsage], ...] = (
    Column("USER", lambda u: u.user),
    Column("TENANT", lambda u: u.tenant),
    Column("NODE_HOURS", lambda u: f"{u.node_hours:.2f}"),
    Column("GPU_HOURS", lambda u: f"{u.gpu_hours:.2f}"),
    Column("RUNNING", lambda u: str(u.running)),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    user: str = ""
    project: str = ""
    days: int | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", help="show the usage of this user instead of yours")
    parser.add_argument("--project", metavar="NAME", help="show only usage in this project")
    parser.add_argument("--days", type=int, metavar="N", help="show the last N days (default: the budget period of 90)")


def run(options: Options, context: Context) -> int:
    tenant = context.flags.tenant
    if tenant:
        usage = context.client.tenant_usage(tenant, options.days, user=options.user, project=options.project)
    else:
        usage = context.client.user_usage(options.user, options.days, project=options.project)
    if not structured(context, usage):
        context.streams.write(sheet(_pairs(usage)))
        if usage.users:
            context.streams.write("\n" + table(usage.users, COLUMNS, wide=False, coloured=False))
    return OK


def _pairs(usage: Usage) -> list[tuple[str, str]]:
    pairs = [
        ("Tenant", usage.tenant or ""),
        ("User", usage.user or ""),
        ("Project", usage.project or ""),
        ("Since", usage.since or ""),
        ("Node hours", _of_budget(usage.node_hours, usage.node_hours_budget, usage.node_hours_fraction)),
        ("GPU hours", _of_budget(usage.gpu_hours, usage.gpu_hours_budget, usage.gpu_hours_fraction)),
        ("Running", str(usage.running)),
    ]
    return [(name, text) for name, text in pairs if text]


def _of_budget(used: float, budget: float | None, fraction: float | None) -> str:
    return f"{used:.2f}" if budget is None else f"{used:.2f} of {budget:g} ({fraction or 0:.0%})"


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice usage", "lattice usage --tenant physics --days=30", "lattice usage --user=alice"),
)
