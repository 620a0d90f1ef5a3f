"""`lattice telemetry`: how closely an allocation is measured."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import structured
from lattice.cli.times import local_text
from lattice_sdk.models.telemetry.modes import NodeTelemetry, TelemetryMode


@dataclass(frozen=True, kw_only=True)
class Options:
    alloc: str = ""
    node: str = ""
    mode: str = ""
    duration: str | None = None
    interval: str | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--alloc", default="", metavar="ID", help="allocation")
    add("--node", default="", metavar="NODE", help="node itself, without its work; for operators")
    add(
        "--mode",
        default="",
        metavar="MODE",
        help="prod: windows of 30 s; debug: every sample; audit: sensitive work with the files that it touches (default: show the mode)",
    )
    add("--duration", metavar="TIME", help="how long debug lasts, at most 24h (default: 30m)")
    add("--interval", metavar="TIME", help="time between two samples of debug, from 100ms on (default: 1s)")


def run(options: Options, context: Context) -> int:
    if not options.mode and (options.duration or options.interval):
        raise UsageError("--duration and --interval need --mode", hint="add --mode=debug")
    if bool(options.alloc) == bool(options.node):
        raise UsageError("name an allocation or a node", hint="use --alloc=ID or --node=NODE")
    if options.node:
        return _node(options, context)
    if options.mode:
        given = {"mode": options.mode, "duration": options.duration, "interval": options.interval}
        asked = {name: value for name, value in given.items() if value is not None}
        allocation = context.client.update(options.alloc, {"telemetry": asked})
    else:
        allocation = context.client.status(options.alloc)
    found = allocation.telemetry if isinstance(allocation.telemetry, TelemetryMode) else TelemetryMode(mode="prod")
    if structured(context, found):
        return OK
    until = f" until {local_text(found.until, context.clock.now())}" if found.mode == "debug" and found.until else ""
    every = f", a sample every {found.interval_s:g} s{until}" if found.mode == "debug" else ""
    context.say(f"{allocation.id} is measured in mode {found.mode}{every}")
    return OK


def _node(options: Options, context: Context) -> int:
    if options.mode:
        found = context.client.set_node_telemetry(
            options.node, mode=options.mode, duration=options.duration, interval=options.interval
        )
    else:
        shown = context.client.node_metrics(options.node, duration="30s", metrics=("load1",))
        found = NodeTelemetry(node=options.node, mode=shown.mode, interval_s=shown.resolution_s)
    if structured(context, found):
        return OK
    every = f", a sample every {found.interval_s:g} s" if found.mode == "debug" else ""
    context.say(f"{found.node} is measured in mode {found.mode}{every}")
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice telemetry --alloc=a17 --mode=debug --duration=30m",
        "lattice telemetry --alloc=a17 --mode=debug --interval=100ms",
        "lattice telemetry --alloc=a17 --mode=prod",
        "lattice telemetry --node=n1 --mode=debug --duration=10m",
    ),
)
