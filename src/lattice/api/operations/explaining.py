"""Why it waits, when it will start; and what would become of a submission, without submitting it."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import refused
from lattice.api.lookup import Found, find
from lattice.core.machine.commands import Envelope, SubmitAllocation
from lattice.core.machine.decide import decide
from lattice.core.machine.events import AllocationSubmitted, TaskGroupSubmitted
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.allocations import AllocationState, TaskGroup
from lattice.core.model.dependencies import waiting_sentence
from lattice.core.model.ids import allocation_id
from lattice.ports.scheduling import Outlook
from lattice.wire.allocations import waiting_reason
from lattice.wire.explanations import ExplanationView, explanation_view

_NOT_SEEN = "waiting for the next cycle"


class ExplainAllocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


async def explanation(context: Context, request: ExplainAllocation) -> ExplanationView:
    """Why one allocation, task or group waits, how it is ranked, when and where it will start as things are."""
    found = await find(context, request.id)
    shown_id, head = allocation_id(found.number), found.head
    if not _waits(found):
        return ExplanationView(
            id=shown_id,
            state=found.state,
            reason=waiting_reason(head, "") if not isinstance(found.record, TaskGroup) else "",
            scores={},
            rank=None,
            predicted_start=None,
            predicted_nodes=(),
        )
    scheduling = context.services.scheduling
    outlook = scheduling.outlook(found.number) or (scheduling.outlook(head.group) if head.group else None)
    outlook = outlook or Outlook(reason=_NOT_SEEN)
    reason = waiting_reason(head, outlook.reason)
    return explanation_view(outlook, allocation_id=shown_id, state=found.state, reason=reason)


def _waits(found: Found) -> bool:
    if isinstance(found.record, TaskGroup):
        return bool(found.record.pending)
    return found.record.state is AllocationState.PENDING


async def foresee(context: Context, command: SubmitAllocation) -> ExplanationView:
    """What would become of the submission now. Refused by the same rules; nothing is logged or changed."""
    at = max(context.services.clock.now_ms(), context.state.last_at)
    events = decide(context.state, Envelope(at=at, command=command, actor=context.user))
    if isinstance(events, Rejected):
        raise refused(events)
    match events:
        case (AllocationSubmitted(allocation=record),) if record.waits_for:
            outlook = Outlook(reason=waiting_sentence(record.waits_for))
        case (TaskGroupSubmitted(group=group),) if group.template.waits_for:
            outlook = Outlook(reason=waiting_sentence(group.template.waits_for))
        case (AllocationSubmitted(allocation=record),):
            outlook = await context.services.scheduling.foresee(record)
        case (TaskGroupSubmitted(group=group),):
            outlook = await context.services.scheduling.foresee(group)
        case _:
            raise ValueError("a submission that submits nothing")
    return explanation_view(outlook, allocation_id=None, state=AllocationState.PENDING, reason=outlook.reason)
