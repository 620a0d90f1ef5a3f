"""Submit."""

from msgspec import UNSET
from msgspec.structs import replace

from lattice.api.answers import OtherStatus
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find_number, view_of
from lattice.api.limits import MAX_READ_HERE
from lattice.api.pacing import in_thread
from lattice.api.submit.checkpoints import with_resume_point
from lattice.api.submit.data import check_data, check_settled, with_output
from lattice.api.submit.defaults import PreparedSubmission, apply_defaults, settle
from lattice.api.submit.dependencies import with_dependencies
from lattice.api.submit.dry_run import predict
from lattice.api.submit.filter import screen
from lattice.api.submit.images import resolve_images, with_image_fields
from lattice.api.submit.scaling import check_metric
from lattice.api.submit.scratch import settle_scratch
from lattice.api.submit.site_images import settle_images
from lattice.api.tracing import with_trace
from lattice.core.model.work.allocations import RequeuePolicy
from lattice.wire.work.allocations import AllocationView
from lattice.wire.work.data import NO_DATA
from lattice.wire.work.dependencies import read_dependencies
from lattice.wire.work.explanations import ExplanationView
from lattice.wire.work.payloads import decode_work
from lattice.wire.work.submissions import Submission, Submitter, entries_of, submit_command


async def submit(context: Context, request: Submission) -> AllocationView | OtherStatus[ExplanationView]:
    """Submit an allocation or a task group; it is durable and visible when the call returns. With `dry_run`, only predict the outcome."""
    prepared = await _prepared(context, with_image_fields(request))
    if request.dry_run:
        return OtherStatus(200, await _foreseen(context, prepared))
    return await _submitted(context, prepared, request.request_id)


async def submit_session(context: Context, request: Submission) -> AllocationView:
    """An allocation to be worked in by hand."""
    prepared = await _prepared(context, with_image_fields(request))
    prepared.command = replace(prepared.command, session=True, requeue=RequeuePolicy.NEVER)
    return await _submitted(context, prepared, request.request_id)


async def _prepared(context: Context, request: Submission) -> PreparedSubmission:
    """The command, as the site's defaults and filters leave it."""
    request, identity = with_trace(context.trace, request), context.identity
    submitter = Submitter(
        user=identity.user,
        account=identity.account,
        tenant=context.chosen_tenant(Permission.SUBMIT, request.tenant),
        vcluster=context.default_vcluster,
    )
    request = with_output(context, request, submitter)
    images = await resolve_images(context, request)
    is_long = entries_of(request) > MAX_READ_HERE
    reading = request, submitter, images
    command = await in_thread(submit_command, *reading) if is_long else submit_command(*reading)
    check_metric(context, command.scaling)
    has_data = request.data != NO_DATA
    if has_data:
        await check_data(context, decode_work(command.payload), submitter.tenant, submitter.account)
    prepared = apply_defaults(context, command, names_vcluster=bool(request.vcluster))
    await screen(context, prepared)
    settle(context, prepared)
    if has_data or request.scratch:
        check_settled(context, prepared.command, submitter.tenant)
        await settle_scratch(context, prepared)
    await settle_images(context, prepared, request.uenv)
    if request.depends_on:
        prepared.command = await with_dependencies(context, prepared.command, read_dependencies(request.depends_on))
    if request.resume_from:
        prepared.command = await with_resume_point(context, prepared.command, request.resume_from)
    return prepared


async def _submitted(context: Context, prepared: PreparedSubmission, request_id: str) -> AllocationView:
    accepted = await context.carry_out(prepared.command, request_id)
    found = await find_number(context, accepted.number)
    if found is None:
        raise ApiError("conflict", "this request_id was used for something that is no submission")
    # No cycle has seen a new one yet; asking for its reason would cost more than the rest of the view.
    view = view_of(context, found, is_new=not accepted.repeated)
    if not prepared.warnings and not prepared.chosen_by:
        return view
    return replace(view, warnings=tuple(prepared.warnings) or UNSET, chosen_by=prepared.chosen_by or UNSET)


async def _foreseen(context: Context, prepared: PreparedSubmission) -> ExplanationView:
    predicted = await predict(context, prepared.command)
    return replace(
        predicted,
        vcluster=prepared.command.vcluster,
        chosen_by=prepared.chosen_by or UNSET,
        warnings=tuple(prepared.warnings) or UNSET,
    )
