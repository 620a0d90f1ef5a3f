"""Figures by way of a collector, over TCP: one request for the group, nothing lost when it goes away, and nothing of debug."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from lattice.agent.collectors.figures import FigureRelay
from lattice.agent.collectors.member import Collection
from lattice.agent.collectors.tcp import Listener, TcpSwitchboard
from lattice.agent.telemetry.collector import Listener as Heard
from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.push.group import GroupPusher
from lattice.agent.telemetry.push.pusher import Pusher
from lattice.agent.telemetry.push.requests import PushSettings, StoreRefused, StoreUnreachable
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.telemetry.windows import Window
from lattice.testing import scenario
from lattice.wire.agents.collecting import Alive
from lattice.wire.pb import agent_pb2 as pb
from tests.unit.agent.test_collection import INTERVAL_S, KEY, until

DONE = {("load1", ""): Window(0, 30_000, 1.5, 1.5, 2.0, 2.0, 2.0, 30)}


@dataclass
class Clock:
    at_ms: int = 60_000
    listeners: list[Heard] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.at_ms


class Node:
    """An agent's way of figures; `store` is what it sent to the store itself."""

    def __init__(self, name: str) -> None:
        self.name, self.store, self.clock = name, list[bytes](), Clock()
        self.relay = FigureRelay()
        self.switchboard = TcpSwitchboard(self.relay)
        self.collection = Collection(name, self.switchboard, pb.Heartbeat, lambda _: None)
        self.pusher = Pusher(PushSettings(endpoint="http://store", node=name), self.clock, self.post)
        self.pusher.go_by(self.relay)
        self.away = self.refuses = b""
        self.group: GroupPusher | None = None

    def post(self, body: bytes) -> None:
        if self.away:
            raise StoreUnreachable("away")
        if self.refuses and self.refuses in body:
            raise StoreRefused("bad")
        self.store.append(body)

    def measured(self, mode: Mode = Mode.PROD) -> None:
        target = Target(None, 1.0, mode=mode)
        for listener in self.clock.listeners:
            listener(target, DONE, {})

    def report_to(self, address: str, member: int) -> None:
        told = pb.ReportTo(
            generation=1,
            collector="c1",
            address=address,
            member=member,
            ticket=1000 + member,
            key=KEY,
            interval_s=INTERVAL_S,
        )
        self.collection.received(pb.ServerMessage(report_to=told))


async def group(*names: str) -> tuple[Node, Listener, list[Node]]:
    collector = Node("c1")
    collector.group = GroupPusher(collector.relay, collector.post)
    listener = Listener(collector.collection, lambda: Alive("c1", True), collector.relay)
    address = f"127.0.0.1:{await listener.listen('127.0.0.1', 0)}"
    order = pb.Collect(interval_s=INTERVAL_S, limit_s=1.5 * INTERVAL_S, members=range(1, len(names) + 1))
    order.tickets.extend(1001 + at for at in range(len(names)))
    collector.collection.received(pb.ServerMessage(collect=order))
    nodes = [Node(name) for name in names]
    for at, node in enumerate(nodes):
        node.report_to(address, at + 1)
    for node in nodes:
        await until(lambda node=node: node.relay.is_open, "the collector asks and takes figures")  # type: ignore[misc]
    return collector, listener, nodes


def close(listener: Listener, *nodes: Node) -> None:
    for node in nodes:
        node.collection.closed()
    listener.close()


def parts(collector: Node) -> int:
    return len(cast("GroupPusher", collector.group)._parts)


@scenario
async def test_windows_of_the_group_reach_the_store_in_one_request_and_are_acknowledged() -> None:
    collector, listener, nodes = await group("n1", "n2", "n3")
    for node in nodes:
        node.measured()
    await until(lambda: parts(collector) == 3, "all three are handed over")
    assert await cast("GroupPusher", collector.group).push_batch()
    (body,) = collector.store
    assert all(name in body for name in (b"n1", b"n2", b"n3", b"lattice_node_load1"))
    await until(lambda: all(node.pusher.sent == 6 for node in nodes), "acknowledged")
    assert not any(node.store or node.pusher._waiting for node in nodes)
    close(listener, collector, *nodes)


@scenario
async def test_debug_takes_no_way_round() -> None:
    collector, listener, (node,) = await group("n1")
    node.measured(Mode.DEBUG)
    assert await node.pusher.push_batch()
    assert (len(node.store), parts(collector)) == (1, 0)
    close(listener, collector, node)


@scenario
async def test_what_a_collector_did_not_acknowledge_goes_directly_when_it_is_gone() -> None:
    collector, listener, (node,) = await group("n1")
    node.measured()
    await until(lambda: parts(collector) == 1, "it is handed over")
    collector.away = b"yes"
    assert not await cast("GroupPusher", collector.group).push_batch()
    collector.collection.closed()
    await until(lambda: not node.relay.is_open, "the node notices")
    assert await node.pusher.push_batch()
    assert b"lattice_node_load1" in node.store[0]
    node.measured()
    assert len(node.pusher._waiting) == 6, "and from now on"
    close(listener, node)


@scenario
async def test_what_the_store_refuses_of_one_node_costs_the_others_nothing() -> None:
    collector, listener, nodes = await group("n1", "bad", "n3")
    collector.refuses = b"bad"
    for node in nodes:
        node.measured()
    await until(lambda: parts(collector) == 3, "all three are handed over")
    assert await cast("GroupPusher", collector.group).push_batch()
    assert sorted(name for body in collector.store for name in (b"n1", b"n3") if name in body) == [b"n1", b"n3"]
    assert (cast("GroupPusher", collector.group).refused, parts(collector)) == (1, 0)
    close(listener, collector, *nodes)


@scenario
async def test_a_collector_without_a_store_takes_none() -> None:
    collector, listener, (node,) = await group("n1")
    collector.relay.gather = None
    await until(lambda: not node.relay.is_open, "it says so with its next question")
    node.measured()
    assert len(node.pusher._waiting) == 6
    close(listener, collector, node)


@scenario
async def test_what_waits_for_a_collector_for_too_long_goes_directly() -> None:
    collector, listener, (node,) = await group("n1")
    node.measured()
    node.clock.at_ms += 61_000
    node.pusher._take_back(node.clock.now_ms() - 60_000)
    assert len(node.pusher._waiting) == 6
    close(listener, collector, node)
    await asyncio.sleep(0)
