"""`lattice logs --step`: what the tasks of a step wrote, of one rank or of all."""

from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError
from lattice.cli.views.task_output import MergedOutput
from lattice_sdk.models.steps import Step
from lattice_sdk.step_streams import STDERR, STDOUT, OutputGap, TaskOutput

ENDED = "ended"


def show_step(
    context: Context, allocation: str, number: int, *, rank: int | None, follow: bool, streams: tuple[str, ...]
) -> int:
    """Prints from the beginning of what its nodes keep; with `follow` until the step has ended."""
    step = context.client.get_step(allocation, number)
    if step.state != ENDED and not follow:
        raise CommandError(f"{step.id} is {step.state}", hint="--follow prints its output until it ends")
    if rank is not None and not 0 <= rank < max(step.tasks, 1):
        raise CommandError(f"{step.id} has no rank {rank}", hint=f"its ranks are 0 to {max(step.tasks, 1) - 1}")
    shown = {STDOUT: context.streams.stdout, STDERR: context.streams.stderr}
    wanted = {STDOUT: "stdout" in streams, STDERR: "stderr" in streams}
    output = MergedOutput(shown, step.tasks, label=step.tasks > 1 and rank is None, raw=False)
    stream = context.client.follow_step(allocation, number)
    try:
        for event in stream:
            if isinstance(event, TaskOutput):
                if wanted[event.stream] and rank in (None, event.rank):
                    output.write(event.rank, event.stream, event.data)
            elif isinstance(event, OutputGap):
                context.warn(f"{event.size:,} bytes of output are not kept any more")
            elif isinstance(event, Step):
                continue
        output.finish()
    finally:
        stream.close()
    return OK
