"""The agent's way to a server: which one it tries first, and how it registers again without leaving."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import grpc
import pytest

from lattice.agent import connection
from lattice.agent.connection import CLOSED, Connector, Handler, Outbox, OutboxClosed, ServerGone, preferred, reason_of
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import AgentProcess, TestServer, until

ENDPOINTS = ["one:1", "two:2", "three:3"]


def test_every_server_gets_its_share_of_the_agents() -> None:
    first = Counter(preferred(ENDPOINTS, f"n{number}")[0] for number in range(300))
    assert min(first.values()) > 60


def test_the_agents_of_a_server_that_is_gone_spread_over_the_others() -> None:
    second = Counter(order[1] for number in range(300) if (order := preferred(ENDPOINTS, f"n{number}"))[0] == "one:1")
    assert set(second) == {"two:2", "three:3"}
    assert min(second.values()) > 20


def test_the_order_is_the_nodes_own_whatever_order_was_given() -> None:
    assert preferred(ENDPOINTS, "n1") == preferred([*reversed(ENDPOINTS), "one:1"], "n1")


@pytest.mark.parametrize(
    ("details", "reason"),
    [("they were revoked", "permission_denied: they were revoked"), ("Internal error from Core", CLOSED)],
)
def test_what_grpc_says_of_itself_is_no_reason(details: str, reason: str) -> None:
    nothing = grpc.aio.Metadata()
    code = grpc.StatusCode.INTERNAL if reason == CLOSED else grpc.StatusCode.PERMISSION_DENIED
    assert reason_of(grpc.aio.AioRpcError(code, nothing, nothing, details, "")) == reason


class Deaf:
    """Connects to nothing, and is refused with the next reason each time."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = iter(reasons)

    async def stream(self, endpoint: str, patience: float) -> None:
        reason = next(self._reasons, None)
        if reason is None:
            raise asyncio.CancelledError
        raise ServerGone(reason, answered=False)


def test_a_reason_is_logged_once_though_it_is_not_always_heard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connector = Connector(["one:1"], lambda: "", cast("Handler", None))
    deaf = Deaf("revoked", CLOSED, "revoked", CLOSED, "expired", "expired")
    monkeypatch.setattr(connector, "_stream", deaf.stream)
    monkeypatch.setattr(connection, "delay_s", lambda failures: 0.0)
    with caplog.at_level(logging.WARNING), contextlib.suppress(asyncio.CancelledError):
        asyncio.run(connector.run())
    assert [record.getMessage() for record in caplog.records] == [
        "no stream to one:1: revoked",
        "no stream to one:1: expired",
    ]


def test_a_closed_outbox_takes_and_gives_nothing() -> None:
    async def scenario() -> None:
        outbox = Outbox()
        assert outbox.post(pb.AgentMessage())
        taking = asyncio.ensure_future(Outbox.take(other := Outbox()))
        await asyncio.sleep(0)
        for one in (outbox, other):
            one.close()
            assert not one.post(pb.AgentMessage())
            with pytest.raises(OutboxClosed):
                await one.take()
        with pytest.raises(OutboxClosed):
            await taking

    asyncio.run(scenario())


class Server:
    """Welcomes whoever registers, and says what the test puts into `says`; streams and what came on each are kept."""

    def __init__(self) -> None:
        self.streams: list[list[pb.AgentMessage]] = []
        self.says: asyncio.Queue[pb.ServerMessage] = asyncio.Queue()

    async def Connect(
        self,
        messages: AsyncIterator[pb.AgentMessage],
        context: "grpc.aio.ServicerContext[pb.AgentMessage, pb.ServerMessage]",
    ) -> None:
        heard: list[pb.AgentMessage] = []
        self.streams.append(heard)

        async def speak() -> None:
            while True:
                await context.write(await self.says.get())

        speaking = asyncio.create_task(speak())
        try:
            async for message in messages:
                heard.append(message)
        finally:
            speaking.cancel()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.Connect, pb.AgentMessage.FromString, pb.ServerMessage.SerializeToString
        )
        service = grpc.method_handlers_generic_handler("lattice.v1.AgentService", {"Connect": handler})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(0)


class Speaker:
    """A handler that registers on each opening, under rising numbers."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.outbox: Outbox | None = None

    def opened(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.events.append("opened")
        outbox.post(pb.AgentMessage(register=pb.Register(node_id="n1", boot_id=str(self.events.count("opened")))))

    def received(self, message: pb.ServerMessage) -> None:
        self.events.append(message.WhichOneof("body") or "")

    def closed(self) -> None:
        self.events.append("closed")


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it becomes true on the other side of a socket
            await asyncio.sleep(0.005)


def test_rejoin_registers_again_on_the_same_stream_and_drops_what_was_queued() -> None:
    async def scenario() -> None:
        server, speaker = Server(), Speaker()
        async with server.serving() as endpoint:
            running = asyncio.create_task(Connector([endpoint], lambda: "token", speaker, "n1").run())
            server.says.put_nowait(pb.ServerMessage(welcome=pb.Welcome(session=1)))
            await soon(lambda: "welcome" in speaker.events)
            before = speaker.outbox
            server.says.put_nowait(pb.ServerMessage(rejoin=pb.Rejoin()))
            await soon(lambda: len(server.streams[0]) == 2)
            assert before is not None
            assert not before.post(pb.AgentMessage(heartbeat=pb.Heartbeat(seq=1)))
            assert speaker.events == ["opened", "welcome", "closed", "opened"]
            assert [message.register.boot_id for message in server.streams[0]] == ["1", "2"]
            assert len(server.streams) == 1
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_an_agent_that_is_not_welcomed_again_moves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        server, speaker = Server(), Speaker()
        async with server.serving() as endpoint:
            server.says.put_nowait(pb.ServerMessage(welcome=pb.Welcome(session=1)))
            server.says.put_nowait(pb.ServerMessage(rejoin=pb.Rejoin()))
            running = asyncio.create_task(Connector([endpoint], lambda: "token", speaker, "n1").run())
            await soon(lambda: len(server.streams) == 2)
            assert speaker.events[:5] == ["opened", "welcome", "closed", "opened", "closed"]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    monkeypatch.setattr(connection, "FIRST_ANSWER_WITHIN_S", 0.3)
    asyncio.run(scenario())


def test_a_server_without_a_common_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    """The agent takes no orders from it, says what to do, and works as soon as it meets a server that it understands."""

    async def scenario() -> None:
        server = TestServer()
        server.protocol = pb.Protocol(oldest=8, newest=9)
        await server.listen()
        agent = AgentProcess(tmp_path / "state", f"127.0.0.1:{server.port}")
        said = "server test speaks protocol versions 8 to 9, this agent versions 1 to 2: they have none in common"
        try:
            agent.start()
            await until(lambda: f"{said}; upgrade this agent, one release at a time" in agent.log.read_text(), said)
            assert not server.sessions[0].of_kind("confirmed")
            server.protocol = pb.Protocol(oldest=1, newest=2)
            await until(lambda: server.newest.of_kind("confirmed"), "a stream that is confirmed")
        finally:
            await agent.close()
            await server.close()

    asyncio.run(scenario())
