"""`sstat`: the steps of a job that run now. What they use is measured when they end."""

from collections.abc import Callable

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.finding import behind, parse_job_id
from lattice.api.slurm.rows.jobs import Depth, JobRows
from lattice.core.model.work.allocations import TaskGroup
from lattice.slurm.faults import Fault, error
from lattice.slurm.listings import sacct
from lattice.slurm.listings.listing import ALIKE, flag, items_outside_brackets, read_line, value
from lattice.slurm.listings.rows import StepRow
from lattice.slurm.listings.tables import field_names, style_of, table_lines
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.formats import Column, UnknownField, parse_sized
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
        values += [_value_of(shown, step) for shown, step in steps]
        complaints += [] if steps else [f"sstat: error: No steps running for job {wanted}"]
    lines = table_lines(fields, COLUMNS, values, style_of(line))
    return SlurmAnswer(
        stdout="".join(f"{text}\n" for text in lines), stderr="".join(f"{text}\n" for text in complaints)
    )


async def _steps(context: Context, wanted: str, *, with_all: bool) -> list[tuple[str, StepRow]]:
    """The step that was named, the first that was launched, or all of them."""
    job = parse_job_id(wanted)
    if job is None:
        raise error("sstat", f"Invalid job id: {wanted}")
    maker = JobRows(context, Depth.FULL)
    found = []
    for entry in await behind(context, job) or ():
        if isinstance(entry, TaskGroup):
            continue
        row = maker.row(entry)
        running = [step for step in row.steps if step.state.is_active]
        if job.step:
            running = [step for step in running if step.name == job.step]
        elif not with_all:
            running = [step for step in running if step.name.isdigit()][:1]
        found += [(f"{row.shown_id}.{step.name}", step) for step in running]
    return found


def _value_of(shown: str, step: StepRow) -> Callable[[str], str]:
    # What a step uses is measured when it ends; columns for use stay empty until then.
    texts = {
        "JobID": shown,
        "NTasks": str(step.ntasks),
        "Nodelist": ",".join(step.nodes),
    }
    return lambda key: texts.get(key, "")
