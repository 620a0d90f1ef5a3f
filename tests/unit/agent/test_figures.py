"""What an agent measures of itself, and who may read it."""

import asyncio
from pathlib import Path

import pytest

from lattice.agent.figures.figures import FAMILIES, PING_EVERY_S, AgentFigures
from lattice.agent.figures.listener import MAX_CLIENTS, FigureListener
from lattice.core.model.site.protocols import PINGS
from lattice.wire.pb import agent_pb2 as pb


class Rig:
    def __init__(self) -> None:
        self.s = 100.0
        self.sent: list[pb.AgentMessage] = []
        self.figures = AgentFigures("n1", self.sent.append, now_s=lambda: self.s)

    def pong(self, number: int) -> bool:
        return self.figures.received(pb.ServerMessage(pong=pb.Pong(number=number)))


def test_the_answer_to_a_ping_is_measured_once_a_minute() -> None:
    rig = Rig()
    rig.figures.welcomed((PINGS,))
    rig.figures.beat()
    rig.figures.beat()
    assert [message.ping.number for message in rig.sent] == [1]
    rig.s += 0.02
    assert rig.pong(1)
    assert rig.pong(1), "a repeated answer counts once"
    page = rig.figures.page()
    assert 'lattice_agent_heartbeat_latency_seconds_count{node_id="n1"} 1' in page
    assert 'lattice_agent_heartbeat_latency_seconds_bucket{node_id="n1",le="0.01"} 0' in page
    assert 'lattice_agent_heartbeat_latency_seconds_bucket{node_id="n1",le="0.025"} 1' in page
    rig.s += PING_EVERY_S
    rig.figures.beat()
    assert len(rig.sent) == 2


def test_a_server_that_does_not_know_pings_gets_none() -> None:
    rig = Rig()
    rig.figures.received(pb.ServerMessage(welcome=pb.Welcome(protocol=pb.Protocol(features=["measure"]))))
    rig.figures.beat()
    assert rig.sent == []


def test_an_answer_of_another_session_is_not_measured() -> None:
    rig = Rig()
    rig.figures.welcomed((PINGS,))
    rig.figures.beat()
    rig.figures.welcomed((PINGS,))
    assert rig.pong(1)
    assert 'latency_seconds_count{node_id="n1"} 0' in rig.figures.page()


def test_starts_are_measured_and_unknown_figures_are_absent() -> None:
    rig = Rig()
    rig.figures.gauge("lattice_agent_ebpf_overhead_percent", lambda: None)
    rig.figures.gauge("lattice_agent_runs", lambda: 2.0)
    since_s = rig.figures.now_s()
    rig.s += 0.3
    rig.figures.started(since_s)
    page = rig.figures.page()
    assert 'lattice_agent_allocation_startup_seconds_sum{node_id="n1"} 0.300000' in page
    assert 'lattice_agent_runs{node_id="n1"} 2' in page
    assert "ebpf_overhead" not in page
    assert all(line.split(" ")[2] in FAMILIES for line in page.splitlines() if line.startswith("# TYPE"))


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"200"),
        (b"GET /metrics?x=1 HTTP/1.1", b"200"),
        (b"GET /etc/passwd HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"nonsense", b"404"),
    ],
)
def test_the_page_is_all_there_is(request_line: bytes, status: bytes) -> None:
    async def ask() -> bytes:
        listener = FigureListener(lambda: "lattice_agent_runs 1\n")
        port = await listener.start("127.0.0.1", 0)
        try:
            return await _ask(port, request_line + b"\r\nhost: n1\r\n\r\n")
        finally:
            listener.close()

    answer = asyncio.run(ask())
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert (b"lattice_agent_runs 1" in answer) == (status == b"200")


def test_a_crowd_of_silent_readers_is_bounded() -> None:
    async def crowd() -> bytes:
        listener = FigureListener(lambda: "x 1\n")
        port = await listener.start("127.0.0.1", 0)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CLIENTS)]
        try:
            async with asyncio.timeout(5):
                while listener._clients < MAX_CLIENTS:  # noqa: ASYNC110 - a connection that was taken sets no event
                    await asyncio.sleep(0.01)
            return await _ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        finally:
            for _, writer in silent:
                writer.close()
            listener.close()

    with pytest.raises((ConnectionError, AssertionError)):
        assert asyncio.run(crowd())


def test_the_agent_needs_no_library_for_its_page() -> None:
    source = Path(__file__).parents[3] / "src" / "lattice" / "agent" / "figures"
    assert not any("prometheus_client" in path.read_text() for path in source.glob("*.py"))
