"""Watch: state changes as they happen."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from msgspec import UNSET, Struct, UnsetType

from lattice.api.answers import EventAnswer, ServerEvent
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.find.dag_lookup import find_dag
from lattice.api.find.lookup import find
from lattice.api.find.visibility import may_see_reservation, may_see_vcluster, sees_all_vclusters
from lattice.api.limits import MAX_WATCHED_IDS
from lattice.api.streams.changes import Change
from lattice.api.streams.waiting import Feed
from lattice.core.model.ids import allocation_id, dag_id
from lattice.wire.bounds import Short, TagFilters
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import parse_tag
from lattice.wire.text.times import rfc3339

_BATCH = 256
_LONG_S = 3600.0
# Entries a caller may not see pass silently up to this number; then it receives the current log index.
_UNSEEN = 500
_WHATS = ("allocation", "dag", "node", "tenant", "project", "vcluster", "reservation", "setting", "service")
_READERS = {
    "node": Permission.READ_NODES,
    "setting": Permission.READ_SETTINGS,
}


class WatchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ids` of allocations, tasks, groups and DAGs. Any filter except `what` restricts the stream to allocations and DAGs."""

    ids: list[str] = []
    user: str = ""
    tenant: str = ""
    project: str = ""
    tag: TagFilters = []
    what: list[str] = []
    since: int | None = None
    last_event_id: Short = ""


class Gap(Struct, frozen=True, kw_only=True):
    index: int


class Position(Struct, frozen=True, kw_only=True):
    """Everything up to this log entry that the caller may see was sent."""

    index: int


class ChangeView(Struct, frozen=True, kw_only=True):
    index: int
    at: str | None
    kind: str
    id: str
    state: str
    what: str
    number: int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    exit_code: int | UnsetType | None = UNSET
    run: int | UnsetType = UNSET
    nodes: tuple[str, ...] | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    dag_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    task_index: int | UnsetType = UNSET
    session: bool | UnsetType = UNSET  # true: of an allocation to be worked in by hand


_Events = AsyncGenerator[ServerEvent[ChangeView | Gap | Position], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    """What one watcher asked for; empty fields take everything."""

    numbers: frozenset[int]
    dags: frozenset[int]
    user: str
    tenant: str
    project: str
    tags: tuple[tuple[str, str], ...]
    whats: frozenset[str]

    @property
    def is_about_work(self) -> bool:
        return bool(self.numbers or self.dags or self.user or self.tenant or self.project or self.tags)

    def takes(self, change: Change) -> bool:
        if self.whats and change.what not in self.whats:
            return False
        if change.what not in ("allocation", "dag"):
            return not self.is_about_work
        return (
            self._is_named(change)
            and (not self.user or change.user == self.user)
            and (not self.tenant or change.tenant == self.tenant)
            and (not self.project or change.project == self.project)
            and all(tag in change.tags for tag in self.tags)
        )

    def _is_named(self, change: Change) -> bool:
        if not self.numbers and not self.dags:
            return True
        return change.dag in self.dags or change.number in self.numbers or change.group in self.numbers


async def watch(context: Context, request: WatchQuery) -> EventAnswer[ChangeView | Gap | Position]:
    """Stream changes of everything the caller may see, starting at `since` or now."""
    texts = [word for text in request.ids for word in text.split(",") if word]
    if len(texts) > MAX_WATCHED_IDS:
        raise BadField("ids", "too many", current=str(len(texts)), limit=str(MAX_WATCHED_IDS))
    dags = [text for text in texts if text[:1] == "d"]
    wanted = _Filter(
        numbers=frozenset([(await find(context, text)).number for text in texts if text not in dags]),
        dags=frozenset([(await find_dag(context, text, Permission.READ))[0].number for text in dags]),
        user=request.user,
        tenant=context.chosen_tenant(Permission.READ, request.tenant) if request.tenant else "",
        project=request.project,
        tags=tuple(parse_tag(text) for text in request.tag),
        whats=_whats(request.what),
    )
    return EventAnswer(_changes(context, wanted, _since(request)))


def _whats(texts: list[str]) -> frozenset[str]:
    found = frozenset(word for text in texts for word in text.lower().split(",") if word)
    unknown = sorted(found.difference(_WHATS))
    if unknown:
        raise BadField("what", f'nothing called "{unknown[0][:60]}" can be watched', hint=f"one of {', '.join(_WHATS)}")
    return found


def _since(request: WatchQuery) -> int | None:
    if not request.last_event_id:
        return request.since
    if not (request.last_event_id.isascii() and request.last_event_id.isdigit() and len(request.last_event_id) < 19):
        raise BadField("Last-Event-ID", "is not the id of an event of this stream")
    return int(request.last_event_id)


async def _changes(context: Context, wanted: _Filter, since: int | None) -> _Events:
    feed = context.services.feed
    place = feed.end
    if since is not None:
        place, is_complete = feed.place_after(since)
        if not is_complete:
            yield _gap(context)
    known = context.services.replica.applied_index if since is None else since
    yield _position(known)
    while True:
        if place < feed.first:
            yield _gap(context)
            place = feed.first
        for change in feed.read(place, _BATCH):
            upto = _event_id(feed, place, change)
            if wanted.takes(change) and _may_see(context, change):
                known = upto
                yield ServerEvent(_view(change), id=str(upto))
            elif upto >= known + _UNSEEN:
                known = upto
                yield _position(upto)
            place += 1
        if place >= feed.end and not await feed.more(place, _LONG_S) and feed.is_closed:
            return


def _gap(context: Context) -> ServerEvent[ChangeView | Gap | Position]:
    return ServerEvent(Gap(index=context.services.replica.applied_index), event="gap")


def _position(index: int) -> ServerEvent[ChangeView | Gap | Position]:
    return ServerEvent(Position(index=index), event="position", id=str(index))


def _event_id(feed: Feed, place: int, change: Change) -> int:
    """The log entry up to which everything was sent: not this one while more of it follows."""
    return change.index if feed.is_last_of_entry(place) else change.index - 1


def _may_see(context: Context, change: Change) -> bool:
    match change.what:
        case "allocation" | "dag":
            return context.covers(Permission.READ, user=change.user, tenant=change.tenant)
        case "tenant":
            return context.covers_tenant(Permission.READ_TENANTS, change.tenant)
        case "project":
            return context.covers_tenant(Permission.READ_PROJECTS, change.tenant)
        case "service":
            return context.covers_tenant(Permission.READ_SERVICES, change.tenant)
        case "vcluster":
            found = context.state.vclusters.get(change.label)
            return sees_all_vclusters(context) if found is None else may_see_vcluster(context, found)
        case "reservation":
            return change.reservation is not None and may_see_reservation(context, change.reservation)
        case what:
            return context.reach(_READERS[what]) is Reach.ALL


def _view(change: Change) -> ChangeView:
    is_work = change.what in ("allocation", "dag")
    shown_id = change.label
    if is_work:
        shown_id = dag_id(change.number) if change.what == "dag" else allocation_id(change.number)
    return ChangeView(
        index=change.index,
        at=rfc3339(change.at),
        kind=change.kind,
        id=shown_id,
        state=change.state,
        what=change.what,
        number=change.number or UNSET,
        name=change.name if is_work else UNSET,
        user=change.user or UNSET,
        tenant=change.tenant or UNSET,
        project=change.project or UNSET,
        tags=dict(change.tags) if change.tags else UNSET,
        cause=change.cause or UNSET,
        exit_code=change.exit_code if is_work and change.kind == "ended" else UNSET,
        run=change.run or UNSET,
        nodes=change.nodes or UNSET,
        group_id=allocation_id(change.group) if change.group else UNSET,
        dag_id=dag_id(change.dag) if change.dag else UNSET,
        reason=change.reason or UNSET,
        task_index=change.task_index if change.group else UNSET,
        session=True if change.session else UNSET,
    )
