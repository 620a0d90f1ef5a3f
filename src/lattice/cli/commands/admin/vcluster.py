"""`lattice admin vcluster`: virtual clusters and their limits."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.fields import (
    DURATION,
    INTEGER,
    LIFETIME,
    LIST_OF_NAMES,
    NODE_SET,
    TEXT,
    Field,
    add_fields,
    chosen_name,
    field_value,
    given_fields,
)
from lattice.cli.output import Column, show_list, show_one, structured
from lattice.cli.recent import remember
from lattice.cli.times import clock_text, stamp_text
from lattice_sdk.models.health import Loan
from lattice_sdk.models.records import Vcluster

FIELDS = (
    Field("scheduler", TEXT, "hpc-backfill, ml-training, service-bin-pack, interactive-fifo or sensitive-reservation"),
    Field("tenants", LIST_OF_NAMES, "tenants that may use it, comma-separated (default: all)"),
    Field("nodes", NODE_SET, "nodes that belong to it, such as n1,n[3-5] (default: all)"),
    Field("node_sharing", TEXT, "exclusive or shared"),
    Field("fencing", TEXT, "normal or strict"),
    Field("default_walltime", LIFETIME, "walltime of allocations that request none (default: 1h)"),
    Field("max_walltime", DURATION, "maximum walltime"),
    Field("max_nodes", INTEGER, "maximum nodes per allocation"),
    Field("default_uenv", TEXT, "images of work that names none, as for submit --uenv; empty = none"),
    Field("confinement", TEXT, "normal, or strict: only nodes that enforce every limit"),
    Field("idle_end", DURATION, "cancel sessions after this long without use, unless they say otherwise"),
    Field("preemption", TEXT, "whether higher classes take its running work: allowed, borrowed_only or never"),
    Field("lends", TEXT, "never, or idle: lend nodes that its own work does not use"),
    Field("lend_to", LIST_OF_NAMES, "vClusters that it lends to, comma-separated (default: all)"),
    Field("max_lent", INTEGER, "nodes that it lends at most"),
    Field("lend_after", DURATION, "lend a node when it was free for this long"),
    Field("max_borrowed", INTEGER, "nodes that it borrows at most"),
    Field("borrow_priority", INTEGER, "of vClusters that borrow, higher ones come first (default: 0)"),
    Field("max_borrow_duration", DURATION, "borrow only for work with a walltime up to this"),
    Field(
        "return_grace",
        LIFETIME,
        "time between the warning and the end of work on a node that it wants back (default: 1m)",
    ),
    Field("read_mb_s", INTEGER, "MB per second that each allocation may read from the disks of a node"),
    Field("write_mb_s", INTEGER, "the same for writing"),
    Field("backfill_depth", INTEGER, "number of top-ranked allocations that get a reservation (default: 50)"),
)
SWITCHES = ("require_signed", "borrows", "up")
BY_NAME = {field.name: field for field in FIELDS}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The name, and each field as it was typed; None = not given."""

    names: tuple[str, ...] = ()
    name: str = ""
    pairs: tuple[str, ...] = ()
    scheduler: str | None = None
    tenants: str | None = None
    nodes: str | None = None
    node_sharing: str | None = None
    fencing: str | None = None
    default_walltime: str | None = None
    max_walltime: str | None = None
    max_nodes: str | None = None
    default_uenv: str | None = None
    confinement: str | None = None
    backfill_depth: str | None = None
    require_signed: bool | None = None
    idle_end: str | None = None
    preemption: str | None = None
    lends: str | None = None
    lend_to: str | None = None
    max_lent: str | None = None
    lend_after: str | None = None
    max_borrowed: str | None = None
    borrow_priority: str | None = None
    max_borrow_duration: str | None = None
    return_grace: str | None = None
    read_mb_s: str | None = None
    write_mb_s: str | None = None
    borrows: bool | None = None
    up: bool | None = None


def weights_text(vcluster: Vcluster) -> str:
    return ", ".join(f"{name}={weight:g}" for name, weight in vcluster.weights.items())


def lends_text(vcluster: Vcluster) -> str:
    lending = vcluster.lending
    if lending.lends == "never":
        return "never"
    most = f"{lending.max_lent} of " if lending.max_lent else ""
    after = f", free for {clock_text(lending.lend_after_s)}" if lending.lend_after_s else ""
    return f"{most}{lending.base} nodes to {','.join(lending.lend_to) or 'all'}{after}; back after {lending.return_grace_s} s"


def borrows_text(vcluster: Vcluster) -> str:
    lending = vcluster.lending
    if not lending.borrows:
        return "no"
    longest = f" for up to {clock_text(lending.max_borrow_duration_s)}" if lending.max_borrow_duration_s else ""
    return f"up to {lending.max_borrowed or 'any number of'} nodes{longest}, priority {lending.borrow_priority}"


def loans_text(loans: list[Loan], word: str) -> str:
    """`n1 to ml since 12:00, ...`"""
    return ", ".join(
        f"{loan.node}{f' {word} {loan.vcluster}' if loan.vcluster else ''} since {stamp_text(loan.since)}"
        for loan in loans
    )


COLUMNS: tuple[Column[Vcluster], ...] = (
    Column("VCLUSTER", lambda v: v.name),
    Column("UP", lambda v: "yes" if v.up else "no"),
    Column("SCHEDULER", lambda v: v.scheduler),
    Column("SHARING", lambda v: v.node_sharing),
    Column("DEFAULT_WALLTIME", lambda v: clock_text(v.default_walltime_s or None)),
    Column("MAX_WALLTIME", lambda v: clock_text(v.max_walltime_s or None)),
    Column("MAX_NODES", lambda v: str(v.max_nodes or "-")),
    Column("PENDING", lambda v: str(v.pending)),
    Column("RUNNING", lambda v: str(v.running)),
    Column("TENANTS", lambda v: ",".join(v.tenants) or "all", is_wide=True),
    Column("NODES", lambda v: ",".join(v.nodes) or "all", is_wide=True),
    Column("FENCING", lambda v: v.fencing, is_wide=True),
    Column("PROFILE", lambda v: v.profile, is_wide=True),
    Column("WEIGHTS", weights_text, is_wide=True),
    Column("BACKFILL_DEPTH", lambda v: str(v.backfill_depth), is_wide=True),
    Column("DEFAULT_UENV", lambda v: v.default_uenv, is_wide=True),
    Column("SIGNED", lambda v: "required" if v.require_signed else "", is_wide=True),
    Column("CONFINEMENT", lambda v: v.confinement, is_wide=True),
    Column("READ_MB_S", lambda v: str(v.read_mb_s or "-"), is_wide=True),
    Column("WRITE_MB_S", lambda v: str(v.write_mb_s or "-"), is_wide=True),
    Column("PREEMPTION", lambda v: v.preemption, is_wide=True),
    Column("LENDS", lends_text, is_wide=True),
    Column("LENT", lambda v: loans_text(v.lending.lent, "to"), is_wide=True),
    Column("BORROWS", borrows_text, is_wide=True),
    Column("BORROWED", lambda v: loans_text(v.lending.borrowed, "of"), is_wide=True),
    Column("CREATED", lambda v: stamp_text(v.created_at), is_wide=True),
)


def fill(parser: argparse.ArgumentParser) -> None:
    add_fields(parser, "vCluster", FIELDS)
    parser.add_argument("--require-signed", action="store_true", help="refuse images without a signature of the site")
    parser.add_argument(
        "--allow-unsigned", dest="require_signed", action="store_false", help="accept images without a signature"
    )
    parser.add_argument("--borrows", action="store_true", help="run work on idle nodes of vClusters that lend them")
    parser.add_argument("--no-borrows", dest="borrows", action="store_false", help="use its own nodes alone")
    parser.add_argument("--up", action="store_true", help="accept and start work")
    parser.add_argument("--down", dest="up", action="store_false", help="start no work")


def fill_update(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument(
        "--set",
        action="append",
        dest="pairs",
        metavar="FIELD=VALUE",
        help="set a field by name, e.g. max_nodes=8 or up=false; may be repeated",
    )


def fill_name(parser: argparse.ArgumentParser) -> None:
    add_fields(parser, "vCluster", ())


def _given(options: Options, context: Context) -> dict[str, object]:
    fields = given_fields(options, FIELDS)
    for name in SWITCHES:
        if (value := getattr(options, name)) is not None:
            fields[name] = value
    if context.flags.tenant and "tenants" not in fields:
        fields["tenants"] = context.flags.tenant.split(",")
    for pair in options.pairs:
        fields.update([_pair(pair)])
    return fields


def _pair(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if name in SWITCHES and value in {"true", "false"}:
        return name, value == "true"
    if not separator or name not in BY_NAME:
        known = ", ".join([*BY_NAME, *(f"{each}=true|false" for each in SWITCHES)])
        raise UsageError(f'"{text}" is not FIELD=VALUE of a vCluster', hint=f"fields: {known}")
    return name, field_value(BY_NAME[name], value)


def run_create(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "vCluster")
    vcluster = context.client.create_vcluster({"name": name, **_given(options, context)})
    if not structured(context, vcluster):
        context.say(f"Created vCluster {vcluster.name}")
    return OK


def run_update(options: Options, context: Context) -> int:
    pairs = tuple(text for text in options.names if "=" in text)
    names = tuple(text for text in options.names if "=" not in text)
    name = chosen_name(names, options.name, "vCluster")
    changes = {**_given(options, context), **dict(_pair(pair) for pair in pairs)}
    if not changes:
        raise UsageError("nothing to change", hint="see --help for the fields")
    vcluster = context.client.update_vcluster(name, changes)
    if not structured(context, vcluster):
        context.say(f"Updated vCluster {vcluster.name}")
    return OK


def run_list(_options: Options, context: Context) -> int:
    found = context.client.list_vclusters()
    remember(context, vclusters=(vcluster.name for vcluster in found))
    show_list(context, found, COLUMNS, name=lambda vcluster: vcluster.name)
    return OK


def run_show(options: Options, context: Context) -> int:
    vcluster = context.client.get_vcluster(chosen_name(options.names, options.name, "vCluster"))
    pairs = [(column.head.lower().replace("_", " "), column.text(vcluster)) for column in COLUMNS]
    show_one(context, vcluster, pairs)
    return OK


CREATE = Command(
    options=Options,
    fill=fill,
    run=run_create,
    examples=("lattice admin vcluster create --name=gpu --nodes=n1,n2 --max-walltime=24h",),
)
UPDATE = Command(
    options=Options,
    fill=fill_update,
    run=run_update,
    examples=(
        "lattice admin vcluster update gpu --node-sharing=shared",
        "lattice admin vcluster set-config --name=gpu max_nodes=8",
    ),
)
LIST = Command(lists=True, options=Options, run=run_list, examples=("lattice admin vcluster list -o wide",))
SHOW = Command(options=Options, fill=fill_name, run=run_show, examples=("lattice admin vcluster show gpu",))
