"""The site's word on a submission or a change of one: its filter may refuse it, change it or warn, whichever way it came.

What the filter changes is checked like what a user writes. When it fails, the request is refused, unless the site chose otherwise.
"""

import logging

import msgspec

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.defaults import PreparedSubmission, check_vcluster
from lattice.core.machine.commands import UpdateAllocation
from lattice.core.model.work.allocations import Allocation
from lattice.ports.site.submit_filter import FilterFailed, SubmitFilter
from lattice.wire.files.submit_filter import (
    FilterAnswer,
    changed,
    changed_update,
    filter_question,
    read_filter_answer,
    update_question,
)
from lattice.wire.text.problems import BadField

MAX_MESSAGE = 1000
MAX_WARNINGS = 20

_log = logging.getLogger(__name__)


async def screen(context: Context, prepared: PreparedSubmission) -> None:
    """Lets the filter judge and change the submission, and checks where it goes. Raises ApiError."""
    asked = context.services.submit_filter
    if asked is not None:
        await _screen(context, prepared, asked)
    check_vcluster(context, prepared)


async def _screen(context: Context, prepared: PreparedSubmission, asked: SubmitFilter) -> None:
    question = filter_question(prepared.command, context.user, context.identity.roles)
    answer = await _answer(context, asked, question)
    if answer is None:
        return
    try:
        command = changed(prepared.command, answer.changes)
    except BadField as error:
        if not _counts_unjudged(context, asked, error):
            raise _unjudged(error) from error
        return
    if command.vcluster != prepared.command.vcluster:
        prepared.chosen_by = ""
    prepared.command = command
    prepared.warnings += warnings_of(answer)


async def screen_update(
    context: Context, head: Allocation, wanted: UpdateAllocation
) -> tuple[UpdateAllocation, list[str]]:
    """The change as the filter lets it pass, and its warnings; it sees the allocation as it would be. Raises ApiError.

    Of what the filter changes, only what the request changes as well counts.
    """
    asked = context.services.submit_filter
    if asked is None:
        return wanted, []
    holder = head.group or head.number
    payload = context.state.payloads.get(holder)
    if payload is None:
        payload = await context.services.replica.archived_payload(holder)
    group = context.state.groups.get(head.number)
    tasks = 0 if group is None else group.size
    question = update_question(head, wanted, payload, context.user, context.identity.roles, tasks)
    answer = await _answer(context, asked, question)
    if answer is None:
        return wanted, []
    try:
        return changed_update(wanted, answer.changes), warnings_of(answer)
    except BadField as error:
        if not _counts_unjudged(context, asked, error):
            raise _unjudged(error) from error
        return wanted, []


async def _answer(context: Context, asked: SubmitFilter, question: bytes) -> FilterAnswer | None:
    """What the filter accepts; None when it failed and the site lets such requests pass. Raises ApiError."""
    try:
        answer = read_filter_answer(await asked.ask(question))
    except (FilterFailed, msgspec.MsgspecError, ValueError) as error:
        if not _counts_unjudged(context, asked, error):
            raise _unjudged(error) from error
        return None
    if answer.action == "refuse":
        raise _refused(answer)
    return answer


def warnings_of(answer: FilterAnswer) -> list[str]:
    return [text[:MAX_MESSAGE] for text in answer.warnings[:MAX_WARNINGS]]


def _counts_unjudged(context: Context, asked: SubmitFilter, error: Exception) -> bool:
    _log.error("the submit filter failed: %s", error, extra={"user": context.user})
    return asked.accepts_on_failure


def _refused(answer: FilterAnswer) -> ApiError:
    message = answer.message.strip()[:MAX_MESSAGE] or "the site does not accept this request"
    return ApiError("policy", message, hint=answer.hint[:MAX_MESSAGE])


def _unjudged(error: Exception) -> ApiError:
    if isinstance(error, BadField):
        return ApiError("internal", "the site's submit filter made a change that cannot be accepted")
    # Not "unavailable": clients would try again for a minute and then say that there is no server.
    return ApiError(
        "policy",
        "the site's submit filter failed; nothing was submitted or changed",
        hint="try again later; if it keeps failing, tell the administrators of the site",
    )
