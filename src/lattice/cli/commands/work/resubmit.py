"""`lattice resubmit`: a new allocation from a recorded one, with the flags that shall differ."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lattice.cli.command import Command, Values
from lattice.cli.commands.work import submit
from lattice.cli.context import Context, Process
from lattice.cli.flags import Flags
from lattice.cli.input.again import again
from lattice.cli.input.submission import SubmitOptions

OWN = frozenset({"id", "failed", "wait", "dry_run", "request_id"})
ABOUT_THE_PROGRAM = frozenset(Flags.__struct_fields__)


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str
    failed: bool = False
    wait: bool = False
    dry_run: bool = False
    request_id: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="allocation, task or task group to run again, archived or not")
    parser.add_argument("--failed", action="store_true", help="of a task group, only the tasks that failed")
    submit.fill_flags(parser)


def complete(values: Values, _parser: argparse.ArgumentParser, _process: Process) -> Values:
    given = {name: value for name, value in values.items() if name not in OWN | ABOUT_THE_PROGRAM}
    return {**values, "given": given}


def run(options: Options, context: Context) -> int:
    recorded = context.client.get_allocation(options.id, details=True)
    submission = again(recorded, dict(options.given), context, only_failed=options.failed)
    after = SubmitOptions(wait=options.wait, dry_run=options.dry_run, request_id=options.request_id)
    if options.dry_run:
        return submit.show_dry_run(submission, after, context)
    allocation = context.client.submit(submission, request_id=options.request_id)
    submit.tell_of_submission(allocation, context)
    return submit.finish(allocation, after, context)


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=complete,
    examples=(
        "lattice resubmit a17",
        "lattice resubmit a17 --memory=8G --walltime=2h",
        "lattice resubmit a20 --failed",
    ),
)
