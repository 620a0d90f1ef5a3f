"""A connection carried by a tunnel: bytes in order, each side's pace and end passed on, a break told as a reset."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from lattice.agent.tunnels.carrying import Carried
from lattice.agent.tunnels.flight import Flight
from lattice.wire.agents.tunnels import WINDOW_BYTES, StreamTunnel, TunnelEnded, Tunnels
from lattice.wire.pb import agent_pb2 as pb

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Ways:
    """A client's end of a tunnel, and the work's end of the connection that it leads to."""

    def __init__(self, ours: StreamTunnel, work: Streams, carrying: asyncio.Task[None]) -> None:
        self.ours, self.carrying = ours, carrying
        self.reader, self.writer = work


def over_a_tunnel(test: Callable[[Ways], Awaitable[None]]) -> None:
    async def whole() -> None:
        accepted: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        listener = await asyncio.start_server(lambda r, w: accepted.set_result((r, w)), "127.0.0.1", 0)
        asked: asyncio.Future[StreamTunnel] = asyncio.get_running_loop().create_future()
        server, agent = Tunnels(), Tunnels(lambda tunnel, _: asked.set_result(tunnel))

        async def pump(source: Tunnels, target: Tunnels) -> None:
            while message := await source.next_message():
                target.take(message)

        pumps = [asyncio.create_task(pump(server, agent)), asyncio.create_task(pump(agent, server))]
        ours = server.open(pb.OpenTunnel(port=1))
        tunnel = await asked
        port = listener.sockets[0].getsockname()[1]
        _, carried = await asyncio.get_running_loop().create_connection(Carried, "127.0.0.1", port)
        tunnel.confirm()
        carrying = asyncio.create_task(carried.carry(tunnel, Flight()))
        work = await accepted
        try:
            await asyncio.wait_for(test(Ways(ours, work, carrying)), 20)
        finally:
            work[1].close()
            listener.close()
            for task in (*pumps, carrying):
                task.cancel()
            await asyncio.gather(*pumps, carrying, return_exceptions=True)

    asyncio.run(whole())


def test_more_than_the_window_arrives_whole_in_both_directions_and_ends_regularly() -> None:
    data = bytes(range(256)) * (5 * WINDOW_BYTES // 256)

    async def scenario(ways: Ways) -> None:
        async def answer() -> bytes:
            got = await ways.reader.read(-1)
            ways.writer.write(data)
            ways.writer.write_eof()
            return got

        answering = asyncio.create_task(answer())
        await ways.ours.write(data)
        ways.ours.end()
        assert await answering == data
        got = b""
        while piece := await ways.ours.read():
            got += piece
        assert got == data
        await ways.carrying

    over_a_tunnel(scenario)


def test_a_client_that_does_not_read_stops_the_work() -> None:
    async def scenario(ways: Ways) -> None:
        sent = 0

        async def send() -> None:
            nonlocal sent
            while True:
                ways.writer.write(bytes(1 << 16))
                await ways.writer.drain()
                sent += 1 << 16

        sending = asyncio.create_task(send())
        seen = -1
        while seen != sent:  # until nothing moves
            seen = sent
            await asyncio.sleep(0.3)
        read = 0
        while sent == seen:  # it goes on when the client reads
            read += len(await ways.ours.read())
        sending.cancel()
        assert read <= seen

    over_a_tunnel(scenario)


def test_a_client_that_goes_resets_the_work() -> None:
    async def scenario(ways: Ways) -> None:
        await ways.ours.write(b"half of")
        assert await ways.reader.readexactly(7) == b"half of"
        ways.ours.close()
        with pytest.raises(ConnectionResetError):
            await ways.reader.read(1)
        await ways.carrying

    over_a_tunnel(scenario)


def test_work_that_breaks_off_is_told_as_broken() -> None:
    async def scenario(ways: Ways) -> None:
        made = ways.writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ways.writer.transport.abort()
        with pytest.raises(TunnelEnded):
            await ways.ours.read()
        await ways.carrying

    over_a_tunnel(scenario)
