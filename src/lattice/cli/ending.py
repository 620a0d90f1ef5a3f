"""How an allocation ended, as an exit code and as a sentence."""

from lattice.cli.errors import FAILED_WITHOUT_CODE, INTERRUPTED, OK
from lattice_sdk.models import CANCELLED, COMPLETED, Allocation


def ending_code(allocation: Allocation) -> int:
    """0 when it completed, its own code, 128 + signal, 130 when cancelled, 125 without a code.

    A task group has the code and signal of the task that failed worst.
    """
    if allocation.state == COMPLETED:
        return OK
    if allocation.state == CANCELLED:
        return INTERRUPTED
    if allocation.signal:
        return 128 + allocation.signal
    return allocation.exit_code or FAILED_WITHOUT_CODE


def ending_text(allocation: Allocation) -> str:
    """Its id and state, and where that is not enough how it came to it."""
    told = f"{allocation.id} {allocation.state}"
    if allocation.state in {COMPLETED, CANCELLED}:
        return told
    counts = allocation.task_counts
    figures = [
        allocation.cause if allocation.cause not in {None, "exit", "signal"} else "",
        f"signal {allocation.signal}" if allocation.signal else "",
        f"exit code {allocation.exit_code}" if allocation.exit_code else "",
        f"{counts.failed} of {counts.size} tasks failed" if counts is not None else "",
        allocation.message or "",
    ]
    why = ", ".join(figure for figure in figures if figure)
    return f"{told} ({why})" if why else told
