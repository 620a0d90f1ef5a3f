"""`salloc`: an allocation for a program or a shell that runs where the command was typed."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.running.step_launch import launch
from lattice.api.running.terminal_launch import OWN_SHELL
from lattice.api.slurm.answering import require
from lattice.api.slurm.helping import about
from lattice.api.slurm.submit import exporting, holding
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.slurm.faults import error
from lattice.slurm.submit.environment import environment_options
from lattice.slurm.submit.getopt import Grammar, Line
from lattice.slurm.submit.job import Job, merge
from lattice.slurm.submit.options import options_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand, SlurmProgram, SlurmStep
from lattice.wire.slurm.variables import SlurmSettings, run_variables
from lattice.wire.work.steps import StepSubmission

PROGRAM = "salloc"
GRAMMAR = Grammar(PROGRAM, options_of(PROGRAM))
NAME = "interactive"
# Of the node that a batch script runs on; the program runs elsewhere.
_OF_NODE = (
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_GTIDS",
    "SLURMD_NODENAME",
    "SLURM_TOPOLOGY_ADDR",
    "SLURM_TOPOLOGY_ADDR_PATTERN",
    "SLURM_CPUS_ON_NODE",
    "SLURM_PRIO_PROCESS",
)


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    """Allocates, then has the program run; comes back when that has ended."""
    word, number, code = holding.resumed(PROGRAM, command.resume)
    line = GRAMMAR.read(command.argv)
    told = about(PROGRAM, line)
    if told is not None:
        return told
    if word == "end":
        holding.finish(context, number, 0)
        is_quiet = any(given.option.name == "quiet" for given in line.given)
        said = "" if is_quiet else f"{PROGRAM}: Relinquishing job allocation {number}\n"
        return SlurmAnswer(stderr=said, code=code)
    if word == "cancel":
        await holding.cancel(context, number, command.request_id)
        return SlurmAnswer(stderr=f"{PROGRAM}: Job allocation {number} has been revoked.\n", code=1)
    job = _job(context, command, line)
    if word == "wait":
        return await _answer(context, command, job, line, number, "", waited=True)
    name = line.words[0].rpartition("/")[2] if line.words else NAME
    submitted = await holding.submit(context, command, job, name, line.words)
    if isinstance(submitted, SlurmAnswer):
        return submitted
    return await _answer(context, command, job, line, submitted[0], submitted[1], waited=False)


def _job(context: Context, command: SlurmCommand, line: Line) -> Job:
    layers = [environment_options(GRAMMAR, command.environment), line.given]
    job = merge(layers, program=PROGRAM, now=context.services.clock.now_ms() / 1000)
    for cluster in filter(None, job.clusters.split(",")):
        if cluster not in (context.services.slurm.cluster, "all"):
            raise error(PROGRAM, f"No cluster '{cluster}' known by database.")
    return job


async def _answer(
    context: Context, command: SlurmCommand, job: Job, line: Line, number: int, said: str, *, waited: bool
) -> SlurmAnswer:
    wait_s = holding.AGAIN_S if waited else holding.FIRST_S
    allocation = await holding.granted(context, number, wait_s, PROGRAM)
    speaks = not job.is_quiet
    if allocation is None:
        if speaks and not waited:
            said += f"{PROGRAM}: Pending job allocation {number}\n"
            said += f"{PROGRAM}: job {number} queued and waiting for resources\n"
        return SlurmAnswer(stderr=said, resume=f"wait:{number}")
    if speaks and waited:
        said += f"{PROGRAM}: job {number} has been allocated resources\n"
    if speaks:
        said += f"{PROGRAM}: Granted job allocation {number}\n"
    if any(given.option.name == "no-shell" for given in line.given):
        return SlurmAnswer(stderr=said)
    if context.services.slurm.salloc_on_node and not line.words:
        return SlurmAnswer(stderr=said, attend=await _shell_on_node(context, command, allocation))
    program = SlurmProgram(
        argv=list(line.words), environment=_variables(context, allocation), resume=f"end:{number}:CODE"
    )
    return SlurmAnswer(stderr=said, spawn=program)


async def _shell_on_node(context: Context, command: SlurmCommand, allocation: Allocation) -> SlurmStep:
    """A shell on a terminal of the first node, where the site wants it there; it takes no CPUs, so steps run beside it."""
    require(context, Permission.LAUNCH)
    variables = exporting.exported(command.environment, "ALL")
    submission = StepSubmission(
        id=allocation_id(allocation.number),
        request_id=f"{command.request_id}-shell",
        argv=list(OWN_SHELL),
        tasks=1,
        nodes=1,
        node_list=list(allocation.nodes[:1]),
        environment={**variables, "SLURM_JOB_ID": str(allocation.number)},
        cwd=command.cwd or "/",
        pty=True,
        rows=24,
        columns=80,
        overlap=True,
        pmi="none",
    )
    try:
        step = await launch(context, submission)
    except ApiError as problem:
        holding.finish(context, allocation.number, 1)
        if problem.status >= 500:
            raise
        raise error(PROGRAM, f"cannot start a shell on {allocation.nodes[0]}: {problem.view.message}") from None
    return SlurmStep(
        allocation=step.allocation,
        step=step.step,
        tasks=1,
        pty=True,
        resume=f"end:{allocation.number}:CODE",
    )


def _variables(context: Context, allocation: Allocation) -> dict[str, str]:
    asked = allocation.asked
    submit_dir = "" if asked is None else asked.work_dir
    settings = SlurmSettings(cluster=context.services.slurm.cluster)
    found = run_variables(context.state, allocation, allocation.shares[0], submit_dir, settings)
    return {name: value for name, value in found.items() if name not in _OF_NODE}
