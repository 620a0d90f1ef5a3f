"""Every Slurm command that the server answers, by its name. A command is a module with `run`."""

from collections.abc import Awaitable, Callable, Mapping

from lattice.api.context import Context
from lattice.api.slurm import sacct, sbatch, scancel, scontrol, sinfo, squeue
from lattice.wire.slurm import SlurmAnswer, SlurmCommand

Run = Callable[[Context, SlurmCommand], Awaitable[SlurmAnswer]]

# Their writes need no confirmation that what this server has is the newest.
SUBMITTERS = frozenset({"sbatch", "salloc", "srun"})

PROGRAMS: Mapping[str, Run] = {
    "sacct": sacct.run,
    "sbatch": sbatch.run,
    "scancel": scancel.run,
    "scontrol": scontrol.run,
    "sinfo": sinfo.run,
    "squeue": squeue.run,
}
