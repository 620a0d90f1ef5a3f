"""`sstat`: the steps of a job that run now, and what they use at this moment, as their nodes measure it.

A figure of Slurm's that is one of a task is here one of all tasks of the step on a node: groups are what the kernel counts.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.running.measuring import measured
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.finding import behind, parse_job_id
from lattice.api.slurm.rows.jobs import Depth, JobRows
from lattice.core.model.work.allocations import TaskGroup
from lattice.ports.nodes.measures import GroupUse
from lattice.slurm.faults import Fault, error
from lattice.slurm.listings import sacct
from lattice.slurm.listings.listing import ALIKE, flag, items_outside_brackets, read_line, value
from lattice.slurm.listings.rows import StepRow
from lattice.slurm.listings.tables import field_names, style_of, table_lines
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Column, UnknownField, parse_sized
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.times import format_span
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

GRAMMAR = Grammar(
    "sstat",
    (
        *(option for option in ALIKE if option.name != "help"),
        flag("help", "h"),
        flag("allsteps", "a"),
        flag("helpformat", "e"),
        flag("pidformat", "i"),
        value("jobs", "j", "job"),
        flag("noheader", "n"),
        flag("noconvert"),
        value("format", "o", "fields"),
        flag("parsable", "p"),
        flag("parsable2", "P"),
    ),
)
_NAMES = [
    "JobID",
    "MaxVMSize",
    "MaxVMSizeNode",
    "MaxVMSizeTask",
    "AveVMSize",
    "MaxRSS",
    "MaxRSSNode",
    "MaxRSSTask",
    "AveRSS",
    "MaxPages",
    "MaxPagesNode",
    "MaxPagesTask",
    "AvePages",
    "MinCPU",
    "MinCPUNode",
    "MinCPUTask",
    "AveCPU",
    "NTasks",
    "AveCPUFreq",
    "ReqCPUFreqMin",
    "ReqCPUFreqMax",
    "ReqCPUFreqGov",
    "ConsumedEnergy",
    "MaxDiskRead",
    "MaxDiskReadNode",
    "MaxDiskReadTask",
    "AveDiskRead",
    "MaxDiskWrite",
    "MaxDiskWriteNode",
    "MaxDiskWriteTask",
    "AveDiskWrite",
]
COLUMNS = {name.lower(): sacct.COLUMNS[name.lower()] for name in _NAMES} | {
    name.lower(): Column(name, name, 20) for name in ("Nodelist", "Pids")
}


# The batch step has what the steps beside it do not use.
BATCH = "batch"
Uses = Mapping[str, GroupUse]  # by node


class LiveStep(Struct, frozen=True, kw_only=True):
    """A step that runs, and what it uses by node; nothing of nodes that did not answer."""

    shown: str
    row: StepRow
    uses: Uses


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    if line.has("helpformat"):
        return printed(*field_names(COLUMNS))
    require(context, Permission.READ)
    if not line.has("jobs"):
        raise Fault("You didn't give me any jobs to stat.")
    text = "JobID,Nodelist,Pids" if line.has("pidformat") else line.last("format") or ",".join(_NAMES)
    try:
        fields = parse_sized(text, COLUMNS)
    except UnknownField as unknown:
        raise error("sstat", f'Invalid field requested: "{unknown}"') from None
    values, complaints = [], []
    for wanted in dict.fromkeys(items_outside_brackets(",".join(line.items("jobs")))):
        steps = await _steps(context, wanted, with_all=line.has("allsteps"))
        values += [_value_of(step) for step in steps]
        complaints += [] if steps else [f"sstat: error: No steps running for job {wanted}"]
    lines = table_lines(fields, COLUMNS, values, style_of(line))
    return SlurmAnswer(
        stdout="".join(f"{text}\n" for text in lines), stderr="".join(f"{text}\n" for text in complaints)
    )


async def _steps(context: Context, wanted: str, *, with_all: bool) -> list[LiveStep]:
    """The step that was named, the first that was launched, or all of them."""
    job = parse_job_id(wanted)
    if job is None:
        raise error("sstat", f"Invalid job id: {wanted}")
    maker = JobRows(context, Depth.FULL)
    found: list[LiveStep] = []
    for entry in await behind(context, job) or ():
        if isinstance(entry, TaskGroup):
            continue
        row = maker.row(entry)
        running = [step for step in row.steps if step.state.is_active]
        if job.step:
            running = [step for step in running if step.name == job.step]
        elif not with_all:
            running = [step for step in running if step.name.isdigit()][:1]
        items, _ = await measured(context.services, entry) if running else ([], [])
        found += [LiveStep(shown=f"{row.shown_id}.{step.name}", row=step, uses=_uses(step, items)) for step in running]
    return found


def _uses(step: StepRow, items: Sequence[tuple[str, GroupUse]]) -> Uses:
    if step.name != BATCH:
        return {node: use for node, use in items if str(use.step) == step.name}
    whole = {node: use for node, use in items if use.step is None and node in step.nodes}
    for node, use in items:
        if use.step is not None and node in whole:
            whole[node] = _without(whole[node], use)
    return whole


def _without(whole: GroupUse, part: GroupUse) -> GroupUse:
    return replace(
        whole,
        cpu_s=max(0.0, whole.cpu_s - part.cpu_s),
        memory_mb=max(0.0, whole.memory_mb - part.memory_mb),
        read_bytes=max(0, whole.read_bytes - part.read_bytes),
        written_bytes=max(0, whole.written_bytes - part.written_bytes),
    )


def _value_of(step: LiveStep) -> Callable[[str], str]:
    tasks = max(1, step.row.ntasks)
    texts = {"JobID": step.shown, "NTasks": str(step.row.ntasks), "Nodelist": fold(step.row.nodes)}
    uses = step.uses
    if not uses:
        return lambda key: texts.get(key, "")
    rss, rss_node = _most(uses, lambda use: use.peak_memory_mb)
    cpu_s, cpu_node = _most(uses, lambda use: -use.cpu_s)
    read, read_node = _most(uses, lambda use: use.read_bytes)
    written, written_node = _most(uses, lambda use: use.written_bytes)
    texts |= {
        "MaxRSS": f"{rss * 1024:.0f}K",
        "MaxRSSNode": rss_node,
        "AveRSS": f"{sum(use.memory_mb for use in uses.values()) * 1024 / tasks:.0f}K",
        "MinCPU": format_span(int(-cpu_s), short=False),
        "MinCPUNode": cpu_node,
        "AveCPU": format_span(int(sum(use.cpu_s for use in uses.values()) / tasks), short=False),
        "MaxDiskRead": _disk(read),
        "MaxDiskReadNode": read_node,
        "AveDiskRead": _disk(sum(use.read_bytes for use in uses.values()) / tasks),
        "MaxDiskWrite": _disk(written),
        "MaxDiskWriteNode": written_node,
        "AveDiskWrite": _disk(sum(use.written_bytes for use in uses.values()) / tasks),
    }
    return lambda key: texts.get(key, "")


def _most(uses: Uses, figure: Callable[[GroupUse], float]) -> tuple[float, str]:
    """The highest of the figures, and the node that has it."""
    return max((figure(use), node) for node, use in uses.items())


def _disk(count: float) -> str:
    return f"{count / (1 << 20):.2f}M"
