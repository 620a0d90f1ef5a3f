"""Bulk streams as a server orders them, and the tunnels on them: each is one connection to a port of one run."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Protocol, TypeVar

import grpc.aio

from lattice.agent.connection import Outbox
from lattice.agent.shim_client import ShimMessage
from lattice.agent.tunnels.carrying import Carried
from lattice.agent.tunnels.flight import Flight
from lattice.agent.tunnels.listening import Listener, Owner, choose, own_ports, read_listeners, read_owned
from lattice.agent.tunnels.resting import Pace, Resting
from lattice.ports.nodes.agents import RunKey
from lattice.wire.agents.tunnels import METHOD, PIECE_BYTES, PURPOSE, BadFrames, StreamTunnel, Tunnels
from lattice.wire.pb import agent_pb2 as pb

SHIM_WITHIN_S = 5.0
CONNECT_WITHIN_S = 5.0
MAX_STREAMS = 4
MAX_NAMED = 64

_log = logging.getLogger(__name__)

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]
View = tuple[list[Listener], dict[int, Owner]]


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)
T = TypeVar("T")
Dial = Callable[[str, int], Awaitable[tuple[C, T]]]


class Refused(Exception):
    """Nothing is connected; `closed` says why."""

    def __init__(self, code: str, text: str, view: View = ([], {})) -> None:
        super().__init__(text)
        named = [
            pb.ListeningPort(port=listener.port, address=listener.address, pid=owner.pid, program=owner.program)
            for listener, owner in own_ports(*view)[:MAX_NAMED]
        ]
        self.closed = pb.TunnelClosed(code=code, text=text, listening=named)


class BulkStreams:
    """Hears orders, and keeps the streams apart from the one that they came on."""

    def __init__(self, ask: Ask, spawn: Callable[[Coroutine[None, None, None]], None], pool: Executor) -> None:
        self._ask = ask
        self._spawn = spawn
        self._pool = pool
        self._open = 0
        self.resting = Resting(time.monotonic)
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
                sending = asyncio.create_task(_send(tunnels, call, self._pace()))
                pace = self._pace()
                try:
                    while isinstance(message := await call.read(), bytes):
                        await pace.keep(len(message))
                        tunnels.take(message)
                finally:
                    sending.cancel()
                    call.cancel()
        except (grpc.aio.AioRpcError, BadFrames, OSError) as error:
            _log.info("a bulk stream has ended: %s", error.details() if isinstance(error, grpc.RpcError) else error)
        finally:
            tunnels.lose("the connection to the server was lost")
            self._open -= 1

    def _pace(self) -> Pace:
        return Pace(self.resting, time.monotonic)

    def _asked(self, tunnel: StreamTunnel, asked: pb.OpenTunnel) -> None:
        self._spawn(self._tunnel(tunnel, asked))

    async def _tunnel(self, tunnel: StreamTunnel, asked: pb.OpenTunnel) -> None:
        try:
            transport, carried = await self._checked(asked, _dial_carried)
        except Refused as refused:
            tunnel.close(refused.closed)
            return
        tunnel.confirm()
        flight, key = Flight(), (asked.key.number, asked.key.run)
        self._flights.setdefault(key, set()).add(flight)
        try:
            with contextlib.closing(transport):
                await carried.carry(tunnel, flight)
        finally:
            self._flights[key].discard(flight)
            if not self._flights[key]:
                del self._flights[key]

    def in_flight(self, key: RunKey) -> int:
        """Connections to the run on which an answer is still awaited or on its way; one that only stays open is none."""
        return sum(flight.is_busy() for flight in self._flights.get((key.number, key.run), ()))

    async def listens(self, key: RunKey, port: int) -> tuple[str, int]:
        """Address and inode of the socket on which the run, and no other process, takes connections to the port; raises OSError."""
        try:
            found = await self._look(pb.OpenTunnel(key=pb.RunKey(number=key.number, run=key.run), port=port))
        except Refused as refused:
            raise OSError(str(refused)) from refused
        return found.target, found.inode

    async def connect(self, key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a process of the run; raises Refused."""
        asked = pb.OpenTunnel(key=pb.RunKey(number=key.number, run=key.run), port=port)
        writer, reader = await self._checked(asked, _dial_streams)
        return reader, writer

    async def _checked(self, asked: pb.OpenTunnel, dial: Dial[C, T]) -> tuple[C, T]:
        """A connection to a process of the run, checked before and after; raises Refused."""
        found = await self._look(asked)
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                connection, user = await dial(found.target, found.port)
        except (OSError, TimeoutError) as error:
            text = f"port {asked.port} does not take connections: {str(error) or 'no answer'}"
            raise Refused("unreachable", text) from error
        try:
            if await self._look(asked) != found:
                raise Refused("not_listening", f"what listens on port {asked.port} has changed; try again")
        except BaseException:
            connection.close()
            raise
        return connection, user

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


async def _send(tunnels: Tunnels, call: grpc.aio.StreamStreamCall[bytes, bytes], pace: Pace) -> None:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        while message := await tunnels.next_message():
            await pace.keep(len(message))
            await call.write(message)


async def _dial_carried(address: str, port: int) -> tuple[asyncio.Transport, Carried]:
    return await asyncio.get_running_loop().create_connection(Carried, address, port)


async def _dial_streams(address: str, port: int) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection(address, port, limit=2 * PIECE_BYTES)
    return writer, reader
