"""TerminalService: a terminal over one gRPC stream, with the messages of docs/reference/terminal-protocol.md."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError
from starlette.types import ASGIApp

from lattice.api.grpc.calls import CallContext, Caller, source_of
from lattice.api.grpc.contract import PACKAGE
from lattice.api.grpc.release import released_stream
from lattice.api.grpc.statuses import STATUS
from lattice.api.sockets.bridge import TerminalBridge
from lattice.api.sockets.inner import Failed, InnerCalls
from lattice.api.sockets.messages import (
    DEFAULT_TERM,
    AttachStart,
    BadMessage,
    ClientMessage,
    Error,
    ExitCode,
    Keepalive,
    Notice,
    Opened,
    Position,
    Resize,
    Screen,
    ServerMessage,
    Taken,
    checked,
    signal_named,
)
from lattice.wire.pb import terminals_pb2 as pb

NAME = f"{PACKAGE}.TerminalService"
AHEAD = 16  # messages that wait for the client
_HINT = "docs/reference/terminal-protocol.md"


class TerminalService:
    """Serves terminals by requests to `app`, the REST side of this server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def add_to(self, server: grpc.aio.Server) -> None:
        methods = {"Attach": grpc.stream_stream_rpc_method_handler(released_stream(self._attach))}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, methods),))

    async def _attach(self, requests: AsyncIterator[bytes], context: CallContext) -> AsyncIterator[bytes]:
        caller = Caller.of(context)
        calls = InnerCalls(self._app, caller.authorization, (source_of(context), 0), caller.tenant)
        queue: asyncio.Queue[pb.TerminalOutput | None] = asyncio.Queue(AHEAD)

        async def send(message: ServerMessage, data: bytes) -> None:
            await queue.put(_output(message, data))

        async def serve() -> None:
            try:
                await calls.ask("GET", "/whoami")  # nothing is read for a stranger
                path, start = await _started(requests)
                await TerminalBridge(calls, path, start, send).run(_incoming(requests))
            except Failed as refusal:
                await send(Error(refusal.status, refusal.code, str(refusal), refusal.hint), b"")
            except BadMessage as error:
                await send(Error(400, "invalid", str(error), _HINT), b"")
            finally:
                await queue.put(None)

        serving = asyncio.create_task(serve(), name="terminal over gRPC")
        refused: pb.TerminalError | None = None
        try:
            while (output := await queue.get()) is not None:
                refused = output.error if output.HasField("error") else None
                yield output.SerializeToString()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        if refused is not None:
            await context.abort(STATUS.get(refused.code, grpc.StatusCode.UNKNOWN), refused.message)


def _input(data: bytes) -> pb.TerminalInput:
    try:
        return pb.TerminalInput.FromString(data)
    except DecodeError:
        raise BadMessage("not a message TerminalInput") from None


async def _started(requests: AsyncIterator[bytes]) -> tuple[str, AttachStart]:
    """Where the terminal is, and which. Raises BadMessage."""
    async for data in requests:
        first = _input(data)
        if not first.HasField("start"):
            break
        start = first.start
        if bool(start.allocation) == bool(start.session):
            raise BadMessage("the start names neither or both of allocation and session")
        wanted = AttachStart(
            terminal=start.terminal if start.HasField("terminal") else None,
            node=start.node,
            command=start.command,
            keep=start.keep,
            rows=start.rows,
            columns=start.columns,
            term=start.term or DEFAULT_TERM,
            client=start.client,
            offset=start.offset,
            after=start.after if start.HasField("after") else -1,
        )
        name = quote(start.allocation or start.session, safe="")
        return (f"/allocations/{name}/attach" if start.allocation else f"/sessions/{name}/terminal"), wanted.checked()
    raise BadMessage("the first message must be a start")


async def _incoming(requests: AsyncIterator[bytes]) -> AsyncIterator[ClientMessage]:
    async for data in requests:
        message = _input(data)
        match message.WhichOneof("body"):
            case "stdin":
                yield checked(message.stdin)
            case "resize":
                yield checked(Resize(message.resize.rows, message.resize.columns))
            case "signal":
                yield signal_named(message.signal)
            case "keepalive":
                yield Keepalive()
            case kind:
                raise BadMessage(f"{kind or 'an empty message'} is not possible here")


def _output(message: ServerMessage, data: bytes) -> pb.TerminalOutput:
    match message:
        case Opened():
            opened = pb.TerminalOpened(
                id=message.id,
                allocation=message.allocation,
                terminal=message.terminal,
                client=message.client,
                read_only=message.read_only,
            )
            return pb.TerminalOutput(opened=opened)
        case Position():
            return pb.TerminalOutput(stdout=pb.TerminalStdout(data=data, next=message.next))
        case Screen():
            screen = pb.TerminalScreen(data=data, next=message.next, rows=message.rows, columns=message.columns)
            return pb.TerminalOutput(screen=screen)
        case Taken():
            return pb.TerminalOutput(taken=pb.TerminalTaken(upto=message.upto))
        case Notice():
            return pb.TerminalOutput(notice=pb.TerminalNotice(text=message.text))
        case ExitCode():
            return pb.TerminalOutput(exit=pb.TerminalExit(code=message.code, message=message.message))
        case Error():
            error = pb.TerminalError(
                status=message.status, code=message.code, message=message.message, hint=message.hint
            )
            return pb.TerminalOutput(error=error)
