"""`lattice update`: change walltime, priority or name of allocations."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.errors import UsageError
from lattice.cli.input.submission import checked_walltime, parse_pair


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    walltime: str | None = None
    priority: str | None = None
    name: str | None = None
    concurrency: int | None = None
    tag: tuple[str, ...] = ()
    untag: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="allocation, task or task group")
    add("--walltime", metavar="TIME", help="new walltime, e.g. 90m, 24h or HH:MM:SS")
    add(
        "--priority",
        "--preemption-class",
        dest="priority",
        metavar="CLASS",
        help="new priority: low, normal, high or 0 to 10",
    )
    add("--name", metavar="NAME", help="new name")
    add(
        "--concurrency", type=int, metavar="N", help="maximum number of tasks of a group that run concurrently; 0 = all"
    )
    add("--tag", action="append", metavar="KEY=VALUE", help="set a tag; may be repeated")
    add("--untag", action="append", metavar="KEY", help="remove a tag; may be repeated")


def run(options: Options, context: Context) -> int:
    wanted = {
        "walltime": checked_walltime(options.walltime),
        "priority": _priority(options),
        "name": options.name,
        "concurrency": options.concurrency,
        "tags": dict(parse_pair(text, "--tag") for text in options.tag) or None,
        "untag": list(options.untag) or None,
    }
    changes = {key: value for key, value in wanted.items() if value is not None}
    if not changes:
        raise UsageError(
            "nothing to change was given", hint="--walltime, --priority, --name, --concurrency, --tag or --untag"
        )
    return order_each(
        options.ids,
        lambda allocation_id: context.client.update(allocation_id, changes),
        lambda allocation: f"{allocation.id} updated",
        context,
    )


def _priority(options: Options) -> str | int | None:
    text = options.priority
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice update a17 --walltime=48h",
        "lattice update a17 --priority=high",
        "lattice update a17 --concurrency=50",
        "lattice update a17 --tag=stage=final --untag=draft",
    ),
)
