"""What an agent says at the same time goes in one message, where the server takes that."""

import asyncio

from lattice.agent.connection import CONTROL_LIMIT, Outbox
from lattice.testing import scenario
from lattice.wire.pb import agent_pb2 as pb


def report(number: int, seq: int) -> pb.AgentMessage:
    return pb.AgentMessage(run_report=pb.RunReport(key=pb.RunKey(number=number, run=1), seq=seq))


def numbers(message: pb.AgentMessage) -> list[tuple[int, int]]:
    return [(each.key.number, each.seq) for each in message.run_reports.reports]


def outbox(*, takes_batches: bool = True) -> Outbox:
    made = Outbox()
    made.takes_batches = takes_batches
    return made


@scenario
async def test_the_reports_of_start_and_end_go_together() -> None:
    box = outbox()
    box.post_soon(report(1, 1))
    box.post_soon(report(2, 1))
    box.post(report(1, 2))
    assert numbers(await box.take()) == [(1, 1), (2, 1), (1, 2)]


@scenario
async def test_a_start_without_an_end_is_told_before_long() -> None:
    box = outbox()
    box.post_soon(report(1, 1))
    async with asyncio.timeout(5):
        assert (await box.take()).run_report.key.number == 1


@scenario
async def test_other_messages_keep_their_place_between_reports() -> None:
    box = outbox()
    for message in (report(1, 1), report(2, 1), pb.AgentMessage(heartbeat=pb.Heartbeat(seq=9)), report(3, 1)):
        box.post(message)
    assert numbers(await box.take()) == [(1, 1), (2, 1)]
    assert (await box.take()).heartbeat.seq == 9
    assert (await box.take()).run_report.key.number == 3


@scenario
async def test_a_server_that_takes_no_batches_hears_each_report_at_once() -> None:
    box = outbox(takes_batches=False)
    box.post_soon(report(1, 1))
    box.post(report(1, 2))
    assert [(await box.take()).run_report.seq for _ in range(2)] == [1, 2]


@scenario
async def test_reports_beyond_the_limit_are_left_to_their_repetition() -> None:
    box = outbox()
    taken = [box.post_soon(report(number, 1)) for number in range(CONTROL_LIMIT + 5)]
    assert sum(taken) == CONTROL_LIMIT
    box.close()
    assert not box.post_soon(report(1, 1))


@scenario
async def test_of_heartbeats_that_could_not_be_sent_only_the_newest_is() -> None:
    box = outbox()
    for seq in (1, 2, 3):
        box.post(pb.AgentMessage(heartbeat=pb.Heartbeat(seq=seq)))
    box.post(report(1, 1))
    assert (await box.take()).heartbeat.seq == 3
    assert (await box.take()).HasField("run_report")
    box.post(pb.AgentMessage(heartbeat=pb.Heartbeat(seq=4)))
    assert (await box.take()).heartbeat.seq == 4
