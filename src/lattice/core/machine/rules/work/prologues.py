"""A site's prologue that failed on a node is the node's fault: the allocation is tried elsewhere, a limited number of times.

It counts neither as a failure of the work nor against its limit of requeues, whatever its policy says. The node is left out for
this allocation alone, unless that would leave too few nodes that suit it. See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.rules.work.submission import check_feasible
from lattice.core.machine.state import State
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, Cause, Part, StopIntent

Events = tuple[ev.AnyEvent, ...]
MAX_RETRIES = "scheduling.max_prologue_retries"


def retried(state: State, allocation: Allocation, events: Events) -> Events:
    """The events of a part's end, with another try in the place of the allocation's end where a prologue was to blame."""
    if not isinstance(events[-1], ev.AllocationEnded | ev.AllocationRequeued):
        return events
    if allocation.intent not in (None, StopIntent.PART_FAILED):
        return events
    failed = next((part for part in _parts(allocation, events) if part.prologue_failed), None)
    if failed is None or allocation.prologue_failures >= int(setting_value(state.settings, MAX_RETRIES)):
        return events
    again = ev.AllocationRequeued(
        number=allocation.number,
        counted=False,
        eligible_at=0,
        message=f"requeued: {_why(state, failed)}",
        prologue_failed=True,
        avoid=failed.node if _suffices_without(state, allocation, failed.node) else "",
    )
    return (*events[:-1], again)


def _parts(allocation: Allocation, events: Events) -> list[Part]:
    changed = [event.part for event in events if isinstance(event, ev.PartChanged)]
    return [*changed, *allocation.parts]


def _suffices_without(state: State, allocation: Allocation, node: str) -> bool:
    request = replace(allocation.request, exclude=(*allocation.request.exclude, node))
    return check_feasible(state, request, state.vclusters[allocation.vcluster]) is None


def _why(state: State, failed: Part) -> str:
    if state.level >= 2 and failed.cause is Cause.NODE:
        return f"node {failed.node} could not start it: {failed.message}"
    return f"the prologue failed on node {failed.node}: {failed.message}"
