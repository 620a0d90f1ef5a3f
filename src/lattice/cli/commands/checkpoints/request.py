"""`lattice checkpoint ID`: ask running work for a checkpoint."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.commands.checkpoints.show import FAILED, WRITING, outcome_text
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import OK, REFUSED
from lattice.cli.output import structured
from lattice_sdk.models.runs import Checkpoint

WAIT_STEP_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    wait: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice checkpoint [flags] ID [ID...]"
    parser.add_argument("ids", nargs="+", metavar="ID", help="allocation or task")
    parser.add_argument("--wait", action="store_true", help="wait until it is complete; exit code 1 if it fails")


def run(options: Options, context: Context) -> int:
    def ask(name: str) -> Checkpoint:
        checkpoint = context.client.request_checkpoint(name, wait=WAIT_STEP_S if options.wait else 0.0)
        while options.wait and checkpoint.state == WRITING:
            checkpoint = context.client.get_checkpoint(name, checkpoint.n, wait=WAIT_STEP_S)
        if context.output in {"table", "wide"}:
            context.say(outcome_text(name, checkpoint))
        return checkpoint

    told, code = for_each(options.ids, ask, context)
    if context.output not in {"table", "wide"} and told:
        structured(context, told[0] if len(options.ids) == 1 else told)
    return max(code, REFUSED if any(each.state == FAILED for each in told) else OK)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice checkpoint a17", "lattice checkpoint a17 --wait"),
)
