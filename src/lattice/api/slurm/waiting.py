"""`sbatch --wait`: answers with the exit code when the job has ended, or with the word to ask again."""

from lattice.api.context import Context
from lattice.api.lookup import Found, find
from lattice.api.operations.allocations import WaitForAllocation, wait
from lattice.core.model.allocations import AllocationState
from lattice.wire.slurm import SlurmAnswer

WAIT_S = 20.0


async def wait_for(context: Context, text: str) -> SlurmAnswer:
    """The exit code of the job; of an array the highest. Raises ApiError for an id that nobody handed out."""
    await wait(context, WaitForAllocation(id=text, timeout=WAIT_S))
    found = await find(context, text)
    return SlurmAnswer(code=exit_code(found)) if found.is_ended else SlurmAnswer(resume=text)


def exit_code(found: Found) -> int:
    """As Slurm's programs end: the code itself, 1 for what ended without one."""
    if found.state is AllocationState.COMPLETED:
        return 0
    record = found.record
    return record.exit_code or 1
