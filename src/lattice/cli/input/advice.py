"""What earlier runs of the same name used, for a person who asks for much more."""

from lattice.cli.context import Context
from lattice.cli.times import clock_text
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.records import COMPLETED, Allocation, AllocationFilter

LOOKED_AT = 5
MIN_RUNS = 3
# Only requests this large, and this much larger than what was used, are worth a word.
LARGE_S, LARGE_MB = 3600.0, 4096.0
TIMES_TOO_MUCH = 4
SPARE = 1.5
STEP_S, STEP_MB = 300, 1024


def advise_from_the_past(allocation: Allocation, context: Context) -> None:
    """One note at most; a server that does not answer is no reason to say anything."""
    walltime, memory = float(allocation.walltime_s or 0), float(allocation.resources.memory_mb or 0)
    if not allocation.name or (walltime < LARGE_S and memory < LARGE_MB):
        return
    wanted = AllocationFilter(name=allocation.name, user=allocation.user, states=(COMPLETED,))
    try:
        runs = context.client.history(wanted, limit=LOOKED_AT).items
    except LatticeError:
        return
    if text := advice(allocation.name, walltime, memory, runs):
        context.note(text)


def advice(name: str, walltime_s: float, memory_mb: float, runs: list[Allocation]) -> str:
    """Empty when there are too few runs to judge by, or the request fits them."""
    runs = [run for run in runs if run.elapsed_s]
    if len(runs) < MIN_RUNS:
        return ""
    longest = max(float(run.elapsed_s or 0) for run in runs)
    most = max(float(run.peak_memory_mb or 0) for run in runs)
    used, flags = [], []
    if memory_mb >= LARGE_MB and 0 < most * TIMES_TOO_MUCH <= memory_mb:
        used.append(f"{most / 1024:.1f} of {memory_mb / 1024:.0f} GB")
        flags.append(f"--memory={max(1, -(-int(most * SPARE) // STEP_MB))}G")
    if walltime_s >= LARGE_S and longest * TIMES_TOO_MUCH <= walltime_s:
        used.append(f"{clock_text(longest)} of {clock_text(walltime_s)}")
        flags.append(f"--walltime={max(1, -(-int(longest * SPARE) // STEP_S)) * STEP_S // 60}m")
    if not used:
        return ""
    return f"your last {len(runs)} runs of {name} used at most {' and '.join(used)}; {' '.join(flags)} may start sooner"
