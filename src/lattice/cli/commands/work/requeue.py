"""`lattice requeue`: stop an allocation and run it again."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_allocations
from lattice.cli.progress import CHECKPOINTING


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    hold: bool = False
    checkpoint: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids", nargs="+", metavar="ID", help="allocation, task group, or tasks of a group: a17_3, a17_[3-7,9]"
    )
    parser.add_argument("--hold", action="store_true", help="hold them until `lattice release`")
    parser.add_argument(
        "--checkpoint",
        action="store_true",
        help="ask for a checkpoint first and continue from it, as after a preemption",
    )


def run(options: Options, context: Context) -> int:
    told = "requeued and held" if options.hold else "requeued"
    return order_allocations(
        options.ids,
        lambda name: context.client.requeue(name, hold=options.hold, checkpoint=options.checkpoint),
        lambda now: _TOLD.format(told) if now.state == CHECKPOINTING else told,
        context,
    )


_TOLD = "writes a checkpoint, then it is {}"


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice requeue a17",
        "lattice requeue 'a17_[3-7,9]'",
        "lattice requeue --hold a17",
        "lattice requeue --checkpoint a17",
    ),
)
