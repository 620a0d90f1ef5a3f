"""Updates of services: another revision, the one before again, and what there was."""

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find, find_hot
from lattice.api.limits import MAX_WAIT_S
from lattice.api.running.step_launch import own
from lattice.api.submit.images import resolve_images, with_image_fields
from lattice.core.machine.commands import ReviseService, RollBackService
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.work.payloads import MAX_PAYLOAD_BYTES, decode_work, encode_work
from lattice.wire.work.rollouts import (
    RevisionsView,
    ServiceRollback,
    ServiceUpdate,
    as_submission,
    is_probed,
    max_unavailable,
    note_of,
    ready_within_s,
    revised_work,
    revisions_view,
)


class RevisionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With a `timeout` the answer comes when the update that is on its way is over, or with the time."""

    id: Short
    timeout: float = 0.0


async def update_service(context: Context, request: ServiceUpdate) -> RevisionsView:
    """Run something else in a service, node by node: the next instance when the last is ready, all back when one is not in time."""
    record = await _own_service(context, request.id)
    at_once, within_s = max_unavailable(request.max_unavailable), ready_within_s(request.ready_within)
    submission = with_image_fields(as_submission(request, record.tenant, record.exposes))
    images = await resolve_images(context, submission)
    lacking = [name for name in images.features if name not in record.request.features]
    if lacking:
        raise ApiError(
            "conflict",
            f"{allocation_id(record.number)} was given nodes without regard to {lacking[0]}",
            hint="submit it as another service with this image, and cancel the old one when the new one is ready",
        )
    # Read after the last wait, so that nothing else was decided in between.
    record = await _own_service(context, request.id)
    payload = context.state.payloads.get(record.number)
    if payload is None:
        raise _ended(record)
    old = decode_work(payload)
    new = revised_work(old, request, submission, images)
    encoded = encode_work(new)
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise BadField(
            "",
            "script, arguments and environment are too large",
            current=f"{len(encoded):,} bytes after compression",
            limit=f"{MAX_PAYLOAD_BYTES:,} bytes after compression",
        )
    command = ReviseService(
        number=record.number,
        base=record.revision,
        payload=encoded,
        probed=is_probed(new),
        note=note_of(request, old, new),
        max_unavailable=at_once,
        ready_within_s=within_s,
    )
    await context.carry_out(command, request.request_id)
    return await _view(context, request.id)


async def roll_back_service(context: Context, request: ServiceRollback) -> RevisionsView:
    """Take an update of a service back, or run an earlier revision again."""
    record = await _service(context, request.id, Permission.CHANGE)
    if request.to < 0:
        raise BadField("to", f"{request.to} is no revision", hint="`lattice service history` lists them")
    command = RollBackService(
        number=record.number,
        to=request.to - 1 if request.to else None,
        max_unavailable=max_unavailable(request.max_unavailable),
        ready_within_s=ready_within_s(request.ready_within),
    )
    await context.carry_out(command, request.request_id)
    return await _view(context, request.id)


async def list_revisions(context: Context, request: RevisionsQuery) -> RevisionsView:
    """What a service runs and ran; with `timeout`, once the update that is on its way is over."""
    if not 0 <= request.timeout <= MAX_WAIT_S:
        raise BadField("timeout", f"{request.timeout:g} is not possible", limit=f"from 0 to {MAX_WAIT_S:g} s")
    clock, feed = context.services.clock, context.services.feed
    record = await _service(context, request.id, Permission.READ)
    deadline = clock.monotonic_s() + request.timeout
    while record.rollout is not None and record.rollout.is_open and not record.is_terminal:
        left = deadline - clock.monotonic_s()
        if left <= 0 or feed.is_closed:
            break
        await feed.next_change_of(record.number, left)
        hot = find_hot(context, record.number)
        if hot is None or not isinstance(hot.record, Allocation):
            break
        record = hot.record
    return _shown(context, record)


async def _view(context: Context, name: str) -> RevisionsView:
    return _shown(context, await _service(context, name, Permission.READ))


def _shown(context: Context, record: Allocation) -> RevisionsView:
    kept = context.state.revisions.of(record.number).values()
    return revisions_view(record, kept, context.services.observations.readiness)


async def _own_service(context: Context, name: str) -> Allocation:
    """What an update names runs as the owner, so no other user may give one; to take one back, CHANGE is enough."""
    found = await find(context, name)
    own(context, found, name)
    return _checked(found)


async def _service(context: Context, name: str, permission: Permission) -> Allocation:
    return _checked(await find(context, name, permission))


def _checked(found: Found) -> Allocation:
    record = found.record
    if not isinstance(record, Allocation) or not record.has_instances:
        raise ApiError(
            "conflict",
            f"{allocation_id(found.number)} is no service with an instance on each node",
            hint="only unbounded and reactive work has revisions; `lattice update` changes other work that waits",
        )
    return record


def _ended(record: Allocation) -> ApiError:
    label = allocation_id(record.number)
    return ApiError("conflict", f"{label} is {record.state}", hint=f"submit it again: lattice resubmit {label}")
