"""What the programs have in common: help, version, and the name of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.slurm.answering import version_line
from lattice.slurm.faults import error
from lattice.slurm.listings.listing import ListingLine
from lattice.slurm.submit.getopt import Grammar, Line
from lattice.slurm.submit.options import Takes, options_of
from lattice.slurm.submit.usage import help_text, usage_text
from lattice.slurm.text.numbers import whole
from lattice.slurm.text.times import format_date
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

_POLL_S = 20.0


def asks_for_help(line: ListingLine) -> bool:
    return line.has("help", "usage", "version")


def helped(grammar: Grammar, line: ListingLine) -> SlurmAnswer:
    """Version, or all options."""
    if line.which("help", "usage", "version") == "version":
        return SlurmAnswer(stdout=version_line())
    options = list(dict.fromkeys(grammar.long.values()))
    shown = [f"Usage: {grammar.program} [OPTIONS]"]
    for option in sorted(options, key=lambda each: each.name.lower()):
        short = f"-{option.short}, " if option.short else "    "
        shown.append(f"  {short}--{option.name}{'' if option.takes is Takes.NOTHING else '=value'}")
    return SlurmAnswer(stdout="\n".join(shown) + "\n")


def about(program: str, line: Line) -> SlurmAnswer | None:
    """What --help, --usage and --version of sbatch, salloc and srun print; the first of them counts."""
    for given in line.given:
        match given.option.name:
            case "help":
                return SlurmAnswer(stdout=help_text(program, options_of(program)))
            case "usage":
                return SlurmAnswer(stdout=usage_text(program))
            case "version":
                return SlurmAnswer(stdout=version_line())
    return None


async def repeated(
    context: Context, command: SlurmCommand, every: str, make: Callable[[], Awaitable[SlurmAnswer]]
) -> SlurmAnswer:
    """The answer, and with `--iterate` the word with which the program asks for the next one, which comes when it is due."""
    clock = context.services.clock
    if not every:
        return await make()
    asked_for = whole(command.resume)
    if asked_for is not None:
        left_s = (asked_for - clock.now_ms()) / 1000
        await asyncio.sleep(max(0.0, min(left_s, _POLL_S)))
        if left_s > _POLL_S:
            return SlurmAnswer(resume=command.resume)
    answer = await make()
    if answer.code:
        return answer
    now_ms = clock.now_ms()
    due = str(now_ms + max(1, whole(every) or 0) * 1000)
    return replace(answer, stdout=f"{format_date(now_ms / 1000)}\n{answer.stdout}\n", resume=due)


def check_clusters(context: Context, program: str, line: ListingLine) -> None:
    """Raises Fault for another cluster than this one."""
    own = context.services.slurm.cluster
    for name in line.items("clusters"):
        if name not in (own, "all"):
            raise error(
                program,
                f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
                "Use 'sacctmgr list clusters' to see available clusters.",
            )
