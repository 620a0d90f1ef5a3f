"""What would become of a submission, without submitting it."""

from lattice.api.context import Context
from lattice.api.errors import refused
from lattice.core.machine.commands import Envelope, SubmitAllocation
from lattice.core.machine.decide import decide
from lattice.core.machine.events import AllocationSubmitted, TaskGroupSubmitted
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.dependencies import waiting_sentence
from lattice.ports.scheduling import Outlook
from lattice.wire.work.explanations import ExplanationView, explanation_view


async def predict(context: Context, command: SubmitAllocation) -> ExplanationView:
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
            outlook = await context.services.scheduling.predict(record)
        case (TaskGroupSubmitted(group=group),):
            outlook = await context.services.scheduling.predict(group)
        case _:
            raise ValueError("a submission that submits nothing")
    return explanation_view(outlook, allocation_id=None, state=AllocationState.PENDING, reason=outlook.reason)
