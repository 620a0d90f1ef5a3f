"""The site's word on a submission: its filter may refuse it, change it or warn, whichever way it came.

What the filter changes is checked like what a user writes. When it fails, the submission is refused, unless the site chose otherwise.
"""

import logging

import msgspec

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.defaults import PreparedSubmission
from lattice.ports.site.submit_filter import FilterFailed
from lattice.wire.files.submit_filter import FilterAnswer, changed, filter_question, read_filter_answer
from lattice.wire.text.problems import BadField

MAX_MESSAGE = 1000
MAX_WARNINGS = 20

_log = logging.getLogger(__name__)


async def screen(context: Context, prepared: PreparedSubmission) -> None:
    """Lets the filter judge and change the submission. Raises ApiError."""
    asked = context.services.submit_filter
    if asked is None:
        return
    try:
        answer = read_filter_answer(await asked.ask(filter_question(prepared.command, context.identity.roles)))
        if answer.action == "refuse":
            raise _refused(answer)
        command = changed(prepared.command, answer.changes)
    except (FilterFailed, msgspec.MsgspecError, ValueError) as error:
        _log.error("the submit filter failed: %s", error, extra={"user": context.user})
        if not asked.accepts_on_failure:
            raise _unjudged(error) from error
        return
    if command.vcluster != prepared.command.vcluster:
        prepared.chosen_by = ""
    prepared.command = command
    prepared.warnings += [text[:MAX_MESSAGE] for text in answer.warnings[:MAX_WARNINGS]]


def _refused(answer: FilterAnswer) -> ApiError:
    message = answer.message.strip()[:MAX_MESSAGE] or "the site does not accept this submission"
    return ApiError("policy", message, hint=answer.hint[:MAX_MESSAGE])


def _unjudged(error: Exception) -> ApiError:
    if isinstance(error, BadField):
        return ApiError("internal", "the site's submit filter made a change that cannot be accepted")
    return ApiError(
        "unavailable", "the site's submit filter cannot be asked now; nothing was submitted", hint="try again later"
    )
