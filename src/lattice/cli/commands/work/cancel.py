"""`lattice cancel`: cancel allocations by id, or all of the user's own that match."""

import argparse
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import is_dag, order_allocations, order_each
from lattice.cli.errors import OK, UsageError, describe, exit_code
from lattice.cli.output import structured
from lattice_sdk.errors import ApiError, Invalid
from lattice_sdk.models.dags import Dag
from lattice_sdk.models.records import Allocation, CancelOutcome
from lattice_sdk.session import carried_error


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    project: str = ""
    tag: tuple[str, ...] = ()
    name: str = ""
    all_mine: bool = False
    signal: str = ""
    to: str = "all"


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="allocation, DAG, task group, or tasks of a group: a17_3, a17_[3-7,9]")
    add(
        "--state",
        action="append",
        metavar="STATE",
        help="with --all-mine: only allocations in this state; may be repeated",
    )
    add("--project", metavar="NAME", help="with --all-mine: only allocations of this project")
    add(
        "--tag",
        action="append",
        metavar="KEY=VALUE",
        help="with --all-mine: only allocations with this tag; may be repeated",
    )
    add("--name", metavar="NAME", help="with --all-mine: only allocations with this name")
    add("--all-mine", action="store_true", help="cancel all your unfinished allocations")
    add("--signal", metavar="SIGNAL", help="send this signal (e.g. USR1) instead of cancelling")
    add(
        "--to",
        choices=("all", "steps", "entrypoint"),
        metavar="WHOM",
        help="receiver of the signal: all, steps or entrypoint (default: all)",
    )


def run(options: Options, context: Context) -> int:
    if options.signal and options.all_mine:
        raise UsageError("--signal needs ids", hint="use `lattice cancel --signal=USR1 a17`")
    if options.all_mine:
        return _cancel_mine(options, context)
    for flag in ("state", "project", "tag", "name"):
        if getattr(options, flag):
            raise UsageError(f"--{flag} needs --all-mine", hint="use `lattice cancel --state=pending --all-mine`")
    if not options.ids:
        raise UsageError("nothing to cancel", hint="give ids, or --all-mine")
    if options.signal:
        send = functools.partial(context.client.signal, signal=options.signal, to=options.to)
        return order_allocations(options.ids, send, lambda _: f"signalled with {options.signal}", context)
    if any(is_dag(name) for name in options.ids):
        return _cancel_some_dags(options.ids, context)
    return order_allocations(options.ids, context.client.cancel, lambda a: _told(a.state), context)


def _cancel_some_dags(ids: Sequence[str], context: Context) -> int:
    def order(name: str) -> Allocation | Dag:
        return context.client.cancel_dag(name) if is_dag(name) else context.client.cancel(name)

    return order_each(ids, order, lambda record: f"{record.id} {_told(record.state)}", context)


def _told(state: str) -> str:
    return "cancelled" if state == "Cancelled" else f"is being cancelled ({state})"


def _cancel_mine(options: Options, context: Context) -> int:
    if options.ids:
        raise UsageError("give ids or --all-mine, not both")
    states = [part for text in options.state for part in text.split(",") if part]
    outcomes = context.client.cancel_many(
        states=states,
        all_mine=True,
        project=options.project,
        tags=options.tag,
        name=options.name,
        vcluster=context.flags.vcluster or "",
    )
    if not structured(context, outcomes):
        for outcome in outcomes:
            if outcome.ok:
                context.say(f"{outcome.id} cancelled")
        if not outcomes:
            context.say("nothing to cancel")
    errors = [_error(outcome) for outcome in outcomes if not outcome.ok]
    for error in errors:
        context.streams.complain(describe(error))
    return max((exit_code(error) for error in errors), default=OK)


def _error(outcome: CancelOutcome) -> ApiError:
    if isinstance(outcome.error, dict):
        return carried_error(outcome.error)
    return Invalid(f"{outcome.id}: {outcome.error or 'not cancelled'}")


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    fill=fill,
    run=run,
    examples=(
        "lattice cancel a17 a18",
        "lattice cancel 'a17_[3-7,9]'",
        "lattice cancel --state=pending --all-mine",
        "lattice cancel --all-mine --tag=sweep=3",
        "lattice cancel --signal=USR1 a17",
    ),
)
