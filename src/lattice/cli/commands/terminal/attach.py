"""`lattice attach`: a terminal inside a running allocation."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.launching import terminal_shape
from lattice.cli.terminal.attached import AttachedTerminal
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.steps import Step, TerminalRequest

PASSED_ON = ("TERM", "COLORTERM", "LANG", "LC_ALL")


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str
    node: str = ""
    terminal: str = ""
    command: str = ""
    keep: bool = False
    share: tuple[str, ...] = ()
    unshare: tuple[str, ...] = ()
    tail: tuple[str, ...] | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice attach [flags] ID [-- COMMAND [ARG...]]"
    parser.description = (
        "Opens a terminal in a running allocation, with your shell or a command. It takes no CPUs of its own. "
        "Enter ~ . detaches: the terminal waits for its next client, 15 minutes unless the site says otherwise."
    )
    add = parser.add_argument
    add("id", metavar="ID", help="allocation, as in a17")
    add("--node", metavar="N", help="node of the allocation (default: its first)")
    add("--terminal", metavar="T", help="go back to this terminal of the allocation, as in 3 or a17.3")
    add("--command", metavar="C", help="run this line with the shell instead of your shell")
    add(
        "--share",
        metavar="USER",
        action="append",
        default=[],
        help="let USER watch, read-only; with --terminal T, do not attach; may be repeated",
    )
    add(
        "--unshare",
        metavar="USER",
        action="append",
        default=[],
        help="with --terminal T: stop USER from watching; may be repeated",
    )
    add("--keep", action="store_true", help="keep the terminal as long as the allocation, without a client too")


def run(options: Options, context: Context) -> int:
    if options.unshare and not options.terminal:
        raise UsageError("--unshare needs --terminal", hint="name the terminal that was shared: --terminal 3")
    if options.terminal:
        step = _found(options, context)
        if options.share or options.unshare:
            return _say_who_watches(options, context, step)
        if not step.read_only:
            need_terminal(context, hint=f"`lattice logs {step.allocation} --step {step.step}` shows what it printed")
        return AttachedTerminal(context, step, is_new=False).attend()
    request = request_for(options, context)
    if not (options.command or options.tail):
        need_terminal(context, hint="name a command, which may read a pipe: lattice attach ID -- sh")
    step = context.client.attach(options.id, request)
    try:
        _share(options, context, step)
    except LatticeError:
        context.client.end_step(step.allocation, step.step)  # no client would attend it
        raise
    return AttachedTerminal(context, step, is_new=True).attend()


def need_terminal(context: Context, *, hint: str) -> None:
    """Raises UsageError where no user can type: a shell would wait for a pipe, and not end with this command."""
    if not context.streams.stdin.isatty():
        raise UsageError("no terminal here: standard input is not one", hint=hint)


def _say_who_watches(options: Options, context: Context, step: Step) -> int:
    """Changes it and does not attach: the terminal may be the one in which this runs."""
    for user in options.unshare:
        if user not in step.watchers:
            named = ", ".join(step.watchers) or "no user"
            raise CommandError(f"{step.id} is not shared with {user}", hint=f"it is shared with {named}")
    for user in options.unshare:
        context.client.unshare_terminal(step.allocation, step.step, user)
        context.streams.complain(f"[lattice] {user} may no longer watch {step.id}\n")
    _share(options, context, step)
    return OK


def _share(options: Options, context: Context, step: Step) -> None:
    for user in options.share:
        context.client.share_terminal(step.allocation, step.step, user)
        way = f"lattice attach {step.allocation} --terminal {step.step}"
        context.streams.complain(f"[lattice] {user} can watch with: {way}\n")


def request_for(options: Options, context: Context) -> TerminalRequest:
    if options.command and options.tail:
        raise UsageError("--command cannot be used with a command after --")
    rows, columns = terminal_shape()
    return TerminalRequest(
        node=options.node,
        command=options.command,
        argv=list(options.tail or ()),
        environment=passed_on(context),
        rows=rows,
        columns=columns,
        keep=options.keep,
    )


def passed_on(context: Context) -> dict[str, str]:
    """What programs in the terminal need to know of the one that is here."""
    environment = context.process.environment
    return {name: environment[name] for name in PASSED_ON if environment.get(name)}


def _found(options: Options, context: Context) -> Step:
    given = {"--node": options.node, "--command": options.command, "--keep": options.keep, "--": options.tail}
    for flag, value in given.items():
        if value:
            raise UsageError(f"{flag} cannot be used with --terminal", hint="it is for a new terminal")
    number = options.terminal.rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise UsageError(f'"{options.terminal}" is not a terminal', hint="use its number, as in 3 or a17.3")
    step = context.client.get_step(options.id, int(number))
    hint = f"`lattice attach {step.allocation}` opens a new terminal"
    if not step.is_terminal:
        raise CommandError(f"{step.id} is a step, not a terminal", hint=hint)
    if step.state == "ended":
        raise CommandError(f"{step.id} has ended with code {step.exit_code or 0}", hint=hint)
    return step


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    takes_tail=True,
    examples=(
        "lattice attach a17",
        "lattice attach a17 --node n2 -- top",
        'lattice attach a17 --command "nvidia-smi -l 1"',
        "lattice attach a17 --terminal 3",
        "lattice attach a17 --share bert",
        "lattice attach a17 --terminal 3 --unshare bert",
    ),
)
