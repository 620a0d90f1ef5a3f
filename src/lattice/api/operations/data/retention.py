"""What is kept of work that has ended, for how long, and keeping it for longer."""

import asyncio
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
MAX_SEARCHED = 5_000  # allocations whose objects one question reads, the newest first
CONCURRENCY = 32  # objects that are read at the same time

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
    policy = context.services.log_retention
    try:
        views = await _views(context, policy.checkpoints_s)
    except ObjectStoreError as error:
        raise ApiError("unavailable", f"the object store does not answer: {error}", hint="try again later") from error
    return RetentionView(
        logs_s=policy.default_s,
        checkpoints_s=policy.checkpoints_s,
        traces_s=policy.traces_s,
        output_s=0.0,
        items=tuple(views),
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


async def _views(context: Context, checkpoints_s: float) -> list[RetainedView]:
    """The newest of the caller's reach. Raises ObjectStoreError."""
    objects = _store(context)
    kept = await _numbers(objects, retained.KEPT)
    ended = await _numbers(objects, retained.ENDED)
    wanted = [number for number in sorted(kept | ended, reverse=True) if _may_concern(context, number)]
    views: list[RetainedView] = []
    for start in range(0, min(len(wanted), MAX_SEARCHED), CONCURRENCY):
        piece = wanted[start : min(start + CONCURRENCY, MAX_SEARCHED)]
        marks = await asyncio.gather(*(_mark(objects, each if each in kept else 0) for each in piece))
        records = await asyncio.gather(*(_ended(objects, each if each in ended else 0) for each in piece))
        for number, mark, record in zip(piece, marks, records, strict=True):
            about = record or mark
            if about is not None and context.covers(Permission.READ_DETAILS, user=about.user, tenant=about.tenant):
                views.append(_view(number, mark, record, checkpoints_s))
        if len(views) >= MAX_SHOWN:
            break
    return views[:MAX_SHOWN]


async def _numbers(objects: ObjectStore, prefix: str) -> set[int]:
    found = {parse_allocation_id(name.removeprefix(prefix)) or 0 async for name in objects.names(prefix)}
    return found - {0}


def _may_concern(context: Context, number: int) -> bool:
    """Whether its objects have to be read: of work that the state still has, the reader is known without them."""
    record = context.state.allocations.get(number)
    return record is None or context.covers(Permission.READ_DETAILS, user=record.user, tenant=record.tenant)


async def _mark(objects: ObjectStore, number: int) -> Mark | None:
    name = retained.kept_name(number)
    found: Mark | None = None
    if number:
        with _skipping(name):
            found = retained.read_mark(await objects.get(name))
    return found


async def _ended(objects: ObjectStore, number: int) -> Retained | None:
    name = retained.ended_name(number)
    found: Retained | None = None
    if number:
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
