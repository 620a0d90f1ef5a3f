"""Tunnels over one stream: bytes arrive in order, windows hold, ends and losses are told to whoever waits."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lattice.wire.agents import tunnels as wire
from lattice.wire.agents.tunnels import BadFrames, StreamTunnel, TunnelEnded, Tunnels
from lattice.wire.pb import agent_pb2 as pb


async def settled(condition: Callable[[], bool]) -> None:
    """What was sent arrives in a few turns of the loop: nothing here waits for anything else."""
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not arrive")


class Pair:
    """Both ends of a stream that loses nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[StreamTunnel, pb.OpenTunnel]] = []
        self.server = Tunnels()
        self.agent = Tunnels(lambda tunnel, asked: self.asked.append((tunnel, asked)))
        self.tasks = [
            asyncio.create_task(self.carry(self.server, self.agent)),
            asyncio.create_task(self.carry(self.agent, self.server)),
        ]

    async def carry(self, source: Tunnels, target: Tunnels) -> None:
        while message := await source.next_message():
            target.take(message)

    async def opened(self, port: int = 8888) -> tuple[StreamTunnel, StreamTunnel]:
        ours = self.server.open(pb.OpenTunnel(port=port))
        await settled(lambda: len(self.asked) == ours.number)
        theirs, asked = self.asked[-1]
        assert asked.port == port
        theirs.confirm()
        await ours.opened()
        return ours, theirs


def over_a_pair(test: Callable[[Pair], Awaitable[None]]) -> None:
    async def whole() -> None:
        pair = Pair()
        try:
            await asyncio.wait_for(test(pair), 10)
        finally:
            for task in pair.tasks:
                task.cancel()

    asyncio.run(whole())


def test_bytes_arrive_in_order_in_both_directions_and_ends_are_separate() -> None:
    async def scenario(pair: Pair) -> None:
        ours, theirs = await pair.opened()
        await ours.write(b"question")
        ours.end()
        assert await theirs.read() == b"question"
        assert await theirs.read() == b""
        await theirs.write(b"answer")
        theirs.end()
        assert (await ours.read(), await ours.read()) == (b"answer", b"")
        ours.close()
        assert len(pair.server) == 0

    over_a_pair(scenario)


def test_a_reader_that_waits_stops_its_own_tunnel_and_no_other() -> None:
    async def scenario(pair: Pair) -> None:
        slow, slow_end = await pair.opened()
        quick, quick_end = await pair.opened()
        data = bytes(3 * wire.WINDOW_BYTES)
        writing = asyncio.create_task(slow.write(data))
        await quick.write(b"quick")
        assert await quick_end.read() == b"quick"
        assert not writing.done()
        got = 0
        while got < len(data):
            got += len(await slow_end.read())
        await writing
        assert got == len(data)

    over_a_pair(scenario)


def test_refusals_and_losses_reach_whoever_waits() -> None:
    async def scenario(pair: Pair) -> None:
        ours = pair.server.open(pb.OpenTunnel(port=1))
        await settled(lambda: bool(pair.asked))
        pair.asked[0][0].close(pb.TunnelClosed(code="not_listening", text="nobody there"))
        with pytest.raises(TunnelEnded, match="nobody there"):
            await ours.opened()
        ours, theirs = await pair.opened()
        reading = asyncio.create_task(ours.read())
        writing = asyncio.create_task(ours.write(bytes(2 * wire.WINDOW_BYTES)))
        await theirs.read()
        pair.server.lose("the node is gone")
        for task in (reading, writing):
            with pytest.raises(TunnelEnded, match="the node is gone"):
                await task
        with pytest.raises(TunnelEnded, match="the node is gone"):
            pair.server.open(pb.OpenTunnel(port=1))

    over_a_pair(scenario)


def test_a_side_that_ignores_its_window_breaks_its_tunnel() -> None:
    async def scenario(pair: Pair) -> None:
        ours, theirs = await pair.opened()
        too_much = pb.BulkFrame(tunnel=ours.number, data=bytes(wire.WINDOW_BYTES + wire.PIECE_BYTES + 1))
        pair.agent.take(pb.BulkFrames(frames=[too_much]).SerializeToString())
        assert theirs.is_closed
        with pytest.raises(TunnelEnded, match="window"):
            await ours.read()

    over_a_pair(scenario)


def test_neither_too_many_tunnels_nor_rubbish_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_TUNNELS", 1)

    async def scenario(pair: Pair) -> None:
        await pair.opened()
        with pytest.raises(TunnelEnded, match="connections already"):
            pair.server.open(pb.OpenTunnel(port=1))
        with pytest.raises(BadFrames):
            pair.server.take(b"\xff\xff")
        # An agent opens nothing at the server.
        pair.server.take(pb.BulkFrames(frames=[pb.BulkFrame(tunnel=99, open=pb.OpenTunnel())]).SerializeToString())
        assert len(pair.server) == 1

    over_a_pair(scenario)
