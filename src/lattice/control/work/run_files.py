"""Which files a run writes, with the patterns of their names filled in, and its signal before the limit. Pure."""

from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import EarlySignal, RunFiles
from lattice.slurm.text.patterns import fill
from lattice.wire.work.payloads import Work
from lattice.wire.work.run_files import OpenMode, OutputFiles, parse_early

NO_INDEX = str((1 << 32) - 2)  # what `%a` is outside of arrays
BATCH = "sbatch"
PER_NODE = ("%N", "%n")


def run_files(allocation: Allocation, work: Work, node: str) -> RunFiles | None:
    """None for a run whose output goes to the log store alone."""
    wanted = work.output or _asked_files(allocation)
    if wanted is None or not (wanted.stdout or wanted.stderr or wanted.stdin):
        return None
    values = _values(allocation, node)
    is_shared = len(allocation.launched) > 1 and not any(word in wanted.stdout for word in PER_NODE)
    return RunFiles(
        stdout=fill(wanted.stdout, values),
        stderr=fill(wanted.stderr, values),
        stdin=fill(wanted.stdin, values),
        # Parts that share a file must not empty it for each other.
        append=wanted.mode == "append" or is_shared,
    )


def _asked_files(allocation: Allocation) -> OutputFiles | None:
    asked = allocation.asked
    if asked is None or asked.program != BATCH:
        return None
    mode: OpenMode = "append" if asked.open_mode.lower().startswith("a") else "truncate"
    return OutputFiles(stdout=asked.stdout, stderr=asked.stderr, stdin=asked.stdin, mode=mode)


def _values(allocation: Allocation, node: str) -> dict[str, str]:
    number = str(allocation.number)
    return {
        "j": number,
        "J": number,
        "A": str(allocation.group) if allocation.group else number,
        "a": str(allocation.task_index) if allocation.group else NO_INDEX,
        "x": allocation.name,
        "u": allocation.account,
        "N": node.partition(".")[0],
        "n": str(allocation.nodes.index(node)) if node in allocation.nodes else "0",
        "t": "0",
        "s": "batch",
    }


def early_signal(allocation: Allocation, work: Work) -> EarlySignal | None:
    """The signal that the node sends by itself before the limit; from a Slurm command it is for the steps."""
    if work.signal:
        return parse_early(work.signal)
    asked = allocation.asked
    return parse_early(asked.signal, "steps") if asked is not None and asked.signal else None
