"""`lattice compare`: what allocations used, side by side."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, show_list, structured
from lattice.cli.views.figures import figure_text
from lattice_sdk.models.telemetry.comparison import Compared, ComparedMetric


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="allocations to compare, two or more")
    add("--metric", action="append", default=[], metavar="NAME,...", help="only these metrics; may be repeated")


def run(options: Options, context: Context) -> int:
    if len(options.ids) < 2:
        raise UsageError("a comparison needs at least two allocations", hint="use `lattice compare a17 a18`")
    found = context.client.compare(options.ids, metrics=options.metric)
    if structured(context, found):
        return OK
    if context.output not in ("csv", "name"):
        for each in found.allocations:
            context.say(
                f"{each.id}: {each.state}, ran {each.elapsed_s:.0f} s, from {each.source}, {each.resolution_s:g} s windows"
            )
    for note in dict.fromkeys(each.note for each in found.allocations if each.note):
        context.note(note)
    show_list(context, found.items, columns(found.allocations), name=lambda each: each.metric)
    return OK


def columns(allocations: list[Compared]) -> tuple[Column[ComparedMetric], ...]:
    """The mean of each allocation and, wide, its maximum."""
    several: list[Column[ComparedMetric]] = [Column("METRIC", lambda each: each.metric)]
    for allocation in allocations:
        several.append(_column(allocation.id, allocation.id.upper(), is_max=False))
        several.append(_column(allocation.id, f"{allocation.id.upper()}MAX", is_max=True))
    return tuple(several)


def _column(name: str, head: str, *, is_max: bool) -> Column[ComparedMetric]:
    def text(each: ComparedMetric) -> str:
        series = next((one for one in each.series if one.id == name), None)
        return "" if series is None else figure_text(series.max if is_max else series.mean, each.unit)

    return Column(head, text, is_wide=is_max)


COMMAND = Command(
    lists=True,
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice compare a17 a18", "lattice compare a17 a18 --metric=gpu_utilization -o json"),
)
