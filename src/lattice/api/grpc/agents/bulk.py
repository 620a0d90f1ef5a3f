"""The agents' bulk streams as the leader has them: ordered on the control stream, recognised by their ticket, ended when idle."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast, get_args

import grpc
from google.protobuf.message import DecodeError

from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import ListeningPort, RefusalCode, Tunnel, TunnelBroken, TunnelRefused
from lattice.wire.agents.messages import RUN_KEY
from lattice.wire.agents.tunnels import PURPOSE, BadFrames, StreamTunnel, TunnelEnded, Tunnels
from lattice.wire.pb import agent_pb2 as pb

OPEN_WITHIN_S = 5.0
CONNECT_WITHIN_S = 10.0
MAX_RECENT = 10_000  # runs, between two questions
IDLE_S = 60.0
# Nodes of releases before this one do not know the order.
NOT_HERE = "its node runs a release that forwards no ports"

Order = Callable[[str, pb.ServerMessage], bool | None]
Write = Callable[[bytes], Awaitable[None]]


class UnknownTicket(Exception):
    """No connection waits for this stream."""


class BulkTable:
    """Implements `PortLinks`. `order` hands a message to a node: None when it is not connected, False when it does not know such orders."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._waiting: dict[str, tuple[str, asyncio.Future[Tunnels]]] = {}
        self._opening: dict[str, asyncio.Future[Tunnels]] = {}
        self._open: dict[str, Tunnels] = {}
        self._connected: Counter[RunKey] = Counter()  # connections to ports of a run that are open
        self._recent: set[RunKey] = set()  # runs with one that was opened since somebody asked

    async def connect_port(self, node: str, key: RunKey, port: int) -> Tunnel:
        tunnel = (await self._tunnels(node)).open(pb.OpenTunnel(key=RUN_KEY.write(key), port=port))
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await tunnel.opened()
        except TunnelEnded as ended:
            raise _refused(ended) from None
        except TimeoutError:
            tunnel.close()
            raise TunnelRefused("unreachable", f"node {node} does not answer") from None
        except BaseException:
            tunnel.close()
            raise
        if port:
            self._connected[key] += 1
            if len(self._recent) < MAX_RECENT:
                self._recent.add(key)
        return _OpenTunnel(tunnel, lambda: self._closed(key) if port else None)

    def _closed(self, key: RunKey) -> None:
        self._connected[key] -= 1
        if self._connected[key] <= 0:
            del self._connected[key]

    def reached(self) -> frozenset[RunKey]:
        """Runs to whose ports somebody is connected, or was since the last call."""
        recent, self._recent = self._recent, set()
        return frozenset(recent | self._connected.keys())

    async def listening(self, node: str, key: RunKey) -> tuple[ListeningPort, ...]:
        try:
            tunnel = await self.connect_port(node, key, 0)
        except TunnelRefused as refusal:
            if refusal.code == "not_listening":
                return refusal.listening
            raise
        tunnel.close()
        return ()

    async def carry(self, node: str | None, messages: AsyncIterator[bytes], write: Write) -> None:
        """Serves one stream of an agent, whose token is for this node if it names one; returns at its end.

        Raises UnknownTicket and BadFrames.
        """
        ticket = _ticket(await anext(messages, b""))
        expected, waiting = self._waiting.pop(ticket, ("", None))
        if waiting is None or waiting.done() or node not in (None, expected):
            raise UnknownTicket
        tunnels = self._open[expected] = Tunnels()
        waiting.set_result(tunnels)
        sending = asyncio.create_task(_send(tunnels, write))
        idling = asyncio.create_task(_idle(tunnels))
        receiving = asyncio.create_task(_receive(tunnels, messages))
        try:
            await asyncio.wait((sending, idling, receiving), return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                receiving.result()
        finally:
            tunnels.lose("the connection to the node was lost")
            if self._open.get(expected) is tunnels:
                del self._open[expected]
            for task in (sending, idling, receiving):
                task.cancel()
            await asyncio.gather(sending, idling, receiving, return_exceptions=True)

    def end(self) -> None:
        """This server leads no more: everything that goes through it breaks."""
        for tunnels in list(self._open.values()):
            tunnels.lose("another server leads now")
        self._open.clear()

    async def _tunnels(self, node: str) -> Tunnels:
        found = self._open.get(node)
        if found is not None and found.lost is None:
            return found
        opening = self._opening.get(node)
        if opening is None:
            opening = self._opening[node] = asyncio.ensure_future(self._begin(node))
            opening.add_done_callback(lambda _: self._opening.pop(node, None))
        return await asyncio.shield(opening)

    async def _begin(self, node: str) -> Tunnels:
        ticket = secrets.token_urlsafe(32)
        waiting: asyncio.Future[Tunnels] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = node, waiting
        try:
            ordered = self._order(node, pb.ServerMessage(open_bulk=pb.OpenBulk(ticket=ticket, purpose=PURPOSE)))
            if not ordered:
                code: RefusalCode = "unreachable" if ordered is None else "unsupported"
                raise TunnelRefused(code, f"node {node} is not connected" if ordered is None else NOT_HERE)
            async with asyncio.timeout(OPEN_WITHIN_S):
                return await waiting
        except TimeoutError:
            raise TunnelRefused("unreachable", f"node {node} does not answer") from None
        finally:
            self._waiting.pop(ticket, None)


class _OpenTunnel:
    """Implements `Tunnel` in the words of the port."""

    def __init__(self, tunnel: StreamTunnel, on_close: Callable[[], None]) -> None:
        self._tunnel = tunnel
        self._on_close: Callable[[], None] | None = on_close
        self.end = tunnel.end

    @property
    def is_quiet(self) -> bool:
        return self._tunnel.is_quiet

    async def read(self) -> bytes:
        try:
            return await self._tunnel.read()
        except TunnelEnded as ended:
            raise TunnelBroken(str(ended)) from None

    async def write(self, data: bytes) -> None:
        try:
            await self._tunnel.write(data)
        except TunnelEnded as ended:
            raise TunnelBroken(str(ended)) from None

    def close(self) -> None:
        self._tunnel.close()
        told, self._on_close = self._on_close, None
        if told is not None:
            told()


def _refused(ended: TunnelEnded) -> TunnelRefused:
    closed = ended.closed
    code = cast("RefusalCode", closed.code if closed.code in get_args(RefusalCode) else "broken")
    listening = tuple(
        ListeningPort(port=each.port, address=each.address, pid=each.pid, program=each.program)
        for each in closed.listening
    )
    return TunnelRefused(code, closed.text or "the node closed the connection", listening)


def _ticket(first: bytes) -> str:
    try:
        frames = pb.BulkFrames.FromString(first).frames
    except DecodeError as error:
        raise BadFrames("not a message of a bulk stream") from error
    if not frames or not frames[0].HasField("hello"):
        raise BadFrames("the first message must be a ticket")
    return frames[0].hello


async def _send(tunnels: Tunnels, write: Write) -> None:
    while message := await tunnels.next_message():
        await write(message)


async def _receive(tunnels: Tunnels, messages: AsyncIterator[bytes]) -> None:
    try:
        async for message in messages:
            tunnels.take(message)
    except grpc.RpcError:
        return


async def _idle(tunnels: Tunnels) -> None:
    """Returns when the stream has carried no connection for a while."""
    is_idle = False
    while not (is_idle and not len(tunnels)):
        is_idle = not len(tunnels)
        await asyncio.sleep(IDLE_S)
