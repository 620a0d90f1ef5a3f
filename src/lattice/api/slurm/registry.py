"""Every Slurm command that the server answers, by its name. A command is a module with `run`."""

from collections.abc import Awaitable, Callable, Mapping

from lattice.api.context import Context
from lattice.api.slurm.commands import (
    sacct,
    sacctmgr,
    salloc,
    sattach,
    sbatch,
    scancel,
    scontrol,
    sdiag,
    sinfo,
    sprio,
    squeue,
    srun,
    sshare,
    sstat,
)
from lattice.api.slurm.reports import scrontab, seff, sreport
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

Run = Callable[[Context, SlurmCommand], Awaitable[SlurmAnswer]]

# Their writes need no confirmation that what this server has is the newest.
SUBMITTERS = frozenset({"sbatch", "salloc", "srun"})

PROGRAMS: Mapping[str, Run] = {
    "sacct": sacct.run,
    "sacctmgr": sacctmgr.run,
    "salloc": salloc.run,
    "sattach": sattach.run,
    "sbatch": sbatch.run,
    "scancel": scancel.run,
    "scontrol": scontrol.run,
    "scrontab": scrontab.run,
    "sdiag": sdiag.run,
    "seff": seff.run,
    "sinfo": sinfo.run,
    "sprio": sprio.run,
    "squeue": squeue.run,
    "sreport": sreport.run,
    "srun": srun.run,
    "sshare": sshare.run,
    "sstat": sstat.run,
}
