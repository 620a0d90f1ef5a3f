"""Why it waits, and when it will start."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.find.lookup import Found, find, staging_reason
from lattice.api.find.prospects import Prospects, is_queued
from lattice.core.model.capacity.standing import standing
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import AllocationState, TaskGroup
from lattice.core.model.work.evictions import limits_of
from lattice.ports.scheduling import Outlook
from lattice.wire.text.endings import ending_of, group_ending_of
from lattice.wire.text.waiting import waiting_reason
from lattice.wire.work.allocations import held_tasks
from lattice.wire.work.explanations import (
    ExplanationView,
    StandingView,
    explanation_view,
    prediction_views,
    standing_view,
)

PREEMPTION_LEVEL = 2
_NOT_SEEN = "waiting for the next cycle"


class ExplainAllocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


async def explanation(context: Context, request: ExplainAllocation) -> ExplanationView:
    """Explain why an allocation, task or group is waiting, how it ranks, and when and where it is predicted to start."""
    found = await find(context, request.id)
    shown_id, head = allocation_id(found.number), found.head
    if not _waits(found):
        return ExplanationView(
            id=shown_id,
            state=found.state,
            reason=_ended_or_stopping(context, found),
            scores={},
            rank=None,
            predicted_start=None,
            predicted_nodes=(),
            standing=_standing(context, found),
        )
    scheduling = context.services.scheduling
    outlook = scheduling.outlook(found.number) or (scheduling.outlook(head.group) if head.group else None)
    outlook = outlook or Outlook(reason=_NOT_SEEN)
    candidates = scheduling.candidates(found.number) or (scheduling.candidates(head.group) if head.group else None)
    outlook = replace(outlook, candidates=candidates)
    now_ms = context.services.clock.now_ms()
    has_place = is_queued(head, now_ms)
    if not has_place:
        start = Prospects(context.state, scheduling, now_ms).earliest_start(head)
        outlook = replace(outlook, predicted_start=start, predicted_nodes=(), starts_now=False, candidates=None)
    held = held_tasks(found.record) if isinstance(found.record, TaskGroup) else ""
    explained = staging_reason(context, head) if head.state is AllocationState.STAGING else outlook.reason
    reason = held or waiting_reason(head, explained)
    view = explanation_view(outlook, allocation_id=shown_id, state=found.state, reason=reason)
    if not has_place:
        return replace(view, rank=None, scores={}, penalty=UNSET)
    points = scheduling.predictions(found.number) or (scheduling.predictions(head.group) if head.group else ())
    return replace(view, predictions=prediction_views(points))


def _standing(context: Context, found: Found) -> StandingView | UnsetType:
    """Of one that runs: until when it is safe, and what it would lose."""
    record, state = found.record, context.state
    if isinstance(record, TaskGroup) or not record.is_running or record.vcluster not in state.vclusters:
        return UNSET
    limits = limits_of(state.settings)
    if not limits.max_victims or state.level < PREEMPTION_LEVEL:
        return UNSET
    has_gpus = any(state.nodes[each.node].hardware.gpus if each.whole else each.gpus for each in record.shares)
    known = standing(record, state.vclusters, state.nodes, limits, context.services.clock.now_ms())
    return standing_view(known, "GPU" if has_gpus else "node")


def _ended_or_stopping(context: Context, found: Found) -> str:
    if isinstance(found.record, TaskGroup):
        return group_ending_of(found.record)
    starts = context.services.observations.start_of(found.number, found.head.run)
    return ending_of(found.record) or waiting_reason(found.head, starts)


def _waits(found: Found) -> bool:
    if isinstance(found.record, TaskGroup):
        return bool(found.record.pending)
    return found.record.is_waiting
