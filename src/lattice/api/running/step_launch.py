"""Launches steps for operations and Slurm commands, with the same checks and refusals."""

import hashlib

from msgspec.structs import replace

from lattice.api.auditing import record_access
from lattice.api.context import Context
from lattice.api.errors import ApiError, starting
from lattice.api.find.lookup import Found, find
from lattice.api.submit.containers import resolve_step_container
from lattice.api.submit.site_images import check_step_image
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.ports.nodes.steps import StepRefused, StepService
from lattice.wire.work.steps import StepInfo, StepSubmission, launch_request, step_info


async def launch(context: Context, request: StepSubmission) -> StepInfo:
    """Start tasks on the nodes of a running allocation, or queue them until there is room."""
    allocation = own(context, await find(context, request.id), request.id)
    if not (allocation.is_running or allocation.state is AllocationState.STARTING):
        raise not_running(allocation)
    await record_access(context, "allocation.launch", allocation)
    asked = launch_request(request, launch_id(context, request.request_id, allocation))
    container = await resolve_step_container(context, allocation, request)
    if container is not None:
        check_step_image(context, allocation.vcluster, container.image)
        asked = replace(asked, container=container)
    try:
        return step_info(await step_service_of(context).launch(allocation, asked))
    except StepRefused as refusal:
        raise refused(refusal) from None


def own(context: Context, found: Found, text: str) -> Allocation:
    """The allocation, if it is the caller's own: tasks run as its user, so no other user may start or feed any."""
    allocation = single(found)
    if allocation.user != context.user:
        raise ApiError(
            "forbidden",
            f"{allocation_id(allocation.number)} belongs to {allocation.user}",
            hint="only its owner may launch work in it",
        )
    return allocation


def single(found: Found) -> Allocation:
    if isinstance(found.record, TaskGroup):
        name = allocation_id(found.number)
        raise ApiError(
            "invalid",
            f"{name} is a task group",
            hint=f"name one of its tasks, such as {name}_{found.record.index_at(0)}",
        )
    return found.record


def step_service_of(context: Context) -> StepService:
    if context.services.steps is None:
        raise starting()
    return context.services.steps


def refused(refusal: StepRefused) -> ApiError:
    return ApiError(
        refusal.code,
        str(refusal),
        current=refusal.current,
        requested=refusal.requested,
        limit=refusal.limit,
        hint=refusal.hint,
    )


def not_running(allocation: Allocation) -> ApiError:
    if allocation.is_terminal:
        hint = "submit a new one"
    else:
        hint = f"wait until it runs: `lattice watch {allocation_id(allocation.number)}`"
    return ApiError(
        "conflict",
        f"{allocation_id(allocation.number)} is not running",
        current=str(allocation.state),
        hint=hint,
    )


def launch_id(context: Context, request_id: str, allocation: Allocation) -> str:
    """A name for the launch, the same for each repeat of one request."""
    seed = f"{context.user}/{request_id or context.request_id}"
    if not (request_id or context.request_id):
        seed = f"{context.services.boot}/{context.services.clock.monotonic_s()}/{id(context)}"
    digest = hashlib.sha256(f"{allocation.number}/{seed}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
