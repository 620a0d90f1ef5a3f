"""`seff`: how well a job used what it held."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import complained, printed, require, version_line
from lattice.api.slurm.rows.finding import behind, parse_job_id
from lattice.api.slurm.rows.jobs import Depth, JobRows
from lattice.core.model.work.allocations import TaskGroup
from lattice.slurm.listings.seff import seff_lines
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

USAGE = (
    "Usage: seff [Options] <Jobid>",
    "       Options:",
    "       -h    Help menu",
    "       -v    Version",
)


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    words = [word for word in command.argv if not word.startswith("-")]
    flags = {word for word in command.argv if word.startswith("-")}
    if flags & {"-v", "-V", "--version"}:
        return SlurmAnswer(stdout=version_line())
    if flags & {"-h", "--help", "--usage"}:
        return printed(*USAGE)
    unknown = flags - {"-d", "-f"}
    if unknown or len(words) != 1:
        return complained(*USAGE)
    require(context, Permission.READ)
    job = parse_job_id(words[0])
    entries = None if job is None else await behind(context, job)
    if not entries:
        return complained(f"Job not found: {words[0]}")
    maker = JobRows(context, Depth.FULL)
    now = context.services.clock.now_ms() / 1000
    cluster = context.services.slurm.cluster
    lines: list[str] = []
    for entry in entries:
        row = maker.waiting_row(entry) if isinstance(entry, TaskGroup) else maker.row(entry)
        lines += ["", *seff_lines(row, cluster, now)] if lines else seff_lines(row, cluster, now)
    return printed(*lines)
