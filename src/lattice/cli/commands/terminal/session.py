"""`lattice session`: nodes to work on by hand: wait for them, open a terminal, end with it; list, show and end sessions."""

import argparse
from contextlib import suppress
from dataclasses import dataclass

from lattice.cli.command import Command, Values
from lattice.cli.commands.terminal import attach
from lattice.cli.commands.work import submit
from lattice.cli.context import Context, Process
from lattice.cli.each import order_each
from lattice.cli.ending import ending_code, ending_text
from lattice.cli.errors import INTERRUPTED, OK, UsageError
from lattice.cli.input.submission import SubmitOptions, build_submission
from lattice.cli.launching import terminal_shape
from lattice.cli.output import Column, show_list, show_one
from lattice.cli.progress import RUNNING, WAITING, StatusLine, waiting_text
from lattice.cli.recent import remember
from lattice.cli.terminal.attached import AttachedTerminal
from lattice.cli.times import clock_text, local_with_distance
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.records import Allocation
from lattice_sdk.models.sessions import Session

NAME = "session"
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 1.0
STARTING = "Starting"


def fill(parser: argparse.ArgumentParser) -> None:
    submit.fill(parser)
    parser.usage = "lattice session [start] --walltime T [flags]"
    parser.description = (
        "Requests nodes and opens a terminal on the first of them. The session ends with its shell, and with that "
        "shell's exit code. Enter ~ . detaches; Ctrl-C before it starts cancels it."
    )


def complete(values: Values, _parser: argparse.ArgumentParser, _process: Process) -> Values:
    if values.pop("rest") or values.pop("tail"):
        raise UsageError("a session takes no command", hint="use `lattice run`, or `lattice attach ID -- COMMAND`")
    return {**values, "command": (), "default_name": NAME}


def run(options: SubmitOptions, context: Context) -> int:
    _refuse(options)
    attach.need_terminal(context, hint="use `lattice run -- COMMAND` for work without a terminal")
    with submit.flags_named(options):
        session = context.client.create_session(build_submission(options, context), request_id=options.request_id)
    for text in session.warnings:
        context.warn(text)
    remember(context, allocations=[session.id])
    try:
        allocation = _await_start(session.id, context)
    except KeyboardInterrupt:
        context.renew()
        with suppress(LatticeError):  # it has ended meanwhile
            context.client.end_session(session.id)
        context.streams.complain(f"\nlattice: {session.id} is being cancelled\n")
        return INTERRUPTED
    if allocation.state != RUNNING:
        context.streams.complain(f"lattice: {ending_text(allocation)}\n")
        return ending_code(allocation)
    rows, columns = terminal_shape()
    shell = context.client.open_session_terminal(
        session.id, environment=attach.passed_on(context), rows=rows, columns=columns
    )
    return AttachedTerminal(context, shell, is_new=True).attend()


def _refuse(options: SubmitOptions) -> None:
    given = {
        "--wait": options.wait,
        "--dry-run": options.dry_run,
        "--task-group": options.task_group is not None,
        "--requeue": options.requeue not in (None, "never"),
        "--lifecycle": options.lifecycle != "bounded",
        "--per-node": options.per_node is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            raise UsageError(f"{flag} cannot be used with `lattice session`", hint=f"use `lattice submit {flag}`")


def _await_start(name: str, context: Context) -> Allocation:
    """The allocation when it runs or has ended; until then the terminal says why it waits, and when it will start."""
    pause_s = FIRST_PAUSE_S
    with StatusLine(context) as line:
        while True:
            now = context.client.get_allocation(name)
            if now.state not in (*WAITING, STARTING):
                return now
            line.show(waiting_text(now, context))
            context.clock.pause(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    all: bool = False
    all_users: bool = False


def fill_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--all-users", action="store_true", help="those of all users that you may see")


def fill_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="session, as in a17")


def fill_end(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="sessions, as in a17")


def run_list(options: Options, context: Context) -> int:
    user = "" if options.all_users else context.client.whoami().user
    found = context.client.list_sessions(user=user, all=options.all)
    show_list(context, found, COLUMNS, name=lambda session: session.id)
    return OK


def run_show(options: Options, context: Context) -> int:
    if len(options.ids) != 1:
        raise UsageError("name one session", hint="`lattice session list` names them")
    session = context.client.get_session(options.ids[0])
    show_one(context, session, _pairs(session, context.clock.now()))
    return OK


def run_end(options: Options, context: Context) -> int:
    if not options.ids:
        raise UsageError("name the sessions to end", hint="lattice session end a17")
    return order_each(options.ids, context.client.end_session, lambda session: f"{session.id} is being ended", context)


def _pairs(session: Session, now: float) -> list[tuple[str, str]]:
    terminals = [
        f"{each.id} on {each.node} {each.state}{', the session ends with it' if each.ends_session else ''}"
        for each in session.terminals
    ]
    shown = {
        "Session": session.id,
        "Name": session.name,
        "State": session.state,
        "Reason": session.reason,
        "User": session.user,
        "Tenant": session.tenant,
        "vCluster": session.vcluster,
        "Nodes": ",".join(session.nodes) or str(session.node_count),
        "Walltime": clock_text(session.walltime_s),
        "Ends when idle for": clock_text(session.idle_end_s) if session.idle_end_s else "",
        "Created": local_with_distance(session.created_at, now),
        "Started": local_with_distance(session.started_at, now),
        "Ended": local_with_distance(session.ended_at, now),
        "How it ended": session.ending,
        "Terminals": "\n".join(terminals),
    }
    return [(name, text) for name, text in shown.items() if text]


def _open_terminals(session: Session) -> str:
    return ",".join(str(each.step) for each in session.terminals if each.state != "ended")


COLUMNS: tuple[Column[Session], ...] = (
    Column("SESSION", lambda session: session.id),
    Column("NAME", lambda session: session.name),
    Column("USER", lambda session: session.user, is_wide=True),
    Column("STATE", lambda session: session.state),
    Column("NODES", lambda session: ",".join(session.nodes[:4]) or str(session.node_count)),
    Column("ELAPSED", lambda session: clock_text(session.elapsed_s) if session.started_at else "-"),
    Column("WALLTIME", lambda session: clock_text(session.walltime_s)),
    Column("TERMINALS", _open_terminals),
    Column("REASON", lambda session: session.reason or session.ending, is_sparse=True),
)

START = Command(
    options=SubmitOptions,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=complete,
    takes_tail=True,
    takes_rest=True,
    examples=("lattice session --walltime=2h", "lattice session --nodes=2 --gpus=1 --walltime=8h --name=debug"),
)
LIST = Command(
    lists=True,
    options=Options,
    fill=fill_list,
    run=run_list,
    examples=("lattice session list", "lattice session list --all -o json"),
)
SHOW = Command(options=Options, fill=fill_show, run=run_show, examples=("lattice session show a17",))
END = Command(options=Options, fill=fill_end, run=run_end, examples=("lattice session end a17",))
