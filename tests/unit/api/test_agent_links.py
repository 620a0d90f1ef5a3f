"""What waits for an agent that does not read stays within bounds, and flows again when it reads."""

import asyncio

from lattice.api.grpc.agent_links import OUTBOX_BYTES_MAX, AgentLinkTable, Link
from lattice.ports.agents import StartOrder, StopOrder

BIG = "x" * (4 << 20)


def start(number: int, text: str) -> StartOrder:
    return StartOrder(
        number=number,
        run=1,
        allocation_id=f"a{number}",
        name="big",
        account="ada",
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


def test_large_orders_for_an_agent_that_does_not_read_are_bounded_by_their_bytes() -> None:
    async def scenario() -> None:
        table, link = confirmed()
        taken = [table.send("n1", start(number, BIG)) for number in range(1, 101)]
        assert sum(taken) <= OUTBOX_BYTES_MAX // len(BIG) + 1
        assert not table.send("n1", StopOrder(number=1, run=1, grace_s=0.0, why="cancelled"))
        numbers: list[int] = []
        while len(numbers) < sum(taken):
            message = await link.next_message()
            assert message is not None
            numbers.append(message.start_run.key.number)
        assert numbers == list(range(1, sum(taken) + 1))
        assert table.send("n1", start(101, BIG))

    asyncio.run(scenario())


def test_small_orders_are_bounded_by_their_number_only() -> None:
    async def scenario() -> None:
        table, _ = confirmed()
        assert all(table.send("n1", start(number, "")) for number in range(1, 5001))

    asyncio.run(scenario())
