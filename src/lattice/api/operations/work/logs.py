"""Output of an allocation: as it is, or followed live."""

import base64
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from lattice.api.answers import EventAnswer, ServerEvent, TextAnswer, TextPiece
from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find
from lattice.api.running.line_times import Lines, TimesUnknown, Wanted, in_order
from lattice.api.running.output import Source, chosen_nodes, is_part_over, is_part_whole, launch_nodes
from lattice.api.running.output_follow import Follower, Piece, Place
from lattice.api.services import Services
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.nodes.agents import AgentUnreachable, OutputPiece, OutputUnavailable
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.files.chunks import deletion_mark, logs_prefix
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import parse_moment

MAX_TAIL = 1_000_000
MAX_OFFSET = 10**15


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    stream: Literal["stdout", "stderr"] = "stdout"
    tail: int | None = None
    node: str = ""
    run: int | None = None
    since: str = ""
    until: str = ""
    timestamps: bool = False
    offset: int | None = None
    limit: int | None = None


class LogStreamQuery(LogQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    last_event_id: str = ""


class DeleteLogsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    run: int | None = None
    request_id: str = ""


class LogsDeleted(Struct, frozen=True, kw_only=True):
    id: str
    objects: int


class PieceView(Struct, frozen=True, kw_only=True):
    node: str
    stream: str
    offset: int
    data: str | UnsetType = UNSET
    data_b64: str | UnsetType = UNSET


class Restart(Struct, frozen=True, kw_only=True):
    run: int


class End(Struct, frozen=True, kw_only=True):
    state: str
    exit_code: int | None


LogEvent = PieceView | Restart | End


async def logs(context: Context, request: LogQuery) -> TextAnswer:
    """Get the output written so far, node by node; with timestamps in order of time."""
    tail = _tail(request.tail)
    wanted = _wanted(request.since, request.until, stamps=request.timestamps)
    place, most = _window(request, wanted)
    record = _single(await find(context, request.id, Permission.READ_OUTPUT))
    await record_access(context, "allocation.logs", record)
    run = _run(record, request.run)
    if not run and not record.is_terminal:
        raise ApiError(
            "conflict",
            f"{allocation_id(record.number)} has not started yet",
            current=str(record.state),
            hint="follow it to see the output from its start on",
        )
    nodes = await launch_nodes(context.services, record, run, request.stream)
    chosen = chosen_nodes(nodes, request.node)
    if place or most is not None:
        _check_single(chosen, place)
    if request.tail == 0:
        chosen = []
    reader = _Reader(context.services, record, tail, place, wanted)
    sources = [Source(context.services, record, run, node, request.stream) for node in chosen]
    if wanted.is_plain:
        return TextAnswer(_limited(reader.one_by_one(sources), most))
    return TextAnswer(reader.by_time(sources))


async def stream_logs(context: Context, request: LogStreamQuery) -> EventAnswer[LogEvent]:
    """Stream the output, from its beginning until the allocation has ended, or the end of the part that is asked for has come."""
    tail = _tail(request.tail)
    wanted = _wanted(request.since, request.until, stamps=request.timestamps)
    begin, most = _window(request, wanted)
    place = Place.parse(request.last_event_id) if request.last_event_id else None
    record = _single(await find(context, request.id, Permission.READ_OUTPUT))
    await record_access(context, "allocation.logs", record, "followed")
    if begin or most is not None:
        run = request.run or max(record.run, 1)
        nodes = await launch_nodes(context.services, record, run, request.stream)
        _check_single(chosen_nodes(nodes, request.node) if nodes else [], begin)
        place = place or Place(run, {"": begin})
    follower = Follower(
        context,
        record,
        request.stream,
        node=request.node,
        fixed_run=_run(record, request.run) if request.run is not None else 0,
        tail=tail,
        place=place,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
    )
    end = math.inf if most is None else begin + most
    return EventAnswer(_events(follower, request.stream, wanted, end))


async def delete_logs(context: Context, request: DeleteLogsRequest) -> LogsDeleted:
    """Delete the stored output of finished work; of one run, or of all."""
    record = _single(await find(context, request.id, Permission.CHANGE))
    name, objects = allocation_id(record.number), context.services.objects
    _run(record, request.run)
    if not record.is_terminal:
        hint = "wait for its end, or cancel it"
        raise ApiError("conflict", f"{name} may still write", current=str(record.state), hint=hint)
    if record.vcluster in context.state.audit.sensitive:
        raise ApiError("forbidden", f"{name} is sensitive: its output is kept", hint="logs.vclusters says for how long")
    if objects is None:
        raise ApiError("conflict", "there is no object store here, and so no stored output")
    prefix, former = logs_prefix(record.tenant, record.project, name), f"logs/{record.number}"
    if request.run is not None:
        prefix, former = f"{prefix}/run-{request.run}", f"{former}/{request.run}"
    try:
        # First of all: nothing is shown from now on that a node may still have.
        await objects.put(deletion_mark(prefix), b"")
        found = [each for start in (prefix, former) async for each in objects.names(f"{start}/")]
        deleted = [each for each in found if each.rpartition("/")[2] != "deleted"]
        for each in deleted:
            await objects.delete(each)
    except ObjectStoreError as error:
        raise ApiError("unavailable", f"the output was not deleted: {error}", hint="delete it again") from None
    return LogsDeleted(id=name, objects=len(deleted))


async def _events(
    follower: Follower, stream: str, wanted: Wanted, end: float
) -> AsyncGenerator[ServerEvent[LogEvent], None]:
    """`end` is the place behind the last byte that is wanted."""
    lines: dict[str, Lines] = {}
    async with aclosing(follower.items()) as items:
        async for item in items:
            if not isinstance(item, Piece):
                lines.clear()
                yield ServerEvent(Restart(run=item), event="restart")
                continue
            if wanted.is_plain:
                data = item.data[: int(min(max(end - item.offset, 0), len(item.data)))]
            else:
                data = _chosen(lines.setdefault(item.node, Lines(wanted)), item, follower.record)
            if data:
                yield ServerEvent(_piece_view(replace(item, data=data), stream), id=item.place)
            if item.offset + len(item.data) >= end:
                break
    record = follower.record
    yield ServerEvent(End(state=record.state, exit_code=record.exit_code), event="end")


def _chosen(lines: Lines, item: Piece, record: Allocation) -> bytes:
    try:
        return lines.feed(OutputPiece(offset=item.offset, data=item.data, marks=item.marks))
    except TimesUnknown:
        raise _no_times(record) from None


def _piece_view(piece: Piece, stream: str) -> PieceView:
    try:
        text = piece.data.decode()
    except UnicodeDecodeError:
        coded = base64.b64encode(piece.data).decode()
        return PieceView(node=piece.node, stream=stream, offset=piece.offset, data_b64=coded)
    return PieceView(node=piece.node, stream=stream, offset=piece.offset, data=text)


class _Reader:
    """Reads the sources of one request. A node that cannot be reached is left out, unless nothing else was read either."""

    def __init__(self, services: Services, record: Allocation, tail: int, place: int, wanted: Wanted) -> None:
        self._services = services
        self._record, self._tail, self._place, self._wanted = record, tail, place, wanted
        self._lost: AgentUnreachable | None = None

    async def one_by_one(self, sources: list[Source]) -> AsyncGenerator[TextPiece, None]:
        is_empty = True
        for source in sources:
            place = self._place
            async for piece in self._pieces(source):
                is_empty = False
                yield TextPiece(piece.data, 0 if self._tail else piece.offset - place)
                place = piece.offset + len(piece.data)
        self._check_read(is_empty=is_empty)

    async def by_time(self, sources: list[Source]) -> AsyncGenerator[TextPiece, None]:
        is_empty = True
        try:
            async for text in in_order([self._pieces(source) for source in sources], self._wanted):
                is_empty = False
                yield TextPiece(text, 0)
        except TimesUnknown:
            raise _no_times(self._record) from None
        self._check_read(is_empty=is_empty)

    async def _pieces(self, source: Source) -> AsyncGenerator[OutputPiece, None]:
        since_ms = self._wanted.since_ms
        try:
            if is_part_over(self._record, source.run, source.node):
                whole = is_part_whole(self._record, source.run, source.node)
                pieces = source.finished(is_whole=whole, offset=self._place, tail_lines=self._tail, since_ms=since_ms)
            else:
                pieces = source.running(offset=self._place, tail_lines=self._tail, since_ms=since_ms)
            async for piece in pieces:
                yield piece
        except OutputUnavailable:
            return  # accepted, but nothing was started there yet
        except AgentUnreachable as error:
            self._lost = error

    def _check_read(self, *, is_empty: bool) -> None:
        record, retention = self._record, self._services.log_retention
        if is_empty and record.is_terminal and record.ended_at:
            kept_s = retention.seconds(record.tenant, record.vcluster)
            if record.ended_at < self._services.clock.now_ms() - kept_s * 1000:
                raise ApiError(
                    "not_found",
                    f"the output of {allocation_id(record.number)} is past its retention",
                    limit=f"{kept_s / 86400:g} days after it was written",
                    hint="an administrator sets logs.retention",
                )
        if self._lost is not None and is_empty:
            raise ApiError(
                "unavailable",
                f"the output cannot be read now: {self._lost}",
                hint="try again when the node is back",
            )


async def _limited(pieces: AsyncGenerator[TextPiece, None], most: int | None) -> AsyncGenerator[TextPiece, None]:
    left = most
    async for piece in pieces:
        if left is None:
            yield piece
            continue
        if left > 0:
            yield TextPiece(piece.data[:left], piece.dropped)
        left -= len(piece.data)
        if left <= 0:
            await pieces.aclose()
            return


def _no_times(record: Allocation) -> ApiError:
    return ApiError(
        "conflict",
        f"the output of {allocation_id(record.number)} was stored without times",
        hint="release 0.1.0 wrote none; read it without since and until",
    )


def _wanted(since: str, until: str, *, stamps: bool) -> Wanted:
    """Raises BadField."""
    since_ms = parse_moment(since, "since") if since else None
    until_ms = parse_moment(until, "until") if until else None
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise BadField("since", f"{since} is after until, {until}", hint="exchange them")
    return Wanted(since_ms, until_ms, stamps)


def _check_single(nodes: list[str], begin: int) -> None:
    """Places count in the output of one node. Raises BadField."""
    if len(nodes) > 1:
        hint = f"name one of them: node={nodes[0]}"
        raise BadField("offset" if begin else "limit", f"{len(nodes)} nodes have output of their own", hint=hint)


def _window(request: LogQuery | LogStreamQuery, wanted: Wanted) -> tuple[int, int | None]:
    """Offset and limit in bytes. Raises BadField."""
    for field, value in (("offset", request.offset), ("limit", request.limit)):
        if value is None:
            continue
        if not 0 <= value <= MAX_OFFSET:
            raise BadField(field, f"{value} is not possible", limit=f"from 0 to {MAX_OFFSET:,}")
        if request.tail is not None or not wanted.is_plain:
            raise BadField(
                field, "counts bytes of the whole output", hint="leave out tail, since, until and timestamps"
            )
    return request.offset or 0, request.limit


def _single(found: Found) -> Allocation:
    if isinstance(found.record, TaskGroup):
        name = allocation_id(found.number)
        first = found.record.index_at(0)
        raise ApiError("invalid", f"{name} is a task group", hint=f"name one of its tasks, such as {name}_{first}")
    return found.record


def _run(record: Allocation, asked: int | None) -> int:
    if asked is None:
        return record.run
    if not 1 <= asked <= record.run:
        raise ApiError(
            "not_found",
            f"{allocation_id(record.number)} has no run {asked}",
            current=f"{record.run} runs" if record.run != 1 else "1 run",
            hint=_runs_hint(record),
        )
    return asked


def _runs_hint(record: Allocation) -> str:
    if not record.run:
        return "it has not started yet"
    return f"name one from 1 to {record.run}" if record.run > 1 else "leave --run out, or name run 1"


def _tail(asked: int | None) -> int:
    if asked is None:
        return 0
    if not 0 <= asked <= MAX_TAIL:
        raise BadField("tail", f"{asked} is not possible", limit=f"from 0 to {MAX_TAIL:,}")
    return asked
