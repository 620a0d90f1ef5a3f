"""An agent's stream over real gRPC: who gets in, what it is told, and how orders, reports and output travel."""

import asyncio
from unittest.mock import patch

import grpc
import pytest

from lattice.core.machine.commands import CancelAllocation, DisableNode, EnableNode
from lattice.core.model.nodes.nodes import NodeState as N
from lattice.core.model.work.allocations import AllocationState as A
from lattice.core.model.work.allocations import Cause
from lattice.ports.nodes.agents import AgentUnreachable, OutputUnavailable, RunKey, StopOrder
from lattice.ports.quorum.log import LogFull
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, agent_token, served


def node_is(rig: Rig, node: str, state: N) -> bool:
    record = rig.state.nodes.get(node)
    return record is not None and record.state is state


@pytest.mark.parametrize(
    ("token", "code", "text"),
    [
        ("", grpc.StatusCode.UNAUTHENTICATED, "no token"),
        ("rubbish", grpc.StatusCode.UNAUTHENTICATED, "not valid"),
        (agent_token(lifetime_s=-10), grpc.StatusCode.UNAUTHENTICATED, "expired"),
        (agent_token(kind="user"), grpc.StatusCode.PERMISSION_DENIED, "not an agent's token"),
        (agent_token(node="other"), grpc.StatusCode.PERMISSION_DENIED, "for node other"),
    ],
    ids=["none", "rubbish", "expired", "user", "other-node"],
)
def test_only_an_agent_gets_in(token: str, code: grpc.StatusCode, text: str) -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent("n1", rig.endpoint, token=token)
        # Who is refused by the token alone says nothing: a message that meets the refusal hides its code.
        async with agent.connected(register=text == "for node other", confirm=False):
            await asyncio.wait_for(agent.closed.wait(), 10)
        assert agent.error is not None
        assert agent.error.code() is code
        assert text in (agent.error.details() or "")
        assert rig.state.nodes == {}

    served(test)


def test_a_token_bound_to_the_node_gets_in() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint, token=agent_token(node="n1")).connected():
            await rig.until(lambda state: node_is(rig, "n1", N.READY))

    served(test)


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64])
def test_a_name_that_cannot_be_a_node_is_refused(name: str) -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent(name, rig.endpoint)
        async with agent.connected(confirm=False):
            await asyncio.wait_for(agent.closed.wait(), 10)
        assert agent.error is not None
        assert agent.error.code() is grpc.StatusCode.INVALID_ARGUMENT

    served(test)


def test_work_is_started_reported_and_acknowledged() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit("hostname", "-f")
            start = (await agent.order()).start_run
            assert (start.key.number, start.key.run) == (number, 1)
            assert list(start.argv) == ["hostname", "-f"]
            assert (start.user, list(start.nodes), start.tasks) == ("ada", ["n1"], 1)
            assert start.walltime_s == 3600.0
            assert not start.HasField("task_index")
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
            await agent.report(number, 1, pb.PHASE_ENDED, 2, cause=pb.END_CAUSE_SIGNAL, signal=11, cpu_s=1.5)
            await rig.until(lambda state: state.allocations[number].is_terminal)
            await agent.until(lambda: len(agent.acks) == 2)
        allocation = rig.state.allocations[number]
        assert (allocation.state, allocation.cause, allocation.signal) == (A.FAILED, Cause.SIGNAL, 11)
        assert allocation.cpu_s == 1.5
        assert agent.acks == [(number, 1, 1), (number, 1, 2)]

    served(test)


def test_late_and_foreign_reports_are_acknowledged_and_change_nothing() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            for seq in (2, 2):
                await agent.report(99, 7, pb.PHASE_ENDED, seq, cause=pb.END_CAUSE_EXIT)
            await agent.until(lambda: len(agent.acks) == 2)
        assert rig.state.allocations == {}

    served(test)


def test_cancel_stops_the_run_and_its_end_is_cancelled() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
            await rig.do(CancelAllocation(number=number))
            stop = (await agent.order()).stop_run
            assert (stop.key.number, stop.why, stop.grace_s) == (number, "cancelled by test", 1.0)
            await agent.report(number, 1, pb.PHASE_ENDED, 2, cause=pb.END_CAUSE_STOPPED)
            await rig.until(lambda state: state.allocations[number].state is A.CANCELLED)

    served(test)


def test_a_start_that_was_lost_is_sent_again() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            first = (await agent.order()).start_run
            again = (await agent.order()).start_run
            assert first.key == again.key == pb.RunKey(number=number, run=1)

    served(test, retry_s=0.1)


def test_nothing_is_ordered_before_the_node_confirmed() -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent("n1", rig.endpoint)
        async with agent.connected(confirm=False):
            await agent.until(lambda: bool(agent.welcomes))
            await rig.submit()
            await agent.beat()
            assert node_is(rig, "n1", N.BOOTING)
            assert agent.orders.empty()
            await agent.confirm()
            assert (await agent.order()).WhichOneof("body") == "start_run"

    served(test)


def test_a_newer_stream_replaces_the_older_one() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as old:
            await rig.until(lambda state: node_is(rig, "n1", N.READY))
            async with FakeAgent("n1", rig.endpoint).connected() as new:
                await asyncio.wait_for(old.closed.wait(), 10)
                assert "newer stream" in old.goodbye
                number = await rig.submit()
                assert (await new.order()).start_run.key.number == number
                assert old.orders.empty()

    served(test)


def test_an_agent_that_returns_keeps_its_run_and_learns_what_is_stale() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
        again = FakeAgent("n1", rig.endpoint, known=[(number, 1), (55, 3)])
        async with again.connected():
            assert [(key.number, key.run) for key in again.welcomes[0].valid_runs] == [(number, 1)]
            await again.report(number, 1, pb.PHASE_ENDED, 2, cause=pb.END_CAUSE_EXIT, exit_code=0)
            await rig.until(lambda state: state.allocations[number].state is A.COMPLETED)

    served(test)


def test_an_agent_that_lost_its_run_loses_it_in_the_state_too_and_it_runs_again() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
        async with FakeAgent("n1", rig.endpoint).connected() as again:
            start = (await again.order()).start_run
            assert (start.key.number, start.key.run) == (number, 2)

    served(test)


def test_silence_degrades_then_downs_and_the_agent_is_told_to_register() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: node_is(rig, "n1", N.DEGRADED))
            await agent.beat()
            await rig.until(lambda state: node_is(rig, "n1", N.READY))
            await rig.until(lambda state: node_is(rig, "n1", N.DOWN))
            await asyncio.wait_for(agent.closed.wait(), 10)
            assert "Down" in agent.goodbye
            assert rig.state.allocations[number].requeue_count == 1
        again = FakeAgent("n1", rig.endpoint, known=[(number, 1)])
        async with again.connected():
            assert list(again.welcomes[0].valid_runs) == []
            assert (await again.order()).start_run.key.run == 2

    served(test, timeout_s=0.3, grace_s=0.3)


def test_a_disabled_node_drops_its_work_and_returns_only_when_enabled() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
            await rig.do(DisableNode(node="n1", reason="fan"))
            await asyncio.wait_for(agent.closed.wait(), 10)
        second = FakeAgent("n1", rig.endpoint, known=[(number, 1)])
        async with second.connected():
            assert list(second.welcomes[0].valid_runs) == []
            await second.until(lambda: rig.links.is_connected("n1"))
            assert node_is(rig, "n1", N.DOWN)
            await rig.do(EnableNode(node="n1"))
            await asyncio.wait_for(second.closed.wait(), 10)
        async with FakeAgent("n1", rig.endpoint).connected():
            await rig.until(lambda state: node_is(rig, "n1", N.READY))

    served(test)


def test_output_is_read_in_pieces_to_its_end() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            reading = asyncio.create_task(collected(rig, tail_lines=3, follow=True))
            ask = (await agent.order()).read_output
            assert (ask.key.number, ask.key.run, ask.tail_lines, ask.follow) == (7, 1, 3, True)
            assert ask.stream == pb.OUTPUT_STREAM_STDOUT
            await agent.send(output_chunk=pb.OutputChunk(reader=ask.reader, offset=10, data=b"ab"))
            await agent.send(output_chunk=pb.OutputChunk(reader=ask.reader, offset=12, data=b"c", eof=True))
            assert await reading == [(10, b"ab"), (12, b"c")]

    served(test)


async def collected(rig: Rig, **options: object) -> list[tuple[int, bytes]]:
    pieces = rig.links.read_output("n1", 7, 1, "stdout", **options)  # type: ignore[arg-type]
    return [(piece.offset, piece.data) async for piece in pieces]


def test_a_reader_that_is_slower_than_the_node_asks_again_and_misses_nothing() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            pieces = rig.links.read_output("n1", 7, 1, "stdout", follow=True)
            first = asyncio.ensure_future(anext(pieces))
            ask = (await agent.order()).read_output
            for place in range(300):
                chunk = pb.OutputChunk(reader=ask.reader, offset=place, data=b"x")
                await agent.send(output_chunk=chunk)
            assert (await agent.order()).stop_reading.reader == ask.reader
            got = (await first).data
            drained = asyncio.create_task(rest_of(pieces))
            again = await next_read(agent)
            assert 0 < again.offset < 300
            remaining = pb.OutputChunk(
                reader=again.reader, offset=again.offset, data=b"x" * (300 - again.offset), eof=True
            )
            await agent.send(output_chunk=remaining)
            assert got + await drained == b"x" * 300

    served(test)


async def rest_of(pieces: object) -> bytes:
    return b"".join([piece.data async for piece in pieces])  # type: ignore[attr-defined]


async def next_read(agent: FakeAgent) -> pb.ReadOutput:
    while True:
        order = await agent.order()
        if order.WhichOneof("body") == "read_output":
            return order.read_output


def test_output_that_cannot_be_had_says_why() -> None:
    async def test(rig: Rig) -> None:
        with pytest.raises(AgentUnreachable, match="n1 is not connected"):
            await collected(rig)
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            reading = asyncio.create_task(collected(rig))
            ask = (await agent.order()).read_output
            await agent.send(output_chunk=pb.OutputChunk(reader=ask.reader, error="no such run"))
            with pytest.raises(OutputUnavailable, match="no such run"):
                await reading
            reading = asyncio.create_task(collected(rig, follow=True))
            await agent.order()
        with pytest.raises(AgentUnreachable, match="lost"):
            await reading

    served(test)


def test_a_reader_that_goes_away_tells_the_node() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            reading = asyncio.create_task(collected(rig, follow=True))
            ask = (await agent.order()).read_output
            reading.cancel()
            assert (await agent.order()).stop_reading.reader == ask.reader

    served(test)


def test_a_full_log_ends_no_stream_and_the_repeated_report_counts() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            await agent.order()
            full = LogFull("no room")
            with patch.object(rig.sessions, "report", side_effect=full) as refused:
                await agent.report(number, 1, pb.PHASE_RUNNING, 1)
                await agent.until(lambda: refused.called)
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await rig.until(lambda state: state.allocations[number].state is A.RUNNING)
            await agent.until(lambda: bool(agent.acks))
            assert agent.acks == [(number, 1, 1)]
            assert not agent.closed.is_set()

    served(test)


def test_an_agent_that_reads_nothing_does_not_keep_its_closed_stream_open() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            await agent.until(lambda: rig.links.is_connected("n1"))
            agent.deaf = True
            stuffing = StopOrder(key=RunKey(1, 1), grace_s=0.0, why="x" * 60_000)
            for _ in range(1000):
                assert rig.links.send("n1", stuffing)
            rig.links.close("n1", "test")
            assert not rig.links.is_connected("n1")
            await agent.until(lambda: rig.observations.connected() == frozenset())

    served(test)


def test_a_late_report_tells_how_long_the_run_took() -> None:
    async def test(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            number = await rig.submit()
            start = (await agent.order()).start_run
            await agent.report(number, start.key.run, pb.PHASE_RUNNING, 1)
            await agent.report(number, start.key.run, pb.PHASE_ENDED, 2, cause=pb.END_CAUSE_EXIT, elapsed_s=0.001)
            await rig.until(lambda state: state.allocations[number].is_terminal)
            record = rig.state.allocations[number]
            assert record.ended_at - record.started_at <= 1

    served(test)
