"""`lattice admin tenant`: tenants and their quotas."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.input.fields import FLOAT, INTEGER, LIST_OF_NAMES, TEXT, Field, add_fields, chosen_name, given_fields
from lattice.cli.output import Column, show_list, show_one, structured
from lattice.cli.times import stamp_text
from lattice_sdk.models.records import Tenant

FIELDS = (
    Field("max_nodes", INTEGER, "maximum nodes in use"),
    Field("max_concurrent_allocations", INTEGER, "maximum running allocations"),
    Field("max_class", INTEGER, "highest preemption class (default: 10)"),
    Field("on_quota", TEXT, "work that exceeds a quota: reject or queue"),
    Field("max_running_per_user", INTEGER, "maximum running allocations per user"),
    Field("max_pending_per_user", INTEGER, "maximum pending allocations per user"),
    Field("gpu_hours_budget", FLOAT, "GPU hours per billing period"),
    Field("node_hours_budget", FLOAT, "node hours per billing period"),
    Field("fair_share_target", FLOAT, "share of the cluster, 0 to 1"),
    Field("burst_allowance", FLOAT, "burst factor over its share, e.g. 1.5"),
    Field("members", LIST_OF_NAMES, "users who belong to it in addition to those whose token says so, comma-separated"),
    Field("admins", LIST_OF_NAMES, "users who administer it, comma-separated"),
    Field("visibility", TEXT, "whose work its members see: own or tenant (own)"),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The name, and each field as it was typed; None = not given."""

    names: tuple[str, ...] = ()
    name: str = ""
    max_nodes: str | None = None
    max_concurrent_allocations: str | None = None
    max_class: str | None = None
    on_quota: str | None = None
    max_running_per_user: str | None = None
    max_pending_per_user: str | None = None
    gpu_hours_budget: str | None = None
    node_hours_budget: str | None = None
    fair_share_target: str | None = None
    burst_allowance: str | None = None
    members: str | None = None
    admins: str | None = None
    visibility: str | None = None
    quotas: bool = False


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


COLUMNS: tuple[Column[Tenant], ...] = (
    Column("TENANT", lambda t: t.name),
    Column("MAX_NODES", lambda t: _limit(t.max_nodes)),
    Column("NODES", lambda t: str(t.in_use.nodes)),
    Column("MAX_ALLOCATIONS", lambda t: _limit(t.max_concurrent_allocations)),
    Column("ALLOCATIONS", lambda t: str(t.in_use.allocations)),
    Column("MAX_CLASS", lambda t: _limit(t.max_class)),
    Column("ON_QUOTA", lambda t: t.on_quota),
    Column("GPU_HOURS", lambda t: _limit(t.gpu_hours_budget), is_wide=True),
    Column("NODE_HOURS", lambda t: _limit(t.node_hours_budget), is_wide=True),
    Column("SHARE", lambda t: _limit(t.fair_share_target), is_wide=True),
    Column("CREATED", lambda t: stamp_text(t.created_at), is_wide=True),
)


def _written(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value or "")


NO_QUOTAS = ("members", "admins", "visibility")


def _sheet(tenant: Tenant, *, only_quotas: bool) -> list[tuple[str, str]]:
    fields = [field for field in FIELDS if not (only_quotas and field.name in NO_QUOTAS)]
    return [
        ("Tenant", tenant.name),
        *((field.title, _written(getattr(tenant, field.name))) for field in fields),
        ("nodes in use", str(tenant.in_use.nodes)),
        ("allocations running", str(tenant.in_use.allocations)),
        *([] if only_quotas else [("created", stamp_text(tenant.created_at))]),
    ]


def fill(parser: argparse.ArgumentParser) -> None:
    add_fields(parser, "tenant", FIELDS)


def fill_name(parser: argparse.ArgumentParser) -> None:
    add_fields(parser, "tenant", ())


def fill_show(parser: argparse.ArgumentParser) -> None:
    fill_name(parser)
    parser.add_argument("--quotas", action="store_true", help="show only the quotas, and what is in use of them")


def run_create(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "tenant")
    tenant = context.client.create_tenant({"name": name, **given_fields(options, FIELDS)})
    if not structured(context, tenant):
        context.say(f"Created tenant {tenant.name}")
    return OK


def run_update(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "tenant")
    changes = given_fields(options, FIELDS, is_change=True)
    tenant = context.client.update_tenant(name, changes)
    if not structured(context, tenant):
        context.say(f"Updated tenant {tenant.name}")
    return OK


def run_list(_options: Options, context: Context) -> int:
    show_list(context, context.client.list_tenants(), COLUMNS, name=lambda tenant: tenant.name)
    return OK


def run_show(options: Options, context: Context) -> int:
    tenant = context.client.get_tenant(chosen_name(options.names, options.name, "tenant"))
    show_one(context, tenant, _sheet(tenant, only_quotas=options.quotas))
    return OK


CREATE = Command(
    options=Options,
    fill=fill,
    run=run_create,
    examples=("lattice admin tenant create --name=physics --max-nodes=200",),
)
UPDATE = Command(
    options=Options,
    fill=fill,
    run=run_update,
    examples=(
        "lattice admin tenant update physics --max-nodes 250 --gpu-hours-budget 150000",
        "lattice admin tenant set-quota --name=physics --max-nodes=none",
    ),
)
LIST = Command(lists=True, options=Options, run=run_list, examples=("lattice admin tenant list -o wide",))
SHOW = Command(
    options=Options,
    fill=fill_show,
    run=run_show,
    examples=("lattice admin tenant show physics", "lattice admin tenant show physics --quotas"),
)
