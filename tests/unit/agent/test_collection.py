"""Where heartbeats go: through the collector while it asks, to the server itself whenever it does not, never through two."""

import asyncio
import time
from collections.abc import Callable
from itertools import count

import pytest

from lattice.agent.collectors.member import Collection
from lattice.agent.collectors.tcp import Listener, TcpSwitchboard
from lattice.agent.hollow.switchboard import HollowSwitchboard
from lattice.testing import scenario
from lattice.testing.waiting import NotInTime
from lattice.wire.agents.collecting import (
    MAX_BEAT,
    MAX_SHARES,
    Alive,
    Answer,
    BadFrame,
    Bring,
    Frame,
    Frames,
    GatheredShare,
    Hello,
    encode,
    probe,
    unseal,
)
from lattice.wire.pb import agent_pb2 as pb

INTERVAL_S = 0.05
KEY = b"0123456789abcdef"


async def until(look: Callable[[], object], what: str) -> None:
    for _ in range(6000):
        if look():
            return
        await asyncio.sleep(0.005)
    raise NotInTime(what)


class Node:
    """With a clock that `stands`, a question never becomes old, however slow the machine is."""

    def __init__(self, name: str, switchboard: HollowSwitchboard | TcpSwitchboard, *, stands: bool = False) -> None:
        self.name = name
        self.posted: list[pb.AgentMessage] = []
        self.is_silent = False
        self._seq = count(1)
        clock = (lambda: 0.0) if stands else time.monotonic
        self.collection = Collection(name, switchboard, self._beat, self.posted.append, clock)

    def _beat(self) -> pb.Heartbeat | None:
        return None if self.is_silent else pb.Heartbeat(seq=next(self._seq))

    def report_to(
        self, collector: str, address: str = "", *, member: int = 0, interval_s: float = INTERVAL_S, generation: int = 1
    ) -> None:
        told = pb.ReportTo(
            generation=generation,
            collector=collector,
            address=address,
            member=member,
            ticket=1000 + member,
            key=KEY if member else b"",
            interval_s=interval_s,
        )
        assert self.collection.received(pb.ServerMessage(report_to=told))

    def collect(self, *members: int, interval_s: float = INTERVAL_S, limit_s: float = 1.5 * INTERVAL_S) -> None:
        order = pb.Collect(interval_s=interval_s, limit_s=limit_s, members=members)
        order.tickets.extend(1000 + member for member in members)
        assert self.collection.received(pb.ServerMessage(collect=order))

    @property
    def direct(self) -> list[int]:
        return [message.heartbeat.seq for message in self.posted if message.HasField("heartbeat")]

    def brought(self, member: int, share: str = "") -> list[bytes]:
        """Heartbeats of this member in what the node sent to the server."""
        return [
            beat
            for message in self.posted
            for gathered in message.collected_beats.shares
            for number, beat in zip(gathered.members, gathered.beats, strict=True)
            if number == member and share in ("", gathered.collector)
        ]


def cluster(*names: str, stands: bool = False) -> tuple[HollowSwitchboard, dict[str, Node], dict[str, str]]:
    switchboard = HollowSwitchboard()
    nodes = {name: Node(name, switchboard, stands=stands and name.startswith("n")) for name in names}
    addresses = {name: f"{name}:1" for name in names}
    for name, node in nodes.items():
        switchboard.put(addresses[name], node.collection)
    return switchboard, nodes, addresses


@scenario
async def test_a_collector_brings_sealed_heartbeats_of_its_members_and_its_own() -> None:
    _, nodes, addresses = cluster("c1", "n1", "n2", stands=True)
    c1, n1 = nodes["c1"], nodes["n1"]
    assert n1.collection.is_direct()
    c1.report_to("", member=9)
    c1.collect(1, 2)
    n1.report_to("c1", addresses["c1"], member=1)
    nodes["n2"].report_to("c1", addresses["c1"], member=2)
    await until(lambda: all(len(c1.brought(member)) > 2 for member in (1, 2, 9)), "three rounds")
    assert not n1.collection.is_direct()
    assert not c1.collection.is_direct()
    for sealed in c1.brought(1):
        plain = unseal(KEY, sealed)
        assert plain is not None
        assert pb.Heartbeat.FromString(plain).seq
    assert n1.direct == []


@scenario
async def test_a_node_whose_collector_ends_sends_to_the_server_at_once() -> None:
    _, nodes, addresses = cluster("c1", "n1", stands=True)
    c1, n1 = nodes["c1"], nodes["n1"]
    c1.report_to("", member=9)
    c1.collect(1)
    n1.report_to("c1", addresses["c1"], member=1)
    await until(lambda: not n1.collection.is_direct(), "asked")
    c1.collection.closed()  # its stream to the server is gone
    await until(lambda: n1.direct, "a direct heartbeat")
    assert n1.collection.is_direct()
    assert c1.collection.is_direct()


@scenario
async def test_a_node_that_is_not_asked_in_time_sends_to_the_server() -> None:
    _, nodes, addresses = cluster("c1", "n1")
    c1, n1 = nodes["c1"], nodes["n1"]
    c1.collect(1, interval_s=3600.0, limit_s=3600.0)  # it asks once, when the member joins, and then hangs
    n1.report_to("c1", addresses["c1"], member=1)
    await until(lambda: n1.direct, "a direct heartbeat")
    assert n1.collection.is_direct()
    n1.collection.closed()
    c1.collection.closed()


@scenario
async def test_a_node_leaves_one_collector_before_it_turns_to_another() -> None:
    _, nodes, addresses = cluster("c1", "c2", "n1")
    c1, c2, n1 = nodes["c1"], nodes["c2"], nodes["n1"]
    for collector, own in ((c1, 8), (c2, 9)):
        collector.report_to("", member=own)
        collector.collect(1)
    n1.report_to("c1", addresses["c1"], member=1)
    await until(lambda: c1.brought(1), "through the first")
    n1.report_to("c2", addresses["c2"], member=1, generation=2)
    await until(lambda: c2.brought(1), "through the second")
    rounds = len(c1.brought(8))
    before = len(c1.brought(1))
    await until(lambda: len(c1.brought(8)) > rounds + 2, "more rounds of the first")
    assert len(c1.brought(1)) <= before + 1  # what it had gathered already
    n1.report_to("c1", addresses["c1"], member=1, generation=1)  # an old order changes nothing
    await until(lambda: len(c2.brought(1)) > 3, "still through the second")


@scenario
async def test_an_interval_of_zero_is_one_report_and_then_silence() -> None:
    _, nodes, _ = cluster("n1")
    n1 = nodes["n1"]
    n1.report_to("", interval_s=0)
    assert n1.direct == [1]
    assert not n1.collection.is_direct()
    n1.report_to("", generation=2)
    assert n1.collection.is_direct()


@scenario
async def test_collectors_of_collectors_bring_all_shares_in_one_message_and_go_on_when_the_upper_one_is_lost() -> None:
    _, nodes, addresses = cluster("top", "low", "n1", stands=True)
    top, low, n1 = nodes["top"], nodes["low"], nodes["n1"]
    top.report_to("", member=8)
    top.collect(9)
    low.report_to("top", addresses["top"], member=9)
    low.collect(1)
    n1.report_to("low", addresses["low"], member=1)
    await until(lambda: len(top.brought(1, "low")) > 2 and top.brought(9, "low"), "through both levels")
    low.posted.clear()
    top.collection.closed()
    await until(lambda: len(low.brought(1, "low")) > 1, "without the upper one")
    assert n1.direct == []
    low.collection.closed()


@scenario
async def test_a_silent_node_is_left_out_and_the_others_are_brought() -> None:
    _, nodes, addresses = cluster("c1", "n1", "n2")
    c1 = nodes["c1"]
    c1.report_to("", member=9)
    c1.collect(1, 2)
    nodes["n2"].is_silent = True
    nodes["n1"].report_to("c1", addresses["c1"], member=1)
    nodes["n2"].report_to("c1", addresses["c1"], member=2)
    await until(lambda: len(c1.brought(1)) > 3, "rounds without the silent one")
    assert c1.brought(2) == []


async def listening(node: Node) -> tuple[Listener, str]:
    listener = Listener(node.collection, lambda: Alive(node.name, True))
    return listener, f"127.0.0.1:{await listener.listen('127.0.0.1', 0)}"


@scenario
async def test_over_tcp_a_node_connects_shows_its_ticket_and_is_asked() -> None:
    c1, n1 = Node("c1", TcpSwitchboard()), Node("n1", TcpSwitchboard(), stands=True)
    listener, address = await listening(c1)
    n1.report_to("c1", address, member=1)  # before the collector knows of it: it tries again
    c1.report_to("", member=9)
    c1.collect(1)
    await until(lambda: len(c1.brought(1)) > 2, "rounds over TCP")
    assert not n1.collection.is_direct()
    assert await probe(address, 5.0) == Alive("c1", True)
    c1.collection.closed()
    await until(lambda: n1.direct, "a direct heartbeat")
    n1.collection.closed()
    listener.close()
    assert await probe(address, 5.0) is None


@scenario
async def test_an_agent_that_listens_everywhere_is_found_at_the_port_it_names() -> None:
    c1 = Node("c1", TcpSwitchboard())
    listener = Listener(c1.collection, lambda: Alive("c1", True))
    port = await listener.listen("", 0)
    assert await probe(f"127.0.0.1:{port}", 10.0) == Alive("c1", True)
    listener.close()


@pytest.mark.parametrize(
    "said",
    [
        encode(Hello(1, 77)),
        encode(Bring([GatheredShare("c2", [1], [0], [b"x"])])),
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x01\xc1",
    ],
    ids=["wrong ticket", "no ticket", "too long", "another language", "no frame"],
)
@scenario
async def test_strangers_are_shown_out(said: bytes) -> None:
    c1 = Node("c1", TcpSwitchboard())
    c1.collect(1)
    listener, address = await listening(c1)
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(said)
    assert await reader.read() == b""
    writer.close()
    c1.collection.closed()
    listener.close()
    assert c1.brought(1) == []


@pytest.mark.parametrize(
    "said",
    [
        Answer(b"x" * (MAX_BEAT + 1)),
        Bring([GatheredShare("c2", [-1], [0], [b"x"])]),
        Bring([GatheredShare("c2", [1], [2**32], [b"x"])]),
        Bring([GatheredShare("c2", [1], [0], [b"x" * (MAX_BEAT + 1)])]),
        Bring([GatheredShare("c" * 300, [], [], [])]),
        Bring([GatheredShare("c2", [], [], [])] * (MAX_SHARES + 1)),
    ],
    ids=["long answer", "no number", "no age", "long heartbeat", "long name", "many shares"],
)
def test_nonsense_is_not_read_whoever_says_it(said: Frame) -> None:
    with pytest.raises(BadFrame):
        Frames().feed(encode(said))


@scenario
async def test_a_collector_with_an_address_that_is_none_is_tried_again_and_the_node_reports_itself() -> None:
    n1 = Node("n1", TcpSwitchboard())
    for address in ("127.0.0.1:99999", "a..b:1", "x" * 70 + ".example:1"):
        line = TcpSwitchboard().connect(address, 1, 1, asked=lambda: None, lost=lambda: None)
        await asyncio.sleep(0.05)
        assert not line._task.done()
        line.close()
    assert n1.collection.is_direct()


@scenario
async def test_a_shorter_interval_begins_at_once() -> None:
    _, nodes, addresses = cluster("c1", "n1", stands=True)
    c1, n1 = nodes["c1"], nodes["n1"]
    c1.report_to("", member=9)
    c1.collect(1, interval_s=3600.0, limit_s=3600.0)
    n1.report_to("c1", addresses["c1"], member=1)
    await until(lambda: not n1.collection.is_direct(), "asked")
    c1.posted.clear()
    c1.collect(1)
    await until(lambda: len(c1.brought(1)) > 2, "rounds at the new interval")


def test_frames_come_out_whole_however_they_arrive() -> None:
    sent: list[Frame] = [Hello(5, 2**64 - 1), Bring([GatheredShare("c", [1], [2], [b"3"])])]
    data = b"".join(encode(frame) for frame in sent)
    frames = Frames()
    assert [frame for byte in data for frame in frames.feed(bytes([byte]))] == sent
