"""How an allocation or a DAG ended, as an exit code and as a sentence."""

from lattice.cli.errors import FAILED_WITHOUT_CODE, INTERRUPTED, OK
from lattice_sdk.models.dags import Dag
from lattice_sdk.models.records import CANCELLED, COMPLETED, FAILED, Allocation

_SHOWN = 5


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
    """Its id and state, or the sentence about its end where it ended otherwise than well."""
    if allocation.ending:
        return allocation.ending
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


def dag_ending_code(dag: Dag) -> int:
    """0 when it completed, 130 when cancelled, else the highest code of its allocations that failed, 125 without one."""
    if dag.state == COMPLETED:
        return OK
    if dag.state == CANCELLED:
        return INTERRUPTED
    codes = [member.exit_code or 0 for member in dag.allocations if member.state == FAILED]
    return max(codes, default=0) or FAILED_WITHOUT_CODE


def dag_ending_text(dag: Dag) -> str:
    """Its id and state, and which of its allocations failed."""
    failed = [member.ref for member in dag.allocations if member.state == FAILED]
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    why = f" ({', '.join(failed[:_SHOWN])}{more} failed)" if failed and dag.state == FAILED else ""
    return f"{dag.id} {dag.state}{why}"
