"""Collectors over real streams: what they are told, what they bring, and what is not believed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc

from lattice.control.collectors.tree import CollectorSettings, CollectorTree
from lattice.core.machine.commands import SetSetting
from lattice.wire.agents.collecting import seal
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, served

INTERVAL_S = 3600.0  # nobody is late in this test
COLLECTING = CollectorSettings(interval_s=INTERVAL_S, timeout_s=30.0)


class Reporter(FakeAgent):
    def registration(self) -> pb.Register:
        register = super().registration()
        if self.node.startswith("c"):
            register.collector_address = f"{self.node}.example.org:7000"
        return register

    async def told(self) -> pb.ReportTo:
        while True:
            order = await self.order()
            if order.report_to.collector:
                return order.report_to

    async def gathers(self) -> pb.Collect:
        while True:
            order = await self.order()
            if order.HasField("collect") and order.collect.members:
                return order.collect

    async def bring(self, *rows: tuple[int, bytes], collector: str = "", age_ms: int = 0) -> None:
        share = pb.Gathered(
            collector=collector or self.node,
            members=[member for member, _ in rows],
            ages_ms=[age_ms for _ in rows],
            beats=[beat for _, beat in rows],
        )
        await self.send(collected_beats=pb.CollectedBeats(shares=[share]))


def sealed(told: pb.ReportTo, seq: int) -> tuple[int, bytes]:
    return told.member, seal(told.key, pb.Heartbeat(seq=seq, load1=0.5).SerializeToString())


@contextlib.asynccontextmanager
async def tree_of(rig: Rig, collectors: str) -> AsyncIterator[CollectorTree]:
    tree = rig.collectors
    await rig.do(SetSetting(key="node.collectors", value=collectors))
    loop = asyncio.create_task(tree.run())
    try:
        yield tree
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


def test_a_collector_is_told_whom_it_gathers_and_its_nodes_where_to_report() -> None:
    async def test(rig: Rig) -> None:
        c1, n1 = Reporter("c1", rig.endpoint), Reporter("n1", rig.endpoint)
        async with tree_of(rig, "c1"), c1.connected(), n1.connected():
            told, order = await n1.told(), await c1.gathers()
            assert (told.collector, told.address, told.interval_s) == ("c1", "c1.example.org:7000", INTERVAL_S)
            assert dict(zip(order.members, order.tickets, strict=True)) == {told.member: told.ticket}
            assert (order.interval_s, order.limit_s) == (INTERVAL_S, 24.0)
            await c1.bring(sealed(told, 7), age_ms=2000)
            await c1.until(lambda: rig.observations.via.get("n1") == "c1")
            observation = rig.observations.get("n1")
            assert observation is not None
            assert (observation.seq, observation.load1) == (7, 0.5)
            await n1.beat(seq=8)
            await n1.until(lambda: "n1" not in rig.observations.via)

    served(test, COLLECTING)


def test_what_is_forged_repeated_or_not_of_the_share_is_counted_and_changes_nothing() -> None:
    async def test(rig: Rig) -> None:
        c1, n1, n2 = (Reporter(name, rig.endpoint) for name in ("c1", "n1", "n2"))
        async with tree_of(rig, "c1") as tree, c1.connected(), n1.connected(), n2.connected():
            told, other = await n1.told(), await n2.told()
            await c1.bring(sealed(told, 5))
            await c1.until(lambda: tree.counts["taken"] == 1)
            forged = seal(other.key, pb.Heartbeat(seq=9).SerializeToString())
            await c1.bring((told.member, forged))
            await c1.bring((told.member, b"x"))
            await c1.until(lambda: tree.counts["forged"] == 2)
            await n2.bring(sealed(told, 6), collector="c1")  # a plain node that plays the collector
            await c1.bring(sealed(told, 6), collector="n2")
            await c1.bring((4711, forged))
            await c1.until(lambda: tree.counts["refused"] == 3)
            await c1.bring(sealed(told, 5))  # genuine, and heard before
            await c1.until(lambda: rig.sessions.counts["stale_heartbeats"] == 1)
            observation = rig.observations.get("n1")
            assert observation is not None
            assert observation.seq == 5

    served(test, COLLECTING)


def test_what_was_gathered_under_a_former_stream_of_the_node_is_refused() -> None:
    async def test(rig: Rig) -> None:
        c1, n1 = Reporter("c1", rig.endpoint), Reporter("n1", rig.endpoint)
        async with tree_of(rig, "c1") as tree, c1.connected():
            async with n1.connected():
                before = await n1.told()
            again = Reporter("n1", rig.endpoint)
            async with again.connected():
                await again.told()
                await c1.bring(sealed(before, 9))
                await c1.until(lambda: tree.counts["refused"] == 1)

    served(test, COLLECTING)


def test_columns_of_different_lengths_end_the_stream() -> None:
    async def test(rig: Rig) -> None:
        c1 = Reporter("c1", rig.endpoint)
        async with tree_of(rig, "c1"), c1.connected():
            share = pb.Gathered(collector="c1", members=[1, 2], ages_ms=[0], beats=[b""])
            await c1.send(collected_beats=pb.CollectedBeats(shares=[share]))
            await asyncio.wait_for(c1.closed.wait(), 10)
            assert c1.error is not None
            assert c1.error.code() is grpc.StatusCode.INVALID_ARGUMENT

    served(test, COLLECTING)
