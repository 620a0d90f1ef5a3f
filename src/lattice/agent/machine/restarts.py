"""Whether and when an instance of a service is started again on its node. Pure; docs/architecture/services.md.

At once, then after 1, 2, 4 ... 60 seconds. Ten minutes of health make the next end the first one again. Five failures in a row, and
the node gives the instance up: it may do better elsewhere.
"""

from typing import NamedTuple

from msgspec.structs import replace

from lattice.agent.machine.state import End
from lattice.core.model.work.allocations import MAX_ATTEMPT, Restart
from lattice.ports.nodes.agents import EndCause, StartOrder

HEALTHY_S = 600.0
LONGEST_DELAY_S = 60.0
MAX_FAILURES = 5
# Ends that are no fault of the instance, or that somebody asked for.
_FINAL = frozenset({EndCause.STOPPED, EndCause.WALLTIME, EndCause.NODE, EndCause.PROLOGUE})


class Again(NamedTuple):
    """The next attempt: what the order says of it, and how long it waits."""

    order: StartOrder
    delay_s: float


def again(order: StartOrder, end: End) -> Again | None:
    """The next attempt after this end; None when the instance is over."""
    if order.restart not in (Restart.ALWAYS, Restart.ON_FAILURE) or end.cause in _FINAL:
        return None
    is_good = end.cause is EndCause.EXIT and end.exit_code == 0
    if (is_good and order.restart == Restart.ON_FAILURE) or order.attempt >= MAX_ATTEMPT:
        return None
    failures, streak = failures_after(order, end)
    if failures >= MAX_FAILURES:
        return None
    delay_s = min(LONGEST_DELAY_S, float(1 << min(streak - 1, 10))) if streak else 0.0
    # The walltime counts from the first attempt.
    walltime_s = max(1.0, order.walltime_s - end.elapsed_s - delay_s) if order.walltime_s else 0.0
    following = replace(order, attempt=order.attempt + 1, failures=failures, streak=streak + 1, walltime_s=walltime_s)
    return Again(following, delay_s)


def failures_after(order: StartOrder, end: End) -> tuple[int, int]:
    """Failures in a row up to this end, and restarts before it without a long health between them."""
    is_healthy = end.elapsed_s >= HEALTHY_S
    is_good = end.cause is EndCause.EXIT and end.exit_code == 0
    failures = 0 if is_good else (0 if is_healthy else order.failures) + 1
    return failures, 0 if is_healthy else order.streak


def given_up(order: StartOrder, end: End) -> End:
    """The end of an instance that is over; one that failed too often says so."""
    is_restarted = order.restart in (Restart.ALWAYS, Restart.ON_FAILURE) and end.cause not in _FINAL
    if not is_restarted or failures_after(order, end)[0] < MAX_FAILURES:
        return end
    how = end.message or (f"signal {end.signal}" if end.signal else f"exit code {end.exit_code}")
    return replace(end, message=f"it failed {MAX_FAILURES} times in a row: {how}")
