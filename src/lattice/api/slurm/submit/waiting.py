"""`sbatch --wait`: answers with the exit code when the job has ended, or with the word to ask again."""

from lattice.api.context import Context
from lattice.api.find.lookup import Found, find, find_hot, find_number
from lattice.core.model.work.allocations import AllocationState
from lattice.wire.slurm.commands import SlurmAnswer

WAIT_S = 20.0


async def wait_for(context: Context, text: str) -> SlurmAnswer:
    """The exit code of the job; of an array the highest. Raises ApiError for an unknown id."""
    found = await find(context, text)
    clock, feed = context.services.clock, context.services.feed
    deadline = clock.monotonic_s() + WAIT_S
    while not found.is_ended:
        left = deadline - clock.monotonic_s()
        # Nothing may be awaited between looking and waiting, or a change could slip through.
        if left <= 0 or not await feed.next_change_of(found.number, left):
            break
        found = find_hot(context, found.number) or await find_number(context, found.number) or found
    return SlurmAnswer(code=exit_code(found)) if found.is_ended else SlurmAnswer(resume=text)


def exit_code(found: Found) -> int:
    """As Slurm's programs end: the code itself, 1 for what ended without one."""
    if found.state is AllocationState.COMPLETED:
        return 0
    record = found.record
    return record.exit_code or 1
