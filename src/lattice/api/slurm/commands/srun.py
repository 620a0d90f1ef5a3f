"""`srun`: a step in the allocation that the caller is in, or an allocation of its own with one step."""

import os.path
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import launch
from lattice.api.slurm.answering import require
from lattice.api.slurm.helping import about
from lattice.api.slurm.submit import exporting, holding
from lattice.api.slurm.submit.translation import container_options, in_options
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.layout import Distribution
from lattice.slurm.faults import Fault, error
from lattice.slurm.submit.environment import environment_options
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.submit.job import Job, merge
from lattice.slurm.submit.options import options_of
from lattice.slurm.submit.step_line import (
    MPI_LIST,
    StepLine,
    is_per_task,
    narrowed_warning,
    read_programs,
    step_line,
    task_count,
)
from lattice.slurm.text.patterns import fill
from lattice.slurm.text.times import UNLIMITED
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand, SlurmStep
from lattice.wire.text.problems import BadField
from lattice.wire.work.steps import ProgramFields, StepInfo, StepSubmission

PROGRAM = "srun"
GRAMMAR = Grammar(PROGRAM, options_of(PROGRAM))
NOTHING = "/dev/null"
NO_INDEX = str((1 << 32) - 2)
MAX_RANK = 65_535
_NOTHING_ASKED = Asked()
_ABOUT_JOB = frozenset(
    {
        "SLURM_CPUS_PER_TASK",
        "SLURM_GPUS",
        "SLURM_JOBID",
        "SLURM_MEM_PER_CPU",
        "SLURM_MEM_PER_NODE",
        "SLURM_NODELIST",
        "SLURM_NPROCS",
        "SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_TASKS_PER_NODE",
    }
)


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    """Launches, or says what is wrong; the program attends to the step and comes back when it has ended."""
    word, number, code = holding.resumed(PROGRAM, command.resume)
    if word == "end":
        holding.finish(context, number, code)
        return SlurmAnswer(code=code)
    if word == "cancel":
        await holding.cancel(context, number, command.request_id)
        return SlurmAnswer(stderr=f"{PROGRAM}: Job allocation {number} has been revoked.\n", code=1)
    line = GRAMMAR.read(command.argv)
    told = about(PROGRAM, line)
    if told is not None:
        return told
    environment = environment_options(GRAMMAR, _own_options(command.environment))
    job = merge([environment, line.given], program=PROGRAM, now=context.services.clock.now_ms() / 1000)
    step = step_line((*environment, *line.given))
    if step.mpi == "list":
        return SlurmAnswer(stdout=MPI_LIST)
    if not line.words:
        raise Fault(f"{PROGRAM}: fatal: No command given to execute.")
    if step.multi_prog and command.script is None:
        return SlurmAnswer(needs="script", path=line.words[0])
    inside = step.jobid or _surrounding(command)
    if inside:
        if job.uenv or job.view:
            raise error(PROGRAM, "--uenv and --view: a step has the images of its allocation")
        allocation = await _confirmed(context, inside)
        return await _launched(context, command, job, step, line.words, allocation, _warned(job))
    return await _alone(context, command, job, step, line.words, number if word == "wait" else 0)


def _own_options(environment: dict[str, str]) -> dict[str, str]:
    """Without those that say how the surrounding job is, not how a step should be."""
    if not _in_job(environment):
        return environment
    return {name: value for name, value in environment.items() if name not in _ABOUT_JOB}


def _in_job(environment: dict[str, str]) -> str:
    return environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID") or ""


def _surrounding(command: SlurmCommand) -> str:
    return _in_job(command.environment) or command.environment.get("LATTICE_ALLOC_ID", "")


async def _confirmed(context: Context, text: str) -> Allocation:
    """The running allocation. Raises Fault as srun complains."""
    expired = f"{PROGRAM}: Check SLURM_JOB_ID environment variable. Expired or invalid job {text}"
    head = f"{PROGRAM}: error: Unable to confirm allocation for job {text}: "
    try:
        found = await find(context, text)
    except ApiError as problem:
        if problem.status >= 500:
            raise
        raise Fault(f"{head}Invalid job id specified", expired) from None
    record = found.record
    if found.is_ended:
        raise Fault(f"{head}Job/step already completing or completed", expired)
    if not isinstance(record, Allocation) or not (record.is_running or record.state is AllocationState.STARTING):
        raise Fault(f"{head}Job is pending execution", expired)
    return record


def _warned(job: Job) -> str:
    return "" if job.is_quiet else "".join(f"{PROGRAM}: warning: {text}\n" for text in job.warnings)


async def _alone(
    context: Context, command: SlurmCommand, job: Job, step: StepLine, words: tuple[str, ...], number: int
) -> SlurmAnswer:
    said = ""
    waited = number > 0
    tasks = job.ntasks or (1 if step.pty else 0)
    narrowed = narrowed_warning(tasks, job.min_nodes, is_named=bool(job.nodelist))
    if step.immediate:
        note = "--immediate has no effect on a new allocation: use --test-only to learn when it would start"
        job = replace(job, warnings=(*job.warnings, note))
    if narrowed:
        job = replace(job, min_nodes=tasks, max_nodes=0)
    if not number:
        submitted = await holding.submit(context, command, job, os.path.basename(words[0]), words)
        if isinstance(submitted, SlurmAnswer):
            return submitted
        number, said = submitted
        said = f"{PROGRAM}: warning: {narrowed}\n{said}" if narrowed and not job.is_quiet else said
    wait_s = holding.AGAIN_S if waited else holding.FIRST_S
    allocation = await holding.granted(context, number, wait_s, PROGRAM)
    if allocation is None:
        if not waited and not job.is_quiet:
            said += f"{PROGRAM}: job {number} queued and waiting for resources\n"
        return SlurmAnswer(stderr=said, resume=f"wait:{number}")
    if waited and not job.is_quiet:
        said += f"{PROGRAM}: job {number} has been allocated resources\n"
    try:
        return await _launched(context, command, job, step, words, allocation, said, f"end:{number}:CODE")
    except (Fault, ApiError):
        holding.finish(context, number, 1)
        raise


async def _launched(
    context: Context,
    command: SlurmCommand,
    job: Job,
    step: StepLine,
    words: tuple[str, ...],
    allocation: Allocation,
    said: str,
    resume: str = "",
) -> SlurmAnswer:
    require(context, Permission.LAUNCH)
    submission = _submission(command, job, step, words, allocation)
    if not resume and job.has_container:  # otherwise the allocation is made for this step, and has its container
        submission = replace_fields(submission, image=job.container_image, container=container_options(job))
    narrowed = narrowed_warning(submission.tasks, job.min_nodes or len(allocation.nodes), is_named=bool(job.nodelist))
    if narrowed and not job.is_quiet:
        said += f"{PROGRAM}: warning: {narrowed}\n"
    try:
        info = await launch(context, submission)
    except ApiError as problem:
        if problem.status >= 500:
            raise
        raise _refused(problem, allocation.number) from None
    except BadField as problem:
        raise error(PROGRAM, in_options(problem)) from None
    return SlurmAnswer(stderr=said, attend=_attended(command, job, step, allocation, info, resume))


def _refused(problem: ApiError, number: int) -> Fault:
    why = "More processors requested than permitted" if problem.code == "infeasible" else problem.view.message
    lines = [f"{PROGRAM}: error: Unable to create step for job {number}: {why}"]
    if problem.code == "infeasible":
        lines.append(f"{PROGRAM}: error: {problem.view.message}")
    return Fault(*lines)


def _submission(
    command: SlurmCommand, job: Job, step: StepLine, words: tuple[str, ...], allocation: Allocation
) -> StepSubmission:
    asked = allocation.asked or _NOTHING_ASKED
    nodes = len(allocation.nodes)
    if job.min_nodes > nodes:
        raise Fault(f"{PROGRAM}: error: Only allocated {nodes} nodes asked for {job.min_nodes}")
    inherited = command.environment.get("SLURM_NTASKS", "")
    # A terminal is for one task, however many the job has.
    tasks = job.ntasks or 1 if step.pty else task_count(job, inherited, asked.ntasks, nodes)
    variables = exporting.exported(command.environment, job.export)
    folder = os.path.normpath(os.path.join(command.cwd or "/", job.chdir))
    stdout, stderr = (_task_file(folder, name, job, allocation) for name in (job.output, job.error))
    return StepSubmission(
        id=allocation_id(allocation.number),
        request_id=command.request_id,
        argv=[] if step.multi_prog else list(words),
        programs=[ProgramFields(ranks=ranks, argv=argv) for ranks, argv in _programs(step, command)],
        tasks=tasks,
        nodes=min(job.min_nodes, tasks) if tasks else job.min_nodes,
        tasks_per_node=job.ntasks_per_node,
        cpus_per_task=max(1, job.cpus_per_task),
        node_list=list(job.nodelist),
        overcommit=step.overcommit,
        distribution=Distribution.CYCLIC if step.cyclic else Distribution.BLOCK,
        immediate=step.immediate,
        environment={**variables, "SLURM_JOB_ID": str(allocation.number)},
        inherit_environment=False,
        cwd=folder,
        input=_input(job, step),
        output=stdout,
        error=stderr,
        pty=step.pty,
        rows=24 if step.pty else 0,
        columns=80 if step.pty else 0,
        no_kill=not step.kills_on_failure,
        # A terminal in running work does not wait for its steps to end.
        overlap=step.overlap or bool(step.pty and step.jobid),
        pmi=step.mpi,
        cpu_bind=step.cpu_bind,
        gpu_bind=step.gpu_bind,
        task_prologue=step.task_prologue,
        gpus_per_task=job.gpus_per_task.number,
        time=f"{job.time_s}s" if job.time_s and job.time_s != UNLIMITED else "",
    )


def _programs(step: StepLine, command: SlurmCommand) -> list[tuple[str, list[str]]]:
    """`*` means the ranks that no line names; the rest of the wire counts them, so it comes first and is replaced."""
    if not step.multi_prog:
        return []
    programs = read_programs(command.script or "")
    others = [(f"0-{MAX_RANK}", argv) for ranks, argv in programs if ranks == "*"]
    return [*others, *((ranks, argv) for ranks, argv in programs if ranks != "*")]


def _input(job: Job, step: StepLine) -> str:
    if step.pty:
        return "0"
    word = job.input
    if word.isascii() and word.isdigit():
        return word
    if word == "none" or word == NOTHING:
        return "none"
    return word if is_per_task(word) else "all"


def _task_file(folder: str, pattern: str, job: Job, allocation: Allocation) -> str:
    """The pattern of files that the tasks open themselves; empty when the program writes the output."""
    if pattern == "none":
        return NOTHING
    if not is_per_task(pattern):
        return ""
    values = _values(job, allocation) | {"J": f"{allocation.number}.%s"}
    return os.path.join(folder, fill(pattern, values))


def _values(job: Job, allocation: Allocation) -> dict[str, str]:
    number = str(allocation.number)
    return {
        "j": number,
        "A": str(allocation.group) if allocation.group else number,
        "a": str(allocation.task_index) if allocation.group else NO_INDEX,
        "x": job.name or allocation.name,
        "u": allocation.account,
    }


def _attended(
    command: SlurmCommand, job: Job, step: StepLine, allocation: Allocation, info: StepInfo, resume: str
) -> SlurmStep:
    values = _values(job, allocation) | {"s": str(info.step), "J": f"{allocation.number}.{info.step}"}
    folder = os.path.normpath(os.path.join(command.cwd or "/", job.chdir))

    def own(pattern: str) -> str:
        is_here = pattern and pattern not in ("all", "none") and not is_per_task(pattern)
        return os.path.join(folder, fill(pattern, values)) if is_here else ""

    word = _input(job, step)
    return SlurmStep(
        allocation=allocation_id(allocation.number),
        step=info.step,
        tasks=info.tasks,
        label=step.label,
        stdin=own(job.input) if word == "all" else "",
        fed=word == "all" or word.isdigit(),
        pty=step.pty,
        stdout=own(job.output),
        stderr=own(job.error),
        append=step.open_mode.lower().startswith("a"),
        resume=resume,
    )
