"""Data on the hot tier: what is there, bringing it there, and having it leave."""

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.operations.data.moving import staging_of
from lattice.api.submit.data import check_source
from lattice.core.machine.commands import EvictCopy, WantCopy
from lattice.core.model.data.copies import Copy, key_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.wire.bounds import Argument
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339
from lattice.wire.work.data import read_source

MAX_SHOWN = 1_000
MAX_USERS_SHOWN = 20


class DataQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source`: only this one."""

    source: Argument = ""


class StageRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: Argument
    tenant: str = ""
    request_id: str = ""


class EvictRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: Argument
    request_id: str = ""


class CopyView(Struct, frozen=True, kw_only=True):
    """A source and its copy on the hot tier. `allocations`: the live work of the caller's reach that needs it."""

    source: str
    state: str  # wanted, moving, usable, ready, failed or leaving
    tenant: str
    size: int  # bytes; 0 = not known yet
    files: int
    generation: int  # how often it was copied because the source was another
    bytes_done: int
    percent: float
    bytes_per_s: float
    seconds_left: float | None
    tries: int
    reason: str
    checked_at: str | None  # when it was last compared with its source
    used_at: str | None
    allocations: tuple[str, ...]
    users: int  # live allocations and groups that need it


class TierView(Struct, frozen=True, kw_only=True):
    capacity: int  # bytes; 0 = not known yet
    used: int
    movers: int  # that are heard
    waiting: int  # allocations and groups in Staging


async def list_data(context: Context, request: DataQuery) -> Page[CopyView]:
    """List the sources on the hot tier, or on their way there, that the caller's work uses; all for administrators."""
    source = read_source(request.source, "source") if request.source else ""
    copies = context.state.staging.copies.values()
    shown = [copy for copy in copies if (not source or copy.source == source) and _sees(context, copy)]
    return Page(items=[_view(context, copy) for copy in shown[:MAX_SHOWN]])


async def data_tier(context: Context, request: DataQuery) -> TierView:
    """Get how full the hot tier is, and how many movers and allocations are busy with it."""
    use = staging_of(context).tier()
    waiting = len(context.state.staging.waiting)
    return TierView(capacity=use.capacity, used=use.used, movers=use.movers, waiting=waiting)


async def stage_data(context: Context, request: StageRequest) -> CopyView:
    """Bring a source to the hot tier before there is work for it; it continues after the answer."""
    source = read_source(request.source, "source")
    tenant = context.chosen_tenant(Permission.SUBMIT, request.tenant)
    if not context.services.tiers.has_hot:
        raise BadField("source", "this cluster has no hot tier")
    if source.startswith("nfs://"):
        raise BadField("source", "an export is mounted, not copied")
    account = context.identity.account
    await check_source(context, source, tenant, account, "source")
    wanted = WantCopy(source=source, tenant=tenant, user=context.user, account=account)
    await context.carry_out(wanted, request.request_id)
    return _view(context, context.state.staging.copies[key_of(source)])


async def evict_data(context: Context, request: EvictRequest) -> CopyView:
    """Have a source leave the hot tier, unless live work needs it."""
    source = read_source(request.source, "source")
    copy = context.state.staging.copies.get(key_of(source))
    if copy is None or not _sees(context, copy):
        raise ApiError("not_found", f"{source} is not on the hot tier", hint="`lattice data list` shows what is")
    view = _view(context, copy)
    await context.carry_out(EvictCopy(key=copy.key), request.request_id)
    after = context.state.staging.copies.get(copy.key)
    return view if after is None else _view(context, after)


def _heads(context: Context, copy: Copy) -> list[Allocation]:
    state = context.state
    return [
        group.template if (group := state.groups.get(number)) is not None else state.allocations[number]
        for number in state.staging.users.get(copy.key, ())
    ]


def _sees(context: Context, copy: Copy) -> bool:
    """Who asked for it, who has work that needs it, and who may see that of others."""
    if context.covers(Permission.READ_DETAILS, user=copy.user, tenant=copy.tenant):
        return True
    return any(
        context.covers(Permission.READ_DETAILS, user=head.user, tenant=head.tenant) for head in _heads(context, copy)
    )


def _view(context: Context, copy: Copy) -> CopyView:
    said = staging_of(context).progress_of(copy)
    heads = _heads(context, copy)
    own = [head for head in heads if context.covers(Permission.READ, user=head.user, tenant=head.tenant)]
    sees_owner = context.covers(Permission.READ, user=copy.user, tenant=copy.tenant)
    return CopyView(
        source=copy.source,
        state=copy.state,
        tenant=copy.tenant if sees_owner else "",
        size=copy.size,
        files=copy.files,
        generation=copy.generation,
        bytes_done=said.bytes_done,
        percent=round(said.percent, 1),
        bytes_per_s=round(said.bytes_per_s, 1),
        seconds_left=None if said.seconds_left is None else round(said.seconds_left, 1),
        tries=copy.tries,
        reason=copy.reason,
        checked_at=rfc3339(copy.checked_at),
        used_at=rfc3339(copy.used_at),
        allocations=tuple(allocation_id(head.number) for head in own[:MAX_USERS_SHOWN]),
        users=len(heads),
    )
