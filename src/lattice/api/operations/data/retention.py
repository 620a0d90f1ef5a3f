"""What is kept of work that has ended, for how long, and keeping it for longer."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.core.model.ids import allocation_id, parse_allocation_id
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStore, ObjectStoreError
from lattice.wire.bounds import Short
from lattice.wire.files import retained
from lattice.wire.files.retained import Mark, Retained
from lattice.wire.text.times import rfc3339

MAX_SHOWN = 1_000

_log = logging.getLogger(__name__)


class RetentionQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept."""


class KeepRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keep` false: it goes again when its time is over."""

    id: Short
    keep: bool = True
    request_id: str = ""


class RetainedView(Struct, frozen=True, kw_only=True):
    id: str
    user: str
    checkpoints: int
    bytes: int
    ended_at: str | None
    until: str | None  # when its checkpoints go; none = they stay, or there are none
    kept: bool  # somebody said that it stays
    kept_by: str


class RetentionView(Struct, frozen=True, kw_only=True):
    """Seconds; 0 = for good."""

    logs_s: float
    checkpoints_s: float
    traces_s: float
    output_s: float
    items: tuple[RetainedView, ...]


async def list_retention(context: Context, request: RetentionQuery) -> RetentionView:
    """List how long logs, checkpoints and traces are kept, and what is kept of ended work of the caller's reach."""
    marks, ended = await _read(context)
    policy = context.services.log_retention
    views = []
    for number in sorted({*marks, *ended}, reverse=True):
        about: Mark | Retained = ended[number] if number in ended else marks[number]
        if context.covers(Permission.READ_DETAILS, user=about.user, tenant=about.tenant):
            views.append(_view(number, marks.get(number), ended.get(number), policy.checkpoints_s))
    return RetentionView(
        logs_s=policy.default_s,
        checkpoints_s=policy.checkpoints_s,
        traces_s=policy.traces_s,
        output_s=0.0,
        items=tuple(views[:MAX_SHOWN]),
    )


async def keep_retained(context: Context, request: KeepRequest) -> RetainedView:
    """Keep the logs and checkpoints of an allocation for good, or let them go when their time is over."""
    found = await find(context, request.id, Permission.CHANGE)
    objects, number = _store(context), found.number
    mark = None
    try:
        if request.keep:
            head = found.head
            now = context.services.clock.now_ms()
            mark = Mark(number=number, user=head.user, tenant=head.tenant, by=context.user, at=now)
            await objects.put(retained.kept_name(number), retained.write(mark))
        else:
            await objects.delete(retained.kept_name(number))
        ended = await _ended(objects, number)
    except ObjectStoreError as error:
        raise ApiError("unavailable", f"the object store does not answer: {error}", hint="try again later") from error
    return _view(number, mark, ended, context.services.log_retention.checkpoints_s)


def _store(context: Context) -> ObjectStore:
    if context.services.objects is None:
        raise ApiError("unavailable", "this cluster has no object store", hint="nodes keep what they have")
    return context.services.objects


async def _read(context: Context) -> tuple[dict[int, Mark], dict[int, Retained]]:
    objects = _store(context)
    marks: dict[int, Mark] = {}
    ended: dict[int, Retained] = {}
    try:
        async for name in objects.names(retained.KEPT):
            with _skipping(name):
                mark = retained.read_mark(await objects.get(name))
                marks[mark.number] = mark
        async for name in objects.names(retained.ENDED):
            number = parse_allocation_id(name.removeprefix(retained.ENDED)) or 0
            found = await _ended(objects, number)
            if found is not None:
                ended[number] = found
    except ObjectStoreError as error:
        raise ApiError("unavailable", f"the object store does not answer: {error}", hint="try again later") from error
    return marks, ended


async def _ended(objects: ObjectStore, number: int) -> Retained | None:
    name = retained.ended_name(number)
    found: Retained | None = None
    with _skipping(name):
        found = retained.read_retained(await objects.get(name))
    return found


@contextmanager
def _skipping(name: str) -> Iterator[None]:
    """One object that went meanwhile, or that cannot be read, hides no other."""
    try:
        yield
    except ObjectMissing:
        pass
    except msgspec.MsgspecError as error:
        _log.warning("%s cannot be read: %s", name, error)


def _view(number: int, mark: Mark | None, ended: Retained | None, checkpoints_s: float) -> RetainedView:
    goes = ended is not None and mark is None and bool(checkpoints_s)
    return RetainedView(
        id=allocation_id(number),
        user=ended.user if ended is not None else mark.user if mark is not None else "",
        checkpoints=0 if ended is None else ended.count,
        bytes=0 if ended is None else ended.bytes,
        ended_at=None if ended is None else rfc3339(ended.ended_at),
        until=rfc3339(ended.ended_at + int(checkpoints_s * 1000)) if goes and ended is not None else None,
        kept=mark is not None,
        kept_by=mark.by if mark is not None else "",
    )
