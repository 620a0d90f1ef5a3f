"""`lattice session`: an allocation to work in by hand; it waits for its nodes, then opens a terminal, and ends with it."""

import argparse
from contextlib import suppress
from dataclasses import replace

from lattice.cli.command import Command, Values
from lattice.cli.commands.terminal import attach
from lattice.cli.commands.work import submit
from lattice.cli.context import Context, Process
from lattice.cli.ending import ending_code, ending_text
from lattice.cli.errors import INTERRUPTED, UsageError
from lattice.cli.input.submission import SubmitOptions
from lattice.cli.progress import PENDING, RUNNING, StatusLine, waiting_text
from lattice.cli.recent import remember
from lattice.cli.terminal.attached import AttachedTerminal
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.records import Allocation
from lattice_sdk.models.steps import TerminalRequest

NAME = "session"
# A process that only waits, until the shell of the session ends it.
PLACEHOLDER = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done")
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 1.0
STARTING = "Starting"


def fill(parser: argparse.ArgumentParser) -> None:
    submit.fill(parser)
    parser.usage = "lattice session --walltime T [flags]"
    parser.description = (
        "Requests nodes and opens a terminal on the first of them. The session ends with its shell, and with that "
        "shell's exit code. Enter ~ . detaches; Ctrl-C before it starts cancels it."
    )


def complete(values: Values, _parser: argparse.ArgumentParser, _process: Process) -> Values:
    if values.pop("rest") or values.pop("tail"):
        raise UsageError("a session takes no command", hint="use `lattice run`, or `lattice attach ID -- COMMAND`")
    return {**values, "command": PLACEHOLDER, "default_name": NAME}


def run(options: SubmitOptions, context: Context) -> int:
    _refuse(options, context)
    allocation = submit.submitted(replace(options, requeue="never"), context)
    if allocation is None:
        return INTERRUPTED
    remember(context, allocations=[allocation.id])
    try:
        allocation = _await_start(allocation, context)
    except KeyboardInterrupt:
        context.renew()
        with suppress(LatticeError):  # it has ended meanwhile
            context.client.cancel(allocation.id)
        context.streams.complain(f"\nlattice: {allocation.id} is being cancelled\n")
        return INTERRUPTED
    if allocation.state != RUNNING:
        context.streams.complain(f"lattice: {ending_text(allocation)}\n")
        return ending_code(allocation)
    asked: TerminalRequest = attach.request_for(attach.Options(id=allocation.id, ends_allocation=True), context)
    return AttachedTerminal(context, context.client.attach(allocation.id, asked), is_new=True).attend()


def _refuse(options: SubmitOptions, context: Context) -> None:
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
    if options.walltime is None and not _has_default(context):
        raise UsageError("a session needs a walltime", hint="use --walltime=2h, or a vCluster that has a default")


def _has_default(context: Context) -> bool:
    """Whether the vCluster that was named gives work a walltime."""
    name = context.settings.vcluster
    return bool(name) and bool(context.client.get_vcluster(name).default_walltime_s)


def _await_start(allocation: Allocation, context: Context) -> Allocation:
    """The allocation when it runs or has ended; until then the terminal says why it waits, and when it will start."""
    pause_s = FIRST_PAUSE_S
    with StatusLine(context) as line:
        while True:
            now = context.client.get_allocation(allocation.id)
            if now.state not in (PENDING, STARTING):
                return now
            line.show(waiting_text(now, context))
            context.clock.pause(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


COMMAND = Command(
    options=SubmitOptions,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=complete,
    takes_tail=True,
    takes_rest=True,
    examples=("lattice session --walltime=2h", "lattice session --nodes=2 --gpus=1 --walltime=8h --name=debug"),
)
