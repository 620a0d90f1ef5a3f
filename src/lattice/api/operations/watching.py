"""Watch: state changes as they happen."""

from collections.abc import AsyncGenerator

from msgspec import UNSET, Struct, UnsetType

from lattice.api.answers import EventAnswer, ServerEvent
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.limits import MAX_WATCHED_IDS
from lattice.api.lookup import find
from lattice.api.streams import Change, Feed
from lattice.core.model.ids import allocation_id
from lattice.wire.problems import BadField
from lattice.wire.times import rfc3339

_AT_ONCE = 256
_LONG_S = 3600.0


class WatchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ids: list[str] = []
    since: int | None = None
    last_event_id: str = ""


class Gap(Struct, frozen=True, kw_only=True):
    index: int


class ChangeView(Struct, frozen=True, kw_only=True):
    index: int
    at: str | None
    kind: str
    id: str
    state: str
    number: int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    exit_code: int | UnsetType | None = UNSET
    run: int | UnsetType = UNSET
    nodes: tuple[str, ...] | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


async def watch(context: Context, request: WatchQuery) -> EventAnswer[ChangeView | Gap]:
    """Changes of what the caller may see, from `since` or from now on."""
    texts = [word for text in request.ids for word in text.split(",") if word]
    if len(texts) > MAX_WATCHED_IDS:
        raise BadField("ids", "too many", current=str(len(texts)), limit=str(MAX_WATCHED_IDS))
    numbers = frozenset([(await find(context, text)).number for text in texts])
    return EventAnswer(_changes(context, numbers, _since(request)))


def _since(request: WatchQuery) -> int | None:
    if not request.last_event_id:
        return request.since
    if not (request.last_event_id.isascii() and request.last_event_id.isdigit()):
        raise BadField("Last-Event-ID", "is not the id of an event of this stream")
    return int(request.last_event_id)


async def _changes(
    context: Context, numbers: frozenset[int], since: int | None
) -> AsyncGenerator[ServerEvent[ChangeView | Gap], None]:
    feed = context.services.feed
    place = feed.end
    if since is not None:
        place, is_complete = feed.place_after(since)
        if not is_complete:
            yield _gap(context)
    while True:
        if place < feed.first:
            yield _gap(context)
            place = feed.first
        for change in feed.read(place, _AT_ONCE):
            if _is_wanted(context, change, numbers):
                yield ServerEvent(_view(change), id=str(_event_id(feed, place, change)))
            place += 1
        if place >= feed.end and not await feed.more(place, _LONG_S) and feed.is_closed:
            return


def _gap(context: Context) -> ServerEvent[ChangeView | Gap]:
    return ServerEvent(Gap(index=context.services.replica.applied_index), event="gap")


def _event_id(feed: Feed, place: int, change: Change) -> int:
    """The log entry up to which everything was sent: not this one while more of it follows."""
    return change.index if feed.is_last_of_entry(place) else change.index - 1


def _is_wanted(context: Context, change: Change, numbers: frozenset[int]) -> bool:
    if change.node:
        return not numbers
    if numbers and change.number not in numbers and change.group not in numbers:
        return False
    return context.covers(Permission.READ, user=change.user, tenant=change.tenant)


def _view(change: Change) -> ChangeView:
    if change.node:
        return ChangeView(
            index=change.index,
            at=rfc3339(change.at),
            kind=change.kind,
            id=change.node,
            state=change.state,
            reason=change.reason,
        )
    return ChangeView(
        index=change.index,
        at=rfc3339(change.at),
        kind=change.kind,
        id=allocation_id(change.number),
        state=change.state,
        number=change.number,
        name=change.name,
        user=change.user,
        tenant=change.tenant,
        cause=change.cause or UNSET,
        exit_code=change.exit_code if change.kind == "ended" else UNSET,
        run=change.run or UNSET,
        nodes=change.nodes or UNSET,
        group_id=allocation_id(change.group) if change.group else UNSET,
    )
