"""`lattice admin upgrade plan|start|pause|resume|rollback`: the rolling upgrade of agents or servers."""

import argparse
from dataclasses import dataclass
from typing import Any

from lattice.cli.command import Command
from lattice.cli.commands.admin.upgrade import show_upgrade
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.node_sets import confirm
from lattice.cli.output import show_one
from lattice.cli.times import parse_duration_s, span_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.models.upgrades import UpgradePlan


@dataclass(frozen=True, kw_only=True)
class Options:
    to: str = ""
    agents: bool = False
    servers: bool = False
    canary: int | None = None
    batch: str = ""
    observe: str = "15m"
    within: str = ""
    urgent: bool = False
    yes: bool = False


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RollBackOptions:
    to: str = ""
    agents: bool = False
    servers: bool = False
    reason: str = ""


_URGENT = "writes a checkpoint where it can, then is stopped and requeued"


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--to", metavar="VERSION", required=True, help="release that they are to run: 0.3.0")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--agents", action="store_true", help="upgrade the agents (the default)")
    which.add_argument("--servers", action="store_true", help="upgrade the servers, one at a time, the leader last")
    add("--canary", metavar="N", type=int, help="nodes that go first (default: 1, 2 or 5 by size of the cluster)")
    add("--batch", metavar="SIZE", help="nodes per batch, as a number or a share: 25, 5%% (default: 5, 25 or 50)")
    add("--observe", metavar="TIME", default="15m", help="time to watch each batch before the next (default: 15m)")
    add("--within", metavar="RESERVATION", help="start batches only in the window of this reservation")
    add(
        "--urgent",
        action="store_true",
        help="stop and requeue what runs on the nodes, after a checkpoint where it can write one",
    )


def fill_start(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def fill_turn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="reason, shown by status and in the audit log")


def fill_roll_back(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="VERSION", help="refuse unless the upgrade began at this release")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--agents", action="store_true", help="refuse unless it is an upgrade of the agents")
    which.add_argument("--servers", action="store_true", help="refuse unless it is an upgrade of the servers")
    fill_turn(parser)


def run_plan(options: Options, context: Context) -> int:
    plan = context.client.plan_upgrade(options.to, **_wanted(options))
    show_one(context, plan, _pairs(plan))
    return OK


def run_start(options: Options, context: Context) -> int:
    wanted = _wanted(options)
    if options.urgent and not options.yes:
        confirm(
            f"Upgrade to {options.to} immediately? Work that runs on the nodes is stopped and requeued, after a checkpoint where it can write one.",
            context,
        )
    show_upgrade(context, context.client.start_upgrade(options.to, **wanted))
    return OK


def run_pause(options: TurnOptions, context: Context) -> int:
    show_upgrade(context, context.client.pause_upgrade(options.reason))
    return OK


def run_resume(options: TurnOptions, context: Context) -> int:
    show_upgrade(context, context.client.resume_upgrade(options.reason))
    return OK


def run_rollback(options: RollBackOptions, context: Context) -> int:
    kind = _kind(options) if options.agents or options.servers else ""
    show_upgrade(context, context.client.roll_back_upgrade(options.reason, to=options.to, kind=kind))
    return OK


def _kind(options: Options | RollBackOptions) -> str:
    return "servers" if options.servers else "agents"


def _wanted(options: Options) -> dict[str, Any]:
    if options.servers and (options.urgent or options.canary is not None or options.batch):
        raise UsageError(
            "--urgent, --canary and --batch are for agents: servers are upgraded one at a time, and nothing runs on them",
            hint=f"lattice admin upgrade start --to {options.to} --servers",
        )
    if options.canary is not None and options.canary < 0:
        raise UsageError(f"--canary {options.canary} is negative", hint="--canary 2")
    return {
        "canary": options.canary,
        "batch": options.batch,
        "observe_s": round(parse_duration_s(options.observe)),
        "within": options.within,
        "urgent": options.urgent,
        "kind": _kind(options),
    }


def _pairs(plan: UpgradePlan) -> list[tuple[str, str]]:
    nodes = sum(len(each.nodes) for each in plan.batches)
    reasons: dict[str, list[str]] = {}
    for each in plan.left_out:
        reasons.setdefault(each.reason, []).append(each.node)
    of_servers = plan.kind == "servers"
    order = [(f"Batch {each.batch}" if each.batch else "Canaries", fold(each.nodes)) for each in plan.batches]
    if of_servers:
        order = [("Order", ", ".join(name for each in plan.batches for name in each.nodes))]
    what = f"{nodes} servers, one at a time" if of_servers else f"{nodes} nodes in {len(plan.batches)} batches"
    pairs = [
        ("Upgrade", f"to {plan.target}, {what}"),
        *order,
        ("Observed for", span_text(plan.observe_s)),
        ("Within", plan.within),
        (
            "Work",
            "keeps running" if of_servers else _URGENT if plan.urgent else "ends by itself before its node is upgraded",
        ),
        *(("Left out", f"{fold(names)}: {reason}") for reason, names in reasons.items()),
    ]
    return [(name, text) for name, text in pairs if text]


PLAN = Command(
    options=Options,
    run=run_plan,
    fill=fill,
    examples=("lattice admin upgrade plan --to 0.3.0", "lattice admin upgrade plan --to 0.3.0 --canary 2 --batch 5%"),
)
START = Command(
    options=Options,
    run=run_start,
    fill=fill_start,
    examples=(
        "lattice admin upgrade start --to 0.3.0",
        "lattice admin upgrade start --to 0.3.0 --servers",
        "lattice admin upgrade start --to 0.3.0 --batch 5% --observe 30m --within maintenance",
    ),
)
PAUSE = Command(
    options=TurnOptions,
    run=run_pause,
    fill=fill_turn,
    examples=("lattice admin upgrade pause --reason 'storage is slow'",),
)
RESUME = Command(options=TurnOptions, run=run_resume, fill=fill_turn, examples=("lattice admin upgrade resume",))
ROLLBACK = Command(
    options=RollBackOptions,
    run=run_rollback,
    fill=fill_roll_back,
    examples=("lattice admin upgrade rollback --reason 'GPU work hangs'",),
)
