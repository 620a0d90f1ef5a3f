"""What waits for an agent that does not read stays within bounds, and flows again when it reads."""

import asyncio

import pytest

from lattice.api.grpc.agents.links import BATCH_BYTES, OUTBOX_BYTES_MAX, AgentLinkTable, Link
from lattice.ports.nodes.agents import AgentUnreachable, RunKey, StartOrder, StopOrder
from lattice.ports.nodes.images import ImagesAsk, NodeImagesTold
from lattice.ports.nodes.measures import GroupUse, NodeUse
from lattice.testing import scenario
from lattice.wire.agents.messages import order_message
from lattice.wire.pb import agent_pb2 as pb

BIG = "x" * (4 << 20)


def start(number: int, text: str) -> StartOrder:
    return StartOrder(
        key=RunKey(number, 1),
        allocation_id=f"a{number}",
        name="big",
        user="ada",
        cwd="/",
        nodes=("n1",),
        tasks=1,
        grace_s=1.0,
        env={"BIG": text},
    )


def confirmed() -> tuple[AgentLinkTable, Link]:
    table, link = AgentLinkTable(), Link("n1")
    table.adopt(link)
    link.is_confirmed = True
    return table, link


@scenario
async def test_large_orders_for_an_agent_that_does_not_read_are_bounded_by_their_bytes() -> None:
    table, link = confirmed()
    taken = [table.send("n1", start(number, BIG)) for number in range(1, 101)]
    assert sum(taken) <= OUTBOX_BYTES_MAX // len(BIG) + 1
    assert not table.send("n1", StopOrder(key=RunKey(1, 1), grace_s=0.0, why="cancelled"))
    numbers: list[int] = []
    while len(numbers) < sum(taken):
        message = await link.next_message()
        assert message is not None
        numbers.append(message.start_run.key.number)
    assert numbers == list(range(1, sum(taken) + 1))
    assert table.send("n1", start(101, BIG))


@scenario
async def test_small_orders_are_bounded_by_their_number_only() -> None:
    table, _ = confirmed()
    assert all(table.send("n1", start(number, "")) for number in range(1, 5001))


def ack(number: int, seq: int = 2) -> pb.ReportAck:
    return pb.ReportAck(key=pb.RunKey(number=number, run=1), seq=seq)


@scenario
async def test_what_is_ready_at_once_goes_to_an_agent_in_one_message() -> None:
    link = Link("n1", takes_batches=True)
    link.put(pb.ServerMessage(welcome=pb.Welcome(session=1)))
    link.acknowledge([ack(7), ack(8)])
    for number in (1, 2):
        link.put(order_message(start(number, "")))
    link.close("moving")
    said = [await link.next_message() for _ in range(4)]
    assert [message and message.WhichOneof("body") for message in said] == ["welcome", "batch", "goodbye", None]
    assert said[1] is not None
    inside = said[1].batch.messages
    assert [each.WhichOneof("body") for each in inside] == ["report_ack", "report_ack", "start_run", "start_run"]
    assert [each.report_ack.key.number for each in inside[:2]] == [7, 8]


@scenario
async def test_large_orders_go_one_by_one() -> None:
    link = Link("n1", takes_batches=True)
    for number in (1, 2, 3):
        link.put(order_message(start(number, "x" * (BATCH_BYTES // 2))))
    said = [await link.next_message() for _ in range(3)]
    assert [message and message.start_run.key.number for message in said] == [1, 2, 3]


@scenario
async def test_an_acknowledgement_that_nothing_follows_goes_by_itself() -> None:
    link = Link("n1", takes_batches=True)
    link.acknowledge([ack(7)])
    async with asyncio.timeout(5):
        message = await link.next_message()
    assert message is not None
    assert message.report_ack.key.number == 7


@scenario
async def test_an_agent_that_takes_no_batches_gets_every_message_by_itself() -> None:
    link = Link("n1")
    link.acknowledge([ack(7), ack(8)])
    link.put(order_message(start(1, "")))
    said = [await link.next_message() for _ in range(3)]
    bodies = [message and message.WhichOneof("body") for message in said]
    assert bodies == ["report_ack", "report_ack", "start_run"]


@scenario
async def test_a_lost_stream_is_sent_nothing_late() -> None:
    link = Link("n1", takes_batches=True)
    link.acknowledge([ack(7)])
    link.lose()
    assert await link.next_message() is None


@scenario
async def test_what_runs_use_is_asked_for_and_answered_by_its_ticket() -> None:
    table, link = AgentLinkTable(), Link("n1", features=("measure",))
    table.adopt(link)
    asked = asyncio.create_task(table.measure("n1", RunKey(7, 1)))
    message = await link.next_message()
    assert message is not None
    assert (message.measure.key.number, message.measure.key.run) == (7, 1)
    use = GroupUse(key=RunKey(7, 1), cpu_s=1.5)
    link.take_figures(message.measure.ticket + 1, NodeUse())
    link.take_figures(message.measure.ticket, NodeUse(groups=(use,)))
    assert await asked == (use,)
    lost = asyncio.create_task(table.measure("n1"))
    await link.next_message()
    table.drop(link)
    with pytest.raises(AgentUnreachable):
        await lost


@scenario
async def test_an_agent_that_cannot_measure_is_not_asked() -> None:
    table, _ = confirmed()
    assert await table.measure("n1", RunKey(7, 1)) == ()
    with pytest.raises(AgentUnreachable):
        await table.measure("n2")


@scenario
async def test_what_a_node_says_of_its_images_answers_the_one_who_asked() -> None:
    table, link = AgentLinkTable(), Link("n1", features=("images",))
    table.adopt(link)
    asked = asyncio.create_task(table.ask_images("n1", ImagesAsk(what="evict", name="x/1:v1")))
    message = await link.next_message()
    assert message is not None
    assert (message.ask_images.what, message.ask_images.name) == ("evict", "x/1:v1")
    link.take_images(message.ask_images.ticket + 1, NodeImagesTold(error="of another"))
    link.take_images(message.ask_images.ticket, NodeImagesTold(used=7))
    assert (await asked).used == 7
    lost = asyncio.create_task(table.ask_images("n1", ImagesAsk(what="cache")))
    await link.next_message()
    link.lose()
    with pytest.raises(AgentUnreachable, match="lost"):
        await lost
    table.adopt(Link("n2"))
    with pytest.raises(AgentUnreachable, match="of a release that does not tell"):
        await table.ask_images("n2", ImagesAsk(what="cache"))
