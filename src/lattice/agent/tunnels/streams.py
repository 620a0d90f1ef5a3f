"""Bulk streams as a server orders them, and the tunnels on them: each is one connection to a port of one run."""

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor

import grpc.aio

from lattice.agent.connection import Outbox
from lattice.agent.shim_client import ShimMessage
from lattice.agent.tunnels.listening import Listener, Owner, choose, own_ports, read_listeners, read_owned
from lattice.ports.nodes.agents import RunKey
from lattice.wire.agents.tunnels import METHOD, PIECE_BYTES, PURPOSE, BadFrames, StreamTunnel, TunnelEnded, Tunnels
from lattice.wire.pb import agent_pb2 as pb

SHIM_WITHIN_S = 5.0
CONNECT_WITHIN_S = 5.0
MAX_STREAMS = 4
MAX_NAMED = 64
_RESET, _REGULAR = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)  # struct linger
QUIET_S = 0.5  # an answer without a further byte for this many seconds is complete

_log = logging.getLogger(__name__)

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]
View = tuple[list[Listener], dict[int, Owner]]


class Refused(Exception):
    """Nothing is connected; `closed` says why."""

    def __init__(self, code: str, text: str, view: View = ([], {})) -> None:
        super().__init__(text)
        named = [
            pb.ListeningPort(port=listener.port, address=listener.address, pid=owner.pid, program=owner.program)
            for listener, owner in own_ports(*view)[:MAX_NAMED]
        ]
        self.closed = pb.TunnelClosed(code=code, text=text, listening=named)


class Flight:
    """What went through a connection last: a request that has no answer yet, or an answer that may have more to say."""

    def __init__(self) -> None:
        self._is_asked = False
        self._answered_s = 0.0

    def inward(self) -> None:
        self._is_asked = True

    def outward(self) -> None:
        self._is_asked, self._answered_s = False, time.monotonic()

    def is_busy(self) -> bool:
        return self._is_asked or time.monotonic() - self._answered_s < QUIET_S


class BulkStreams:
    """Hears orders, and keeps the streams apart from the one that they came on."""

    def __init__(self, ask: Ask, spawn: Callable[[Coroutine[None, None, None]], None], pool: Executor) -> None:
        self._ask = ask
        self._spawn = spawn
        self._pool = pool
        self._open = 0
        self._flights: dict[tuple[int, int], set[Flight]] = {}  # of the connections to a run that are open now

    def received(self, message: pb.ServerMessage, outbox: Outbox | None) -> bool:
        """Whether the message was for here."""
        if not message.HasField("open_bulk"):
            return False
        asked = message.open_bulk
        if asked.purpose == PURPOSE and outbox is not None and outbox.dial is not None and self._open < MAX_STREAMS:
            self._spawn(self._serve(outbox.dial, asked.ticket))
        return True

    async def _serve(self, dial: Callable[[], tuple[grpc.aio.Channel, str]], ticket: str) -> None:
        """One stream from its opening to its end; the server orders another one when it needs one."""
        self._open += 1
        tunnels = Tunnels(self._asked)
        tunnels.say_hello(ticket)
        try:
            channel, token = dial()
            async with channel:
                metadata = [("authorization", f"Bearer {token}")] if token else []
                call = channel.stream_stream(METHOD, None, None)(None, metadata=grpc.aio.Metadata(*metadata))
                sending = asyncio.create_task(_send(tunnels, call))
                try:
                    while isinstance(message := await call.read(), bytes):
                        tunnels.take(message)
                finally:
                    sending.cancel()
                    call.cancel()
        except (grpc.aio.AioRpcError, BadFrames, OSError) as error:
            _log.info("a bulk stream has ended: %s", error.details() if isinstance(error, grpc.RpcError) else error)
        finally:
            tunnels.lose("the connection to the server was lost")
            self._open -= 1

    def _asked(self, tunnel: StreamTunnel, asked: pb.OpenTunnel) -> None:
        self._spawn(self._tunnel(tunnel, asked))

    async def _tunnel(self, tunnel: StreamTunnel, asked: pb.OpenTunnel) -> None:
        try:
            reader, writer = await self._connect(asked)
        except Refused as refused:
            tunnel.close(refused.closed)
            return
        tunnel.confirm()
        flight, key = Flight(), (asked.key.number, asked.key.run)
        self._flights.setdefault(key, set()).add(flight)
        try:
            with contextlib.closing(writer):
                # The kernel resets the connection when this process is killed: the work must not take what it got for all there was.
                _close_by(writer, _RESET)
                await _join(tunnel, reader, writer, flight)
        finally:
            self._flights[key].discard(flight)
            if not self._flights[key]:
                del self._flights[key]

    def in_flight(self, key: RunKey) -> int:
        """Connections to the run on which an answer is still awaited or on its way; one that only stays open is none."""
        return sum(flight.is_busy() for flight in self._flights.get((key.number, key.run), ()))

    async def connect(self, key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a process of the run; raises Refused."""
        return await self._connect(pb.OpenTunnel(key=pb.RunKey(number=key.number, run=key.run), port=port))

    async def _connect(self, asked: pb.OpenTunnel) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a process of the run, checked before and after; raises Refused."""
        found = await self._look(asked)
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                reader, writer = await asyncio.open_connection(found.target, found.port, limit=2 * PIECE_BYTES)
        except (OSError, TimeoutError) as error:
            text = f"port {asked.port} does not take connections: {str(error) or 'no answer'}"
            raise Refused("unreachable", text) from error
        try:
            if await self._look(asked) != found:
                raise Refused("not_listening", f"what listens on port {asked.port} has changed; try again")
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _look(self, asked: pb.OpenTunnel) -> Listener:
        pids = await self._pids(asked.key)
        listeners, owned = view = await asyncio.get_running_loop().run_in_executor(self._pool, _view, pids)
        found = choose(listeners, owned, asked.port)
        if found is None:
            raise Refused("not_listening", f"no process of it listens on port {asked.port} alone", view)
        return found

    async def _pids(self, key: pb.RunKey) -> tuple[int, ...]:
        """The processes of the run, as the shim counts them."""
        answered: asyncio.Future[ShimMessage] = asyncio.get_running_loop().create_future()

        def answer(message: ShimMessage) -> None:
            if not answered.done():
                answered.set_result(message)

        self._ask({"op": "processes", "number": key.number, "run": key.run}, answer)
        try:
            async with asyncio.timeout(SHIM_WITHIN_S):
                said = await answered
        except TimeoutError:
            raise Refused("unreachable", "the node cannot tell which processes belong to it") from None
        if not said.ok:
            raise Refused("unsupported", "the shim of its node is of an older release and cannot tell its processes")
        if not said.pids:
            raise Refused("gone", "no process of it runs on this node")
        return said.pids


def _view(pids: tuple[int, ...]) -> View:
    listeners = read_listeners()
    return listeners, read_owned(pids, frozenset(each.inode for each in listeners))


async def _send(tunnels: Tunnels, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        while message := await tunnels.next_message():
            await call.write(message)


async def _join(
    tunnel: StreamTunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flight: Flight
) -> None:
    """Carries both directions until both have ended or one has broken."""
    outward = asyncio.create_task(_outward(tunnel, reader, flight))
    inward = asyncio.create_task(_inward(tunnel, writer, flight))
    try:
        done, _ = await asyncio.wait((outward, inward), return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task.exception() for task in done if task.exception() is not None), None)
        broken = pb.TunnelClosed(code="broken", text=str(failed) or "the connection broke") if failed else None
        tunnel.close(broken)
        if tunnel.is_ended:
            _close_by(writer, _REGULAR)
    finally:
        outward.cancel()
        inward.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)


async def _outward(tunnel: StreamTunnel, reader: asyncio.StreamReader, flight: Flight) -> None:
    while piece := await reader.read(PIECE_BYTES):
        flight.outward()
        await tunnel.write(piece)
    tunnel.end()


def _close_by(writer: asyncio.StreamWriter, linger: bytes) -> None:
    """Whether the connection is reset when it is closed, or ends."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _answer_soon(writer: asyncio.StreamWriter) -> None:
    """Has the kernel acknowledge what comes back without delay: servers that send head and body apart wait for that (40 ms)."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


async def _inward(tunnel: StreamTunnel, writer: asyncio.StreamWriter, flight: Flight) -> None:
    try:
        while piece := await tunnel.read():
            flight.inward()
            writer.write(piece)
            _answer_soon(writer)
            await writer.drain()
    except TunnelEnded:
        writer.transport.abort()
        raise
    if not tunnel.is_ended:
        writer.transport.abort()
        raise ConnectionAbortedError("closed by the client")
    if writer.can_write_eof():
        writer.write_eof()
