"""What `seff` prints of a job: how much of its CPUs and its memory it used."""

from collections.abc import Iterator

from lattice.slurm.listings.rows import JobRow
from lattice.slurm.text.times import format_span

NOT_STARTED = "Efficiency not available for jobs in the PENDING state."
STILL_RUNS = "WARNING: Efficiency statistics may be misleading for RUNNING jobs."
_UNITS = ("MB", "GB", "TB", "PB")


def seff_lines(job: JobRow, cluster: str, now: float) -> Iterator[str]:
    yield f"Job ID: {job.number}"
    if job.array_number:
        yield f"Array Job ID: {job.shown_id}"
    yield f"Cluster: {cluster}"
    yield f"User/Group: {job.user}/{job.group or job.user}"
    if job.state.is_waiting:
        yield f"State: {job.state.value[0]}"
        yield NOT_STARTED
        return
    yield (
        f"State: {job.state.value[0]}"
        if job.state.is_active
        else f"State: {job.state.value[0]} (exit code {job.exit_code})"
    )
    nodes = max(1, len(job.nodes))
    if nodes > 1:
        yield f"Nodes: {nodes}"
        yield f"Cores per node: {job.cpus // nodes}"
    else:
        yield f"Cores: {job.cpus}"
    wall_s = job.run_time_s(now)
    held_s = wall_s * job.cpus
    yield f"CPU Utilized: {format_span(int(job.cpu_s), short=False)}"
    yield f"CPU Efficiency: {_percent(job.cpu_s, held_s)} of {format_span(held_s, short=False)} core-walltime"
    yield f"Job Wall-clock time: {format_span(wall_s, short=False)}"
    yield f"Memory Utilized: {_size(job.peak_memory_mb)}"
    yield f"Memory Efficiency: {_percent(job.peak_memory_mb, job.held_memory_mb)} of {_size(job.held_memory_mb)}"
    if job.state.is_active:
        yield STILL_RUNS


def _percent(used: float, held: float) -> str:
    return f"{used / held * 100 if held else 0.0:.2f}%"


def _size(megabytes: float) -> str:
    for unit in _UNITS[:-1]:
        if megabytes < 1024:
            return f"{megabytes:.2f} {unit}"
        megabytes /= 1024
    return f"{megabytes:.2f} {_UNITS[-1]}"
