"""One Slurm command line: read, carried out, and answered with what its program prints."""

from lattice.api.context import Context
from lattice.api.errors import ApiError, translated
from lattice.api.slurm.answering import faulty, refusal
from lattice.slurm.faults import Fault
from lattice.slurm.text.zones import zone_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand
from lattice.wire.text.problems import BadField


async def slurm_command(context: Context, request: SlurmCommand) -> SlurmAnswer:
    """Run a Slurm command. A refusal is a normal answer with Slurm's text and exit code."""
    # All of Slurm's commands; many servers are never asked for one.
    from lattice.api.slurm.registry import PROGRAMS, SUBMITTERS

    run = PROGRAMS.get(request.program)
    if run is None:
        known = ", ".join(sorted(PROGRAMS))
        raise ApiError("not_found", f'unknown program "{request.program[:40]}"', hint=f"known: {known}")
    before_read = context.services.before_read
    if before_read is not None and request.program not in SUBMITTERS:
        await before_read()
    try:
        with zone_of(request.environment):
            return await run(context, request)
    except Fault as fault:
        return faulty(fault)
    except (ApiError, BadField) as error:
        shown = translated(error)
        if shown.status >= 500:
            raise
        return refusal(request.program, shown)
