"""`lattice admin metrics dump`: what the metrics of a server were."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import encoded_json, show_one
from lattice.cli.times import parse_duration_s
from lattice_sdk.observing.models import FigureHistory

COMPONENTS = ("all", "scheduler", "services", "quorum", "api", "nodes", "loops", "notifications")
LONGEST_S = 86_400


@dataclass(frozen=True, kw_only=True)
class Options:
    component: str = "all"
    duration: str = "1h"


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--component", choices=COMPONENTS, default="all", help="part of the server (default: all)")
    parser.add_argument(
        "--duration", default="1h", metavar="TIME", help="how far back: 30m, 1h, up to 24h (default: %(default)s)"
    )


def run(options: Options, context: Context) -> int:
    seconds = parse_duration_s(options.duration)
    if not 1 <= seconds <= LONGEST_S:
        raise UsageError(f"--duration {options.duration} is too long", hint="servers keep a day: 24h at most")
    history = context.client.figure_history(options.component, duration_s=int(seconds))
    if not context.flags.output and not context.streams.stdout.isatty():
        context.streams.write(encoded_json(history))  # for a file: every sample, not the newest alone
    else:
        show_one(context, history, _pairs(history))
    return OK


def _pairs(history: FigureHistory) -> list[tuple[str, str]]:
    """The newest value of each metric; JSON has every sample."""
    lines = [
        (_shown(series.name, series.labels), f"{series.points[-1].value:g}")
        for series in history.series
        if series.points and not series.name.endswith("_bucket")
    ]
    samples = max((len(series.points) for series in history.series), default=0)
    role = "leader" if history.leader else "follower"
    return [
        ("Server", f"{history.server} ({role})"),
        ("Samples", f"{samples}, one a minute; the oldest kept is of {history.since or 'never'}"),
        *lines,
    ]


def _shown(name: str, labels: dict[str, str]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inner}}}" if inner else name


DUMP = Command(
    options=Options,
    run=run,
    fill=fill,
    examples=(
        "lattice admin metrics dump --component=scheduler --duration=1h > scheduler-metrics.json",
        "lattice admin metrics dump --component=api",
    ),
)
