"""Output of an allocation: as it is, or followed live."""

import base64
from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from lattice.api.answers import EventAnswer, ServerEvent, TextAnswer, TextPiece
from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find
from lattice.api.running.output import Source, chosen_nodes, is_part_over, is_part_whole, launch_nodes
from lattice.api.running.output_follow import Follower, Piece, Place
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.nodes.agents import AgentUnreachable, OutputUnavailable
from lattice.wire.text.problems import BadField

MAX_TAIL = 1_000_000


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    stream: Literal["stdout", "stderr"] = "stdout"
    tail: int | None = None
    node: str = ""
    run: int | None = None


class LogStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    stream: Literal["stdout", "stderr"] = "stdout"
    tail: int | None = None
    node: str = ""
    run: int | None = None
    last_event_id: str = ""


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
    """Get the output written so far, node by node."""
    tail = _tail(request.tail)
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
    if request.tail == 0:
        chosen = []
    sources = [Source(context.services, record, run, node, request.stream) for node in chosen]
    return TextAnswer(_read_all(sources, record, tail))


async def stream_logs(context: Context, request: LogStreamQuery) -> EventAnswer[LogEvent]:
    """Stream the output, from its beginning until the allocation has ended."""
    tail = _tail(request.tail)
    place = Place.parse(request.last_event_id) if request.last_event_id else None
    record = _single(await find(context, request.id, Permission.READ_OUTPUT))
    await record_access(context, "allocation.logs", record, "followed")
    follower = Follower(
        context,
        record,
        request.stream,
        node=request.node,
        fixed_run=_run(record, request.run) if request.run is not None else 0,
        tail=tail,
        place=place,
    )
    return EventAnswer(_events(follower, request.stream))


async def _events(follower: Follower, stream: str) -> AsyncGenerator[ServerEvent[LogEvent], None]:
    async for item in follower.items():
        if isinstance(item, Piece):
            yield ServerEvent(_piece_view(item, stream), id=item.place)
        else:
            yield ServerEvent(Restart(run=item), event="restart")
    record = follower.record
    yield ServerEvent(End(state=record.state, exit_code=record.exit_code), event="end")


def _piece_view(piece: Piece, stream: str) -> PieceView:
    try:
        text = piece.data.decode()
    except UnicodeDecodeError:
        coded = base64.b64encode(piece.data).decode()
        return PieceView(node=piece.node, stream=stream, offset=piece.offset, data_b64=coded)
    return PieceView(node=piece.node, stream=stream, offset=piece.offset, data=text)


async def _read_all(sources: list[Source], record: Allocation, tail: int) -> AsyncGenerator[TextPiece, None]:
    """Node after node. A node that cannot be reached is left out, unless nothing else was read either."""
    lost: AgentUnreachable | None = None
    is_empty = True
    for source in sources:
        place = 0
        try:
            if is_part_over(record, source.run, source.node):
                whole = is_part_whole(record, source.run, source.node)
                pieces = source.finished(is_whole=whole, tail_lines=tail)
            else:
                pieces = source.running(tail_lines=tail)
            async for piece in pieces:
                is_empty = False
                yield TextPiece(piece.data, 0 if tail else piece.offset - place)
                place = piece.offset + len(piece.data)
        except OutputUnavailable:
            continue  # accepted, but nothing was started there yet
        except AgentUnreachable as error:
            lost = error
    if lost is not None and is_empty:
        raise ApiError(
            "unavailable",
            f"the output cannot be read now: {lost}",
            hint="try again when the node is back",
        )


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
            current=f"{record.run} runs",
        )
    return asked


def _tail(asked: int | None) -> int:
    if asked is None:
        return 0
    if not 0 <= asked <= MAX_TAIL:
        raise BadField("tail", f"{asked} is not possible", limit=f"from 0 to {MAX_TAIL:,}")
    return asked
