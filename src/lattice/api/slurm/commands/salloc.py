"""`salloc`: an allocation for a program or a shell that runs where the command was typed."""

from lattice.api.context import Context
from lattice.api.slurm.helping import about
from lattice.api.slurm.submit import holding
from lattice.core.model.work.allocations import Allocation
from lattice.slurm.faults import error
from lattice.slurm.submit.environment import environment_options
from lattice.slurm.submit.getopt import Grammar, Line
from lattice.slurm.submit.job import Job, merge
from lattice.slurm.submit.options import options_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand, SlurmProgram
from lattice.wire.slurm.variables import SlurmSettings, run_variables

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
        return await _answer(context, job, line, number, "", waited=True)
    name = line.words[0].rpartition("/")[2] if line.words else NAME
    submitted = await holding.submit(context, command, job, name, line.words)
    if isinstance(submitted, SlurmAnswer):
        return submitted
    return await _answer(context, job, line, submitted[0], submitted[1], waited=False)


def _job(context: Context, command: SlurmCommand, line: Line) -> Job:
    layers = [environment_options(GRAMMAR, command.environment), line.given]
    job = merge(layers, program=PROGRAM, now=context.services.clock.now_ms() / 1000)
    for cluster in filter(None, job.clusters.split(",")):
        if cluster not in (context.services.slurm.cluster, "all"):
            raise error(PROGRAM, f"No cluster '{cluster}' known by database.")
    return job


async def _answer(context: Context, job: Job, line: Line, number: int, said: str, *, waited: bool) -> SlurmAnswer:
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
    program = SlurmProgram(
        argv=list(line.words), environment=_variables(context, allocation), resume=f"end:{number}:CODE"
    )
    return SlurmAnswer(stderr=said, spawn=program)


def _variables(context: Context, allocation: Allocation) -> dict[str, str]:
    asked = allocation.asked
    submit_dir = "" if asked is None else asked.work_dir
    settings = SlurmSettings(cluster=context.services.slurm.cluster)
    found = run_variables(context.state, allocation, allocation.shares[0], submit_dir, settings)
    return {name: value for name, value in found.items() if name not in _OF_NODE}
