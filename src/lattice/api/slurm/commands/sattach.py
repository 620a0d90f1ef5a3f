"""`sattach`: its output, input and layout of a step that runs; leaving it ends nothing."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import step_service_of
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.finding import parse_job_id
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.layout import Layout
from lattice.ports.nodes.steps import ALL_INPUT, StepView
from lattice.slurm.faults import Fault, error
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.numbers import whole
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand, SlurmStep

PROGRAM = "sattach"
GRAMMAR = Grammar(
    PROGRAM,
    (
        *(option for option in ALIKE if option.name not in ("help", "usage")),
        flag("help", "h"),
        flag("usage", "u"),
        flag("quiet", "Q"),
        flag("label", "l"),
        flag("layout"),
        flag("pty"),
        value("input-filter"),
        value("output-filter"),
        value("error-filter"),
    ),
)
_FILTERS = ("input-filter", "output-filter", "error-filter")
_HEAD = "Could not get job step info"


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ_OUTPUT)
    allocation, view = await _step(context, line)
    layout = view.layout
    if layout is None or view.has_ended:
        why = "Job/step already completing or completed" if view.has_ended else "Job step is not running"
        raise error(PROGRAM, f"{_HEAD}: {why}")
    if line.has("layout"):
        return printed(*layout_lines(layout))
    if line.has("pty") and any(line.has(name) for name in _FILTERS):
        raise error(PROGRAM, "--pty is incompatible with --input-filter, --output-filter and --error-filter")
    step = SlurmStep(
        allocation=allocation_id(allocation.number),
        step=view.step,
        tasks=view.tasks,
        label=line.has("label"),
        pty=line.has("pty"),
        detaches=True,
        only_stdout=_task(line, "output-filter", view.tasks),
        only_stderr=_task(line, "error-filter", view.tasks),
        only_stdin=_fed_task(line, view),
    )
    return SlurmAnswer(attend=step)


async def _step(context: Context, line: ListingLine) -> tuple[Allocation, StepView]:
    """The caller's own job and its step. Raises Fault in sattach's words."""
    if len(line.words) != 1:
        text = "No job step given" if not line.words else "Too many arguments"
        raise Fault(f"{PROGRAM}: error: {text}", "Usage: sattach [options] <jobid.stepid>")
    wanted = parse_job_id(line.words[0])
    step = whole(wanted.step) if wanted is not None else None
    if wanted is None or wanted.is_folded or step is None:
        raise Fault(f"{PROGRAM}: error: Invalid job step id: {line.words[0][:60]}", "Name it as 17.0, or 17_3.0")
    name = f"a{wanted.number}" if wanted.task is None else f"a{wanted.number}_{wanted.task}"
    try:
        record = (await find(context, name)).record
    except ApiError as problem:
        if problem.status >= 500:
            raise
        raise error(PROGRAM, f"{_HEAD}: Invalid job id specified") from None
    if not isinstance(record, Allocation):
        raise error(PROGRAM, f"{_HEAD}: Invalid job id specified")
    if record.user != context.user:
        raise error(PROGRAM, f"{_HEAD}: Access/permission denied")
    view = step_service_of(context).find(record.number, step)
    if view is None:
        is_over = any(each.step == step for each in record.steps)
        why = "Job/step already completing or completed" if is_over else "Invalid job step id specified"
        raise error(PROGRAM, f"{_HEAD}: {why}")
    return record, view


def _task(line: ListingLine, option: str, tasks: int) -> int:
    """The task that an option names; -1 = all."""
    if not line.has(option):
        return -1
    text = line.last(option)
    number = whole(text)
    if number is None or number >= tasks:
        raise error(PROGRAM, f'Invalid numeric value "{text[:40]}" for --{option}: the step has {tasks} tasks')
    return number


def _fed_task(line: ListingLine, view: StepView) -> int:
    """The task that --input-filter names; -1 = all that take input."""
    task = _task(line, "input-filter", view.tasks)
    if task < 0 or view.stdin in (ALL_INPUT, str(task)):
        return task
    takes = f"only task {view.stdin} takes input" if whole(view.stdin) is not None else "no task takes input from here"
    raise error(PROGRAM, f"--input-filter={task}: {takes}, as srun --input said")


def layout_lines(layout: Layout) -> list[str]:
    """As sattach --layout prints them."""
    size = sum(layout.counts)
    lines = ["Job step layout:", f"  {size} tasks, {len(layout.nodes)} nodes ({fold(layout.nodes)})", ""]
    for place, (node, ranks) in enumerate(zip(layout.nodes, layout.ranks(), strict=True)):
        shown = "".join(f"{rank} " for rank in ranks)
        lines.append(f"  Node {place} ({node}), {len(ranks)} task(s): {shown}")
    return lines
