"""`lattice steps`: list the steps of an allocation."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, show_list
from lattice.cli.views.allocations import bytes_text, throttled_text
from lattice_sdk.models.steps import Step

OWN = "LATTICE_ALLOC_ID"


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help=f"allocation (default: ${OWN})")


def _nodes(step: Step) -> str:
    return ",".join(step.nodes) if len(step.nodes) <= 4 else f"{step.nodes[0]},... ({len(step.nodes)})"


COLUMNS: tuple[Column[Step], ...] = (
    Column("STEP", lambda step: step.id),
    Column("NAME", lambda step: step.name),
    Column("STATE", lambda step: step.state),
    Column("TASKS", lambda step: str(step.tasks)),
    Column("NODES", _nodes),
    Column("STARTED", lambda step: step.started_at or ""),
    Column("ENDED", lambda step: step.ended_at or ""),
    Column("CODE", lambda step: "" if step.exit_code is None else str(step.exit_code)),
    Column("CPU", lambda step: f"{step.cpu_s:.1f}s" if step.ended_at else "", is_wide=True),
    Column("MEMORY", lambda step: f"{step.peak_memory_mb}M" if step.ended_at else "", is_wide=True),
    Column("THROTTLED", lambda step: throttled_text(step.usage), is_wide=True),
    Column("READ", lambda step: bytes_text(step.usage.read_bytes) if step.ended_at else "", is_wide=True),
    Column("WRITTEN", lambda step: bytes_text(step.usage.written_bytes) if step.ended_at else "", is_wide=True),
    Column("PIDS", lambda step: str(step.usage.peak_pids or ""), is_wide=True),
    Column("MESSAGE", lambda step: step.message, is_sparse=True),
)


def run(options: Options, context: Context) -> int:
    allocation = options.id or context.process.environment.get(OWN, "")
    if not allocation:
        raise UsageError("no allocation given", hint="use `lattice steps ID`")
    show_list(context, context.client.list_steps(allocation), COLUMNS, name=lambda step: step.id)
    return OK


COMMAND = Command(options=Options, fill=fill, run=run, examples=("lattice steps a17", "lattice steps a17 -o json"))
