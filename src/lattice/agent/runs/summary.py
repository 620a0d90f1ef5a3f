"""The last line of a run's stderr, on request: how it ended, how long it took, what it used of what it had.

It is written once, after the last byte of the run itself and before its output is stored; a file beside it remembers that.
"""

import logging
import os
from pathlib import Path

from lattice.agent.machine.state import End, Run
from lattice.agent.runs.folders import RunFolders
from lattice.ports.nodes.agents import EndCause, StartOrder

_DONE = "summarised"
_log = logging.getLogger(__name__)


def summarise(folders: RunFolders, run: Run | None, about: dict[str, object]) -> None:
    """Writes the line of a run that ended and wants one; what went wrong is logged with `about`."""
    order = folders.order(run.key) if run is not None and run.summary else None
    if run is None or run.end is None or order is None:
        return
    try:
        write_summary(folders.path(run.key), order, run.end)
    except OSError as error:
        _log.warning("no summary of %s: %s", run.key, error, extra=about)


def write_summary(folder: Path, order: StartOrder, end: End) -> None:
    """Appends the line unless that was done before."""
    try:
        os.close(os.open(folder / _DONE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    with (folder / "stderr").open("ab") as file:
        file.write(summary_line(order, end).encode())


def summary_line(order: StartOrder, end: End) -> str:
    memory = f"peak memory {end.peak_memory_mb} MB" + _percent(end.peak_memory_mb, order.memory_mb)
    cpu = f"CPU {_clock(end.cpu_s)}" + _percent(end.cpu_s, end.elapsed_s * order.cpus)
    return f"lattice: {order.allocation_id} {_how(end)} after {_clock(end.elapsed_s)}, {cpu}, {memory}\n"


def _how(end: End) -> str:
    if end.cause is EndCause.EXIT:
        return f"ended with exit code {end.exit_code}"
    if end.cause is EndCause.SIGNAL:
        return f"was killed by signal {end.signal}"
    return f"ended: {end.cause.value}"


def _percent(used: float, held: float) -> str:
    return f" ({100 * used / held:.1f}%)" if held > 0 else ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{rest:02d}"
