"""`scrontab`: is not there, and says what to use instead."""

from lattice.api.context import Context
from lattice.api.slurm.answering import complained, version_line
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

LINES = (
    "scrontab: error: repeated jobs are not supported by Lattice",
    "scrontab: error: use cron on a login node (crontab -e), with a line such as: 0 4 * * * sbatch /path/to/job.sh",
    "scrontab: error: or end a job with: sbatch --begin=now+1day /path/to/job.sh",
)


async def run(_context: Context, command: SlurmCommand) -> SlurmAnswer:
    if any(word in ("-V", "--version") for word in command.argv):
        return SlurmAnswer(stdout=version_line())
    return complained(*LINES)
