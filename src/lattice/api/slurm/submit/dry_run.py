"""`--test-only`: when and where a job would start, without submitting it."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.slurm.answering import complained
from lattice.api.submit.dry_run import predict
from lattice.core.machine.commands import SubmitAllocation
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.times import format_moment
from lattice.wire.slurm.commands import SlurmAnswer
from lattice.wire.text.times import parse_moment


async def predicted(context: Context, command: SubmitAllocation, program: str, partition: str) -> SlurmAnswer:
    """The line that Slurm prints on stderr; one that can never start is a failure."""
    never = "allocation failure: Requested node configuration is not available"
    if command.asked is not None and command.asked.never:
        return complained(never)
    try:
        found = await predict(context, command)
    except ApiError as problem:
        if problem.status >= 500:
            raise
        return complained(never, f"{program}: error: {problem.view.message}")
    now_ms = context.services.clock.now_ms()
    starts_ms = parse_moment(found.predicted_start, "start") if found.predicted_start is not None else now_ms
    nodes = context.state.nodes
    cpus = sum(nodes[name].hardware.cpus for name in found.predicted_nodes if name in nodes)
    when = format_moment(max(starts_ms, now_ms) / 1000)
    where = f" on nodes {fold(found.predicted_nodes)}" if found.predicted_nodes else ""
    number = context.state.next_number
    text = f"Job {number} to start at {when} using {cpus or 1} processors{where} in partition {partition}"
    return complained(f"{program}: {text}", code=0)
