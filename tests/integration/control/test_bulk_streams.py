"""Bulk streams of real agents' code over real gRPC, at the leader and through a follower: connections to ports, and who may open one."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from lattice.agent.connection import Outbox
from lattice.agent.shim_client import ShimMessage
from lattice.agent.tunnels.streams import BulkStreams
from lattice.api.grpc.agents import bulk
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import TunnelBroken, TunnelRefused
from lattice.quorum.trust.tls import PeerTls
from lattice.wire.agents.channel import open_channel
from lattice.wire.agents.tunnels import METHOD
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, agent_token
from tests.integration.control.test_agent_relay import World, served
from tests.integration.control.test_agent_relay import tls as tls

KEY = RunKey(17, 1)
SPEAKS = pb.Protocol(oldest=1, newest=2, features=["tunnels"])


class Node:
    """An agent whose runs are processes of this test: run 17.1 has them all, another one has none."""

    def __init__(self, agent: FakeAgent) -> None:
        self.agent = agent
        self.tasks: set[asyncio.Task[None]] = set()
        self.pids: tuple[int, ...] = (os.getpid(),)
        self.streams = BulkStreams(self._ask, self._spawn, ThreadPoolExecutor(1))
        self.outbox = Outbox()
        self.outbox.dial = lambda: (open_channel(agent.endpoint), agent.token)

    def _ask(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        assert on_answer is not None
        on_answer(ShimMessage(ok=True, pids=self.pids if body["number"] == KEY.number else ()))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def obey(self) -> None:
        while True:
            assert self.streams.received(await self.agent.orders.get(), self.outbox)


@contextlib.asynccontextmanager
async def node_at(world: World, server: str) -> AsyncIterator[Node]:
    async with world.at(server, "n1", protocol=SPEAKS).connected() as agent:
        node = Node(agent)
        obeying = asyncio.create_task(node.obey())
        try:
            yield node
        finally:
            for task in (obeying, *node.tasks):
                task.cancel()
            await asyncio.gather(obeying, *node.tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A port that gives back what it gets, and then ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


async def confirmed(rig: Rig, node: Node) -> None:
    await node.agent.until(lambda: rig.links.is_connected("n1"))


@pytest.mark.parametrize("server", ["one", "three"])
def test_a_connection_carries_bytes_both_ways_at_the_leader_and_through_a_follower(tls: PeerTls, server: str) -> None:
    async def test(world: World) -> None:
        rig = world.lead("one")
        async with node_at(world, server) as node, echo() as port:
            await confirmed(rig, node)
            tunnel = await rig.links.bulk.connect_port("n1", KEY, port)
            data = os.urandom(3 << 20)
            writing = asyncio.create_task(tunnel.write(data))
            got = b""
            while len(got) < len(data):
                got += await tunnel.read()
            await writing
            tunnel.end()
            assert (got == data, await tunnel.read()) == (True, b"")
            assert port in [each.port for each in await rig.links.bulk.listening("n1", KEY)]
            assert len(node.tasks) >= 1

    served(tls, test)


def test_what_the_run_does_not_listen_on_is_refused(tls: PeerTls) -> None:
    async def test(world: World) -> None:
        rig = world.lead("one")
        async with node_at(world, "one") as node, echo() as port:
            await confirmed(rig, node)
            with pytest.raises(TunnelRefused) as refused:
                await rig.links.bulk.connect_port("n1", KEY, 1)
            assert refused.value.code == "not_listening"
            assert port in [each.port for each in refused.value.listening]
            with pytest.raises(TunnelRefused, match="no process of it runs") as refused:
                await rig.links.bulk.connect_port("n1", RunKey(18, 1), port)
            node.pids = (1,)  # a process, but not the one that listens
            with pytest.raises(TunnelRefused) as refused:
                await rig.links.bulk.connect_port("n1", KEY, port)
            assert (refused.value.code, refused.value.listening) == ("not_listening", ())
            with pytest.raises(TunnelRefused, match="not connected"):
                await rig.links.bulk.connect_port("n2", KEY, port)

    served(tls, test)


def test_losing_the_bulk_stream_breaks_its_connections_and_not_the_control_stream(tls: PeerTls) -> None:
    async def test(world: World) -> None:
        rig = world.lead("one")
        async with node_at(world, "three") as node, echo() as port:
            await confirmed(rig, node)
            tunnel = await rig.links.bulk.connect_port("n1", KEY, port)
            for task in list(node.tasks):
                task.cancel()
            with pytest.raises(TunnelBroken):
                await tunnel.read()
            await node.agent.beat()
            assert rig.links.is_connected("n1")
            again = await rig.links.bulk.connect_port("n1", KEY, port)
            await again.write(b"x")
            assert await again.read() == b"x"
            world.lead("two")  # everything that went through the former leader breaks
            with pytest.raises(TunnelBroken):
                await again.read()

    served(tls, test)


def test_an_idle_stream_ends_and_the_next_connection_opens_another(
    tls: PeerTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "IDLE_S", 0.01)

    async def test(world: World) -> None:
        rig = world.lead("one")
        async with node_at(world, "one") as node, echo() as port:
            await confirmed(rig, node)
            (await rig.links.bulk.connect_port("n1", KEY, port)).close()
            await node.agent.until(lambda: not node.tasks)
            (await rig.links.bulk.connect_port("n1", KEY, port)).close()

    served(tls, test)


def test_only_agents_open_bulk_streams_with_the_ticket_that_they_were_given(tls: PeerTls) -> None:
    async def test(world: World) -> None:
        world.lead("one")
        for token, code in (
            ("", grpc.StatusCode.UNAUTHENTICATED),
            ("rubbish", grpc.StatusCode.UNAUTHENTICATED),
            (agent_token(), grpc.StatusCode.FAILED_PRECONDITION),
        ):
            for server in ("one", "three"):
                async with open_channel(world.servers[server].endpoint) as channel:
                    metadata = grpc.aio.Metadata(*([("authorization", f"Bearer {token}")] if token else []))
                    call = channel.stream_stream(METHOD, None, None)(None, metadata=metadata)
                    if (
                        code is grpc.StatusCode.FAILED_PRECONDITION
                    ):  # the others are refused before they have said anything
                        hello = pb.BulkFrames(frames=[pb.BulkFrame(hello="guessed")])
                        await call.write(hello.SerializeToString())
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await call.read()
                    assert refused.value.code() is code

    served(tls, test)


def test_an_agent_of_an_older_release_is_not_asked(tls: PeerTls) -> None:
    async def test(world: World) -> None:
        rig = world.lead("one")
        async with world.at("one", "n1").connected() as agent:
            await agent.until(lambda: rig.links.is_connected("n1"))
            with pytest.raises(TunnelRefused, match="forwards no ports"):
                await rig.links.bulk.connect_port("n1", KEY, 80)

    served(tls, test)
