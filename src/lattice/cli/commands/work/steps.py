"""`lattice steps`: list the steps of an allocation."""

import argparse
from dataclasses import dataclass

from msgspec.structs import replace

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, show_list
from lattice.cli.times import stamp_text
from lattice.cli.views.allocations import bytes_text, throttled_text
from lattice_sdk.errors import NotFound
from lattice_sdk.models.runs import GroupUse, RunUsage
from lattice_sdk.models.steps import Step

OWN = "LATTICE_ALLOC_ID"


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help=f"allocation (default: ${OWN})")


def _nodes(step: Step) -> str:
    return ",".join(step.nodes) if len(step.nodes) <= 4 else f"{step.nodes[0]},... ({len(step.nodes)})"


def _is_known(step: Step) -> bool:
    """Whether what it used was measured: at its end, or just now."""
    return bool(step.ended_at or step.cpu_s or step.peak_memory_mb)


COLUMNS: tuple[Column[Step], ...] = (
    Column("STEP", lambda step: step.id),
    Column("NAME", lambda step: step.name),
    Column("STATE", lambda step: step.state),
    Column("TASKS", lambda step: str(step.tasks)),
    Column("NODES", _nodes),
    Column("STARTED", lambda step: stamp_text(step.started_at)),
    Column("ENDED", lambda step: stamp_text(step.ended_at)),
    Column("CODE", lambda step: "" if step.exit_code is None else str(step.exit_code)),
    Column("CPU", lambda step: f"{step.cpu_s:.1f}s" if _is_known(step) else "", is_wide=True),
    Column("MEMORY", lambda step: f"{step.peak_memory_mb}M" if _is_known(step) else "", is_wide=True),
    Column("THROTTLED", lambda step: throttled_text(step.usage), is_wide=True),
    Column("READ", lambda step: bytes_text(step.usage.read_bytes) if _is_known(step) else "", is_wide=True),
    Column("WRITTEN", lambda step: bytes_text(step.usage.written_bytes) if _is_known(step) else "", is_wide=True),
    Column("PIDS", lambda step: str(step.usage.peak_pids or ""), is_wide=True),
    Column("MESSAGE", lambda step: step.message, is_sparse=True),
)


def run(options: Options, context: Context) -> int:
    allocation = options.id or context.process.environment.get(OWN, "")
    if not allocation:
        raise UsageError("no allocation given", hint="use `lattice steps ID`")
    show_list(context, _measured(context, allocation), COLUMNS, name=lambda step: step.id)
    return OK


def _measured(context: Context, allocation: str) -> list[Step]:
    """The steps; those that run with what they use at this moment, where that is shown."""
    steps = context.client.list_steps(allocation)
    if context.output == "table" or not any(step.state == "running" for step in steps):
        return steps
    try:
        live = context.client.live_usage(allocation)
    except NotFound:
        return steps  # the server is of a release that cannot say it
    return [_with_figures(step, live.of_step(step.step)) if step.state == "running" else step for step in steps]


def _with_figures(step: Step, uses: list[GroupUse]) -> Step:
    if not uses:
        return step
    usage = RunUsage(
        throttled_s=sum(use.throttled_s for use in uses),
        read_bytes=sum(use.read_bytes for use in uses),
        written_bytes=sum(use.written_bytes for use in uses),
        peak_pids=max(use.peak_pids for use in uses),
    )
    peak_mb = round(max(use.peak_memory_mb for use in uses))
    return replace(step, cpu_s=sum(use.cpu_s for use in uses), peak_memory_mb=peak_mb, usage=usage)


COMMAND = Command(
    lists=True, options=Options, fill=fill, run=run, examples=("lattice steps a17", "lattice steps a17 -o json")
)
