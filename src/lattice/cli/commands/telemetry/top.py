"""`lattice top`: what running allocations use."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, printable, show_line, show_list, structured, table
from lattice.cli.views.figures import (
    HEADS,
    ROWS,
    figure_text,
    group_columns,
    grouped,
    heading,
    now_text,
)
from lattice_sdk.models.telemetry.metrics import AllRunningMetrics, MetricEvent, Metrics, RunningMetrics

REFRESH_S = 2.0
_HOME = "\x1b[H\x1b[2J"


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""
    per_node: bool = False
    per_gpu: bool = False
    wide: bool = False
    metric: tuple[str, ...] = ()
    duration: str = ""
    stream: bool = False
    everybody: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", nargs="?", default="", metavar="ID", help="allocation (default: all your running work, refreshed)")
    add("--per-node", action="store_true", help="one row for each node")
    add("--per-gpu", action="store_true", help="one row for each GPU")
    add("--wide", action="store_true", help="every metric")
    add("--metric", action="append", default=[], metavar="NAME,...", help="only these metrics; may be repeated")
    add("--duration", default="", metavar="TIME", help="figures of the last TIME, as in 90s or 1h (default: 5m)")
    add("--stream", action="store_true", help="print figures as they are measured, until the allocation has ended")
    add("--everybody", action="store_true", help="without ID: all running work whose figures you may see")


def run(options: Options, context: Context) -> int:
    if options.per_node and options.per_gpu:
        raise UsageError("--per-node and --per-gpu exclude each other")
    if not options.id:
        return _all(options, context)
    if options.everybody:
        raise UsageError("--everybody is for `lattice top` without an allocation")
    if options.stream:
        return _stream(options, context)
    mode = "per_node" if options.per_node else "per_gpu" if options.per_gpu else "wide" if options.wide else "summary"
    found = context.client.query_metrics(
        options.id, mode=mode, duration=options.duration, metrics=options.metric, points=context.output in _WHOLE
    )
    _show(found, options, context)
    return OK


_WHOLE = ("json", "yaml")


def _show(found: Metrics, options: Options, context: Context) -> None:
    if structured(context, found):
        return
    if context.output not in ("csv", "name"):
        context.say(heading(found))
    if found.note:
        context.note(found.note)
    if options.per_node or options.per_gpu:
        names = list(dict.fromkeys(row.metric for row in found.items))
        show_list(
            context,
            grouped(found.items),
            group_columns(names, with_device=options.per_gpu),
            name=lambda each: each[0],
        )
    else:
        show_list(context, found.items, ROWS, name=lambda row: row.metric)
    if found.unreachable:
        context.note(f"no answer from {', '.join(found.unreachable[:8])}")


def _column(metric: str, head: str) -> Column[RunningMetrics]:
    return Column(head, lambda each: now_text(next((row for row in each.items if row.metric == metric), None)))


ALL: tuple[Column[RunningMetrics], ...] = (
    Column("ID", lambda each: each.id),
    Column("NAME", lambda each: each.name),
    Column("USER", lambda each: each.user),
    Column("NODES", lambda each: str(each.nodes)),
    *(_column(metric, head) for metric, head in HEADS.items()),
)


def _all(options: Options, context: Context) -> int:
    given = (options.per_node, options.per_gpu, options.wide, options.stream)
    for flag, is_given in zip(("--per-node", "--per-gpu", "--wide", "--stream"), given, strict=True):
        if is_given:
            raise UsageError(f"{flag} needs an allocation", hint=f"use `lattice top ID {flag}`")
    is_live = context.streams.stdout.isatty() and context.output not in _WHOLE
    while True:
        found = context.client.running_metrics(
            everybody=options.everybody, duration=options.duration, metrics=options.metric
        )
        if is_live:
            context.streams.write(_HOME + _screen(found, context))
            context.streams.stdout.flush()
            context.clock.pause(REFRESH_S)
            continue
        if not structured(context, found.items):
            show_list(context, found.items, _columns(found), name=lambda each: each.id)
        if found.note:
            context.note(found.note)
        if found.left_out:
            context.note(f"{found.left_out} more allocations run")
        return OK


def _columns(found: AllRunningMetrics) -> tuple[Column[RunningMetrics], ...]:
    """Without those that nothing is known of."""
    known = {row.metric for each in found.items for row in each.items}
    more = tuple(_column(name, name.upper()) for name in sorted(known - HEADS.keys()))
    kept = {head for metric, head in HEADS.items() if metric in known}
    return tuple(column for column in ALL if column.head not in set(HEADS.values()) - kept) + more


def _screen(found: AllRunningMetrics, context: Context) -> str:
    if not found.items:
        return "no allocation of yours runs\n"
    wide = context.output == "wide"
    width = None if wide else context.width
    return table(found.items, _columns(found), wide=wide, coloured=context.is_coloured, width=width)


def _stream(options: Options, context: Context) -> int:
    if options.per_node or options.per_gpu or options.wide or options.duration:
        raise UsageError("--stream prints what comes, node by node; only --metric goes with it")
    stream = context.client.stream_metrics(options.id, options.metric)
    try:
        for event in stream:
            show_event(event, context)
    finally:
        stream.close()
    return OK


def show_event(event: MetricEvent, context: Context) -> None:
    """A line for each window of a node, and for each alert."""
    if context.output in _WHOLE:
        show_line(context, event)
        return
    match event.kind:
        case "figures":
            texts = (
                f"{each.metric}{f'[{each.device}]' if each.device else ''}={figure_text(each.mean, each.unit).replace(' ', '')}"
                for each in event.figures
            )
            line = f"{event.at}  {event.node}  {'  '.join(texts)}"
        case "alert":
            line = f"{event.at}  {event.node}  {'over' if event.over else 'ALERT'}: {event.text}"
        case _ if event.problem:
            line = f"{','.join(event.nodes)}: {event.problem}"
        case _:
            return
    context.streams.write(printable(line) + "\n")
    context.streams.stdout.flush()


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice top",
        "lattice top a17",
        "lattice top a17 --per-node --duration=1h",
        "lattice top a17 --metric=cpu_utilization,memory_used --stream",
        "lattice top a17 --wide -o json",
    ),
)
