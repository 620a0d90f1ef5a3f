"""`lattice explain`: why allocations wait, and when and where they will start."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.output import sheet, structured
from lattice.cli.views.explanations import explanation_pairs
from lattice_sdk.models.records import Explanation


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="allocation, task or task group")


def run(options: Options, context: Context) -> int:
    found, code = for_each(options.ids, context.client.explain, context)
    if found and not structured(context, found[0] if len(options.ids) == 1 else found):
        context.streams.write("\n".join(sheet(_pairs(why)) for why in found))
    return code


def _pairs(why: Explanation) -> list[tuple[str, str]]:
    return [("Allocation", why.id or ""), ("State", why.state), *explanation_pairs(why)]


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice explain a17", "lattice explain a17 a18_3 -o json"),
)
