"""The audit chain: query it, take it away with its signatures, its keys."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct

from lattice.api.answers import Page, TextAnswer, TextPiece
from lattice.api.auditing import Stretch, entries_of, may_see, record, segment_bytes, stretches
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.limits import DEFAULT_PAGE, MAX_PAGE
from lattice.core.model.ids import parse_allocation_id
from lattice.core.model.site.audit import NO_LINK, AuditEntry, AuditSeal, canonical
from lattice.ports.site.audit import AuditError, AuditService
from lattice.wire.files.audit import (
    AuditKeyView,
    AuditView,
    ExportEnd,
    ExportHead,
    audit_key_view,
    audit_view,
    chain_lines,
    end_line,
    end_message,
    head_line,
    read_lines,
)
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import parse_moment

Word = Annotated[str, Meta(max_length=256)]
DEFAULT_SPAN_MS = 30 * 86_400_000


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`user` is the actor or the owner; without `since` and `allocation`, the last 30 days."""

    user: Word = ""
    allocation: Word = ""
    node: Word = ""
    tenant: Word = ""
    type: Word = ""  # `node.drain`, or `node` for all of that subject
    since: Word = ""
    until: Word = ""
    limit: int | None = None
    cursor: str = ""


class AuditExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without a filter, a SystemAdmin gets the whole chain with its seals."""

    user: Word = ""
    allocation: Word = ""
    node: Word = ""
    tenant: Word = ""
    type: Word = ""
    since: Word = ""
    until: Word = ""


class RotateAuditKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


@dataclass(frozen=True, kw_only=True)
class _Filter:
    user: str
    allocation: int
    node: str
    tenant: str
    kind: str
    since: int
    until: int

    def takes(self, entry: AuditEntry) -> bool:
        return (
            (not self.user or self.user in (entry.actor, entry.user))
            and (not self.allocation or entry.allocation == self.allocation)
            and (not self.node or self.node in entry.nodes)
            and (not self.tenant or entry.tenant == self.tenant)
            and (not self.kind or entry.kind == self.kind or entry.kind.startswith(f"{self.kind}."))
            and self.since <= entry.at < self.until
        )

    def reaches(self, stretch: Stretch) -> bool:
        return stretch.last_at >= self.since and stretch.first_at < self.until


async def query_audit(context: Context, request: AuditQuery) -> Page[AuditView]:
    """List the audit entries that the caller may see, oldest first."""
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    after = read_cursor(request.cursor, tuple[int])[0] if request.cursor else 0
    wanted = _wanted(context, request, default_span=True)
    found: list[AuditEntry] = []
    for stretch in await stretches(context.services):
        if stretch.last <= after or not wanted.reaches(stretch):
            continue
        async for entry in entries_of(context.services, stretch):
            if entry.seq > after and wanted.takes(entry) and may_see(context, entry):
                found.append(entry)
                if len(found) > limit:
                    cursor = make_cursor(found[limit - 1].seq)
                    return Page(items=[audit_view(each) for each in found[:limit]], next_cursor=cursor)
    return Page(items=[audit_view(each) for each in found])


async def export_audit(context: Context, request: AuditExportQuery) -> TextAnswer:
    """Export the audit chain as JSON lines with its seals and a signature; a selection carries only the signature."""
    service = _service(context)
    wanted = _wanted(context, request, default_span=False)
    said = {name: value for name, value in _said(request).items() if value}
    await record(context, "audit.export", detail=", ".join(f"{name}={value}" for name, value in said.items()))
    try:
        await service.seal()
    except AuditError as error:
        raise ApiError("unavailable", str(error), hint="try again") from error
    is_whole = not said and context.reach(Permission.READ_AUDIT) is Reach.ALL
    if is_whole:
        lines = await _whole(context)
    else:
        lines = await _selected(context, wanted, said)
    return TextAnswer(_signed(lines, service))


async def list_audit_keys(context: Context, request: NoParameters) -> Page[AuditKeyView]:
    """List the public keys of the audit chain, current and retired."""
    return Page(items=[audit_key_view(key) for key in context.state.audit.keys.values()])


async def rotate_audit_key(context: Context, request: RotateAuditKey) -> AuditKeyView:
    """Rotate the leader's audit key; older seals still verify with the old key."""
    try:
        return audit_key_view(await _service(context).rotate(context.user))
    except AuditError as error:
        raise ApiError("unavailable", str(error), hint="the server's log has the details") from error


def _service(context: Context) -> AuditService:
    if context.services.audit is None:
        raise ApiError("unavailable", "this server keeps no audit chain", hint="ask the leader")
    return context.services.audit


def _said(request: AuditExportQuery | AuditQuery) -> dict[str, str]:
    return {
        "user": request.user,
        "allocation": request.allocation,
        "node": request.node,
        "tenant": request.tenant,
        "type": request.type,
        "since": request.since,
        "until": request.until,
    }


def _wanted(context: Context, request: AuditExportQuery | AuditQuery, *, default_span: bool) -> _Filter:
    number = parse_allocation_id(request.allocation) if request.allocation else 0
    if number is None:
        raise BadField("allocation", f'"{request.allocation[:60]}" is no id of an allocation')
    since = parse_moment(request.since, "since") if request.since else 0
    if not since and not number and default_span:
        since = context.services.clock.now_ms() - DEFAULT_SPAN_MS
    return _Filter(
        user=request.user,
        allocation=number,
        node=request.node,
        tenant=request.tenant,
        kind=request.type,
        since=since,
        until=parse_moment(request.until, "until") if request.until else 1 << 62,
    )


async def _whole(context: Context) -> AsyncIterator[bytes]:
    """Every entry that there still is up to the last seal, and the seals."""
    registry = context.state.audit
    sealed, head = registry.head.sealed, registry.head
    chain = await stretches(context.services)
    hot = [chained for seq, chained in registry.entries.items() if seq <= sealed]
    seals: dict[int, AuditSeal] = dict(registry.seals)
    first = chain[0].first if chain else head.archived + 1
    previous = head.archived_link
    archived = [stretch.name for stretch in chain if stretch.name]
    if archived:
        previous = await _previous_of(context, archived[0])
    elif not head.archived:
        previous = NO_LINK
    start = _head(context, {}, complete=True, first=first, last=sealed, previous=previous, entries=sealed - first + 1)

    async def lines() -> AsyncIterator[bytes]:
        yield head_line(start)
        for name in archived:
            for line in (await segment_bytes(context.services, name)).splitlines():
                yield line
        for line in chain_lines(hot, seals):
            yield line

    return lines()


async def _previous_of(context: Context, name: str) -> str:
    """The link before the first entry of an archived segment, as its first seal says."""
    for each in read_lines(await segment_bytes(context.services, name)):
        if isinstance(each, AuditSeal):
            return each.previous
    raise ApiError("unavailable", f"archived audit entries are damaged: {name}")


async def _selected(context: Context, wanted: _Filter, said: dict[str, str]) -> AsyncIterator[bytes]:
    sealed = context.state.audit.head.sealed
    chosen = [
        entry
        for stretch in await stretches(context.services)
        if wanted.reaches(stretch)
        async for entry in entries_of(context.services, stretch)
        if entry.seq <= sealed and wanted.takes(entry) and may_see(context, entry)
    ]
    first, last = (chosen[0].seq, chosen[-1].seq) if chosen else (0, 0)
    start = _head(context, said, complete=False, first=first, last=last, previous="", entries=len(chosen))

    async def lines() -> AsyncIterator[bytes]:
        yield head_line(start)
        for entry in chosen:
            yield canonical(entry)

    return lines()


def _head(
    context: Context, said: dict[str, str], *, complete: bool, first: int, last: int, previous: str, entries: int
) -> ExportHead:
    return ExportHead(
        version=2 if complete and context.state.level >= 2 else 1,
        exported_at=context.services.clock.now_ms(),
        exported_by=context.user,
        complete=complete,
        first=first,
        last=last,
        previous=previous,
        entries=entries,
        keys=tuple(context.state.audit.keys.values()),
        selection=said,
    )


async def _signed(lines: AsyncIterator[bytes], service: AuditService) -> AsyncGenerator[TextPiece, None]:
    """The lines in pieces, and in the end the signature over all of them."""
    digest, count, piece = sha256(), 0, bytearray()
    async for line in lines:
        piece += line + b"\n"
        digest.update(line + b"\n")
        count += 1
        if len(piece) >= 1 << 16:
            yield TextPiece(bytes(piece))
            piece.clear()
    hexdigest = digest.hexdigest()
    key, signature = service.sign(end_message(count, hexdigest))
    piece += end_line(ExportEnd(lines=count, sha256=hexdigest, key=key, signature=signature)) + b"\n"
    yield TextPiece(bytes(piece))
