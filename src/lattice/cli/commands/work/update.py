"""`lattice update`: change allocations; what they ask of the machine, while they are pending."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.errors import UsageError
from lattice.cli.input.constraints import parse_nodes
from lattice.cli.input.submission import checked_walltime, parse_pair
from lattice.cli.times import parse_moment


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    walltime: str | None = None
    priority: str | None = None
    name: str | None = None
    concurrency: int | None = None
    tag: tuple[str, ...] = ()
    untag: tuple[str, ...] = ()
    nodes: str | None = None
    vcluster: str | None = None
    cpus: int | None = None
    memory: str | None = None
    gpus: int | None = None
    begin: str | None = None
    depends_on: tuple[str, ...] = ()
    comment: str | None = None


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
    waiting = parser.add_argument_group("of pending allocations")
    add = waiting.add_argument
    add("-N", "--nodes", metavar="N", help="number of nodes: 4, or a range 2-8")
    add("-p", "--vcluster", metavar="NAME", help="move it to this vCluster")
    add("--cpus", type=int, metavar="N", help="CPUs per node, if nodes are shared")
    add("--memory", metavar="SIZE", help="memory per node, e.g. 4G")
    add("--gpus", type=int, metavar="N", help="GPUs per node")
    add("--begin", metavar="TIME", help="do not start before: RFC 3339, 16:30, now+2h, or now")
    add(
        "--depends-on",
        action="append",
        metavar="LIST",
        help="start after others instead: a1:success,a2?a3:any; none = after nothing",
    )
    add("--comment", metavar="TEXT", help="comment of work of a Slurm command")


def run(options: Options, context: Context) -> int:
    wanted = {
        "walltime": checked_walltime(options.walltime),
        "priority": _priority(options),
        "name": options.name,
        "concurrency": options.concurrency,
        "tags": dict(parse_pair(text, "--tag") for text in options.tag) or None,
        "untag": list(options.untag) or None,
        **_revision(options, context),
    }
    changes = {key: value for key, value in wanted.items() if value is not None}
    if not changes:
        raise UsageError(
            "nothing to change was given", hint="see `lattice update --help`, for example --walltime or --nodes"
        )
    return order_each(
        options.ids,
        lambda allocation_id: context.client.update(allocation_id, changes),
        lambda allocation: f"{allocation.id} updated",
        context,
    )


def _revision(options: Options, context: Context) -> dict[str, object]:
    wanted: dict[str, object] = {
        "vcluster": options.vcluster,
        "cpus": options.cpus,
        "memory": options.memory,
        "gpus": options.gpus,
        "comment": options.comment,
    }
    if options.nodes is not None:
        least, most = parse_nodes(options.nodes)
        wanted |= {"nodes": least, "max_nodes": most or None}
    if options.begin is not None:
        is_now = options.begin.strip().lower() == "now"
        wanted["begin"] = "now" if is_now else parse_moment(options.begin, context.clock.now())
    if options.depends_on:
        text = ",".join(options.depends_on)
        wanted["depends_on"] = "" if text.strip().lower() in ("", "none") else text
    return wanted


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
        "lattice update a17 --nodes=2 --vcluster=short",
        "lattice update a17 --begin=now --depends-on=none",
        "lattice update a17 --tag=stage=final --untag=draft",
    ),
)
