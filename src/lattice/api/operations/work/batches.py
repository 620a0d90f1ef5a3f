"""Submit many in one request: each has its own answer, and together they are one entry of the log where its size allows."""

import asyncio
from dataclasses import replace

import msgspec
from msgspec import Struct

from lattice.api.answers import OtherStatus
from lattice.api.context import Context
from lattice.api.errors import ErrorView, translated
from lattice.api.limits import MAX_BATCH
from lattice.api.operations.work.submit import submit
from lattice.wire.text.problems import BadField
from lattice.wire.work.allocations import AllocationView
from lattice.wire.work.submissions import Submission, check_together


class SubmissionBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission without a `request_id` gets that of the batch with its position in it."""

    submissions: list[Submission]
    request_id: str = ""


class BatchAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The allocation, or the reason for the refusal."""

    ok: bool
    allocation: AllocationView | None = None
    error: ErrorView | None = None


class BatchAnswers(Struct, frozen=True, kw_only=True):
    items: list[BatchAnswer]


async def submit_batch(context: Context, request: SubmissionBatch) -> BatchAnswers:
    """Submit several allocations or task groups; each is accepted or refused on its own, and all accepted ones are durable when the call returns."""
    wanted = request.submissions
    if not 1 <= len(wanted) <= MAX_BATCH:
        raise BadField("submissions", "wrong number", current=f"{len(wanted):,}", limit=f"from 1 to {MAX_BATCH:,}")
    check_together(wanted, "submissions")
    for place, each in enumerate(wanted):
        if each.dry_run:
            raise BadField(f"submissions[{place}].dry_run", "not in a batch", hint="ask for each one by itself")
    base = request.request_id or context.request_id
    # The request's own id names the batch; taken for each submission it would make all of them the same one.
    inner = replace(context, request_id="")
    return BatchAnswers(
        items=await asyncio.gather(*(_one(inner, each, _id(base, place, each)) for place, each in enumerate(wanted)))
    )


def _id(base: str, place: int, submission: Submission) -> str:
    return submission.request_id or (f"{base}.{place}" if base else "")


async def _one(context: Context, submission: Submission, request_id: str) -> BatchAnswer:
    try:
        answer = await submit(context, msgspec.structs.replace(submission, request_id=request_id))
    except Exception as error:  # noqa: BLE001 - one refusal must not spoil the others
        return BatchAnswer(ok=False, error=translated(error).view)
    if isinstance(answer, OtherStatus):
        raise TypeError("a submission of a batch answered with a forecast")
    return BatchAnswer(ok=True, allocation=answer)
