"""`lattice diag`: how the network, the storage and the GPUs of an allocation fare."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import printable, structured
from lattice.cli.views.figures import figure_text
from lattice_sdk.models.telemetry.comparison import Diagnostics, Finding

_MARKS = {"ok": "ok", "warning": "WARNING", "unknown": "not known"}
MAX_SHOWN = 32  # findings of one name


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""
    network: bool = False
    storage: bool = False
    duration: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="allocation")
    add("--network", action="store_true", help="its network")
    add("--storage", action="store_true", help="its storage")
    add("--duration", default="", metavar="TIME", help="figures of the last TIME, as in 90s or 1h (default: 5m)")


def run(options: Options, context: Context) -> int:
    found = _ask(options, context)
    if structured(context, found):
        return OK
    context.say(f"{found.id}: from {found.source}, {found.resolution_s:g} s windows")
    if found.note:
        context.note(found.note)
    for head, findings in (("Network", found.network), ("Storage", found.storage), ("GPUs", found.gpus)):
        if findings:
            context.say(f"{head}:")
            for line in _lines(findings):
                context.say(printable(line))
    if found.unreachable:
        context.note(f"no answer from {', '.join(found.unreachable[:8])}")
    return OK


def _ask(options: Options, context: Context) -> Diagnostics:
    if options.network and not options.storage:
        return context.client.network_diagnostics(options.id, duration=options.duration)
    if options.storage and not options.network:
        return context.client.storage_diagnostics(options.id, duration=options.duration)
    found = context.client.diagnostics(options.id, duration=options.duration)
    if options.network and options.storage:
        return Diagnostics(
            id=found.id,
            source=found.source,
            note=found.note,
            resolution_s=found.resolution_s,
            network=found.network,
            storage=found.storage,
            unreachable=found.unreachable,
        )
    return found


def _lines(findings: Sequence[Finding]) -> list[str]:
    """One line each; of very many with one name the warnings come first."""
    groups: dict[str, list[Finding]] = {}
    for each in findings:
        groups.setdefault(each.name, []).append(each)
    lines = []
    for several in groups.values():
        ordered = sorted(several, key=lambda each: each.health != "warning")
        lines += [_line(each) for each in ordered[:MAX_SHOWN]]
        if len(ordered) > MAX_SHOWN:
            lines.append(f"  ... and {len(ordered) - MAX_SHOWN} more of them")
    return lines


def _line(found: Finding) -> str:
    where = " ".join(each for each in (found.node, found.device) if each)
    figure = found.text or figure_text(found.value, found.unit)
    mark = _MARKS.get(found.health, found.health)
    said = f"{mark}: {figure}" if found.health == "unknown" else f"{figure}  {mark}"
    return f"  {found.name + ':':<22}{f'{where}: ' if where else ''}{said}"


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice diag a17", "lattice diag a17 --network", "lattice diag a17 --storage --duration=1h"),
)
