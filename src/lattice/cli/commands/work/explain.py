"""`lattice explain`: why allocations wait, when and where they will start, and how they ended."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.output import printable, sheet, structured
from lattice.cli.times import clock_text
from lattice.cli.views.explanations import explanation_pairs
from lattice_sdk.errors import ApiError
from lattice_sdk.models.records import FAILED, Allocation, Explanation

TAIL_LINES = 5
_ROUGHLY_DOUBLE = 2


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="allocation, task or task group")


def run(options: Options, context: Context) -> int:
    found, code = for_each(options.ids, context.client.explain, context)
    if found and not structured(context, found[0] if len(options.ids) == 1 else found):
        context.streams.write("\n".join(_page(why, context) for why in found))
    return code


def _page(why: Explanation, context: Context) -> str:
    pairs = [("Allocation", why.id or ""), ("State", why.state), *explanation_pairs(why, context.clock.now())]
    if why.id and why.rank is not None and not context.flags.quiet:
        return sheet([*pairs, *(("Way out", text) for text in _ways_out(why, context))])
    if why.state != FAILED or not why.id:
        return sheet(pairs)
    allocation = context.client.get_allocation(why.id)
    advice = _advice(allocation)
    page = sheet([*pairs, ("Try", advice)] if advice else pairs)
    lines = _last_lines(allocation, context)
    return page + "".join(["Last lines of stderr:\n", *(f"  {line}\n" for line in lines)] if lines else [])


def _ways_out(why: Explanation, context: Context) -> list[str]:
    """Of work in the queue: what would let it start sooner."""
    from lattice.cli.input.ways_out import ways_out

    try:
        allocation = context.client.get_allocation(why.id or "", details=True)
    except ApiError:
        return []
    return ways_out(allocation, why.predicted_start, context)


def _advice(allocation: Allocation) -> str:
    """The flag whose value was too small."""
    if allocation.cause == "walltime" and allocation.walltime_s:
        return f"more time: --walltime={clock_text(_ROUGHLY_DOUBLE * allocation.walltime_s)}"
    if allocation.cause == "oom" and allocation.resources.memory_mb:
        return f"more memory: --memory={_ROUGHLY_DOUBLE * allocation.resources.memory_mb}M"
    if allocation.cause == "oom":
        return "more memory: --memory=SIZE, per node"
    if allocation.cause == "node" and allocation.requeue == "never":
        return "another try when a node is lost: --requeue=on_node_failure"
    return "a later deadline: --deadline=TIME" if allocation.cause == "deadline" else ""


def _last_lines(allocation: Allocation, context: Context) -> list[str]:
    """The end of stderr, without what Lattice itself added; nothing for a group, or when the output is gone."""
    if allocation.task_counts is not None or not allocation.run:
        return []
    try:
        pieces = context.client.iter_logs(allocation.id, stream="stderr", tail=TAIL_LINES + 1)
        text = b"".join(pieces).decode("utf-8", "replace")
    except ApiError:
        return []
    ours = f"lattice: {allocation.id} "
    return [printable(line) for line in text.splitlines() if not line.startswith(ours)][-TAIL_LINES:]


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice explain a17", "lattice explain a17 a18_3 -o json"),
)
