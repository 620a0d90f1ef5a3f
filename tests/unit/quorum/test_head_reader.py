"""Reads of the log's head: shared by all who wait, and never older than the question."""

import asyncio

import pytest

from lattice.quorum.head_reader import HeadReader
from lattice.testing import scenario
from tests.unit.quorum.world import until


class Head:
    """A head whose reads take as long as the test wants; each tells the index at the time it began."""

    def __init__(self) -> None:
        self.index = 0
        self.reads = 0
        self.fails = False
        self.gate = asyncio.Event()

    async def read(self) -> int:
        self.reads += 1
        seen = self.index
        await self.gate.wait()
        if self.fails:
            raise OSError("no answer")
        return seen


@scenario
async def test_those_who_ask_together_share_one_read() -> None:
    head = Head()
    head.gate.set()
    reader = HeadReader(head.read)
    assert await asyncio.gather(*(reader.read() for _ in range(50))) == [0] * 50
    assert head.reads == 1


@scenario
async def test_whoever_asks_while_a_read_is_under_way_gets_the_next_one() -> None:
    head = Head()
    reader = HeadReader(head.read)
    first = asyncio.create_task(reader.read())
    await until(lambda: head.reads == 1, "the first read has begun")
    head.index = 7  # acknowledged after the first read had looked
    late = [asyncio.create_task(reader.read()) for _ in range(20)]
    await asyncio.sleep(0)
    assert head.reads == 1
    head.gate.set()
    assert await first == 0
    assert await asyncio.gather(*late) == [7] * 20
    assert head.reads == 2


@scenario
async def test_a_failure_is_told_to_those_who_waited_for_it_and_to_nobody_else() -> None:
    head = Head()
    reader = HeadReader(head.read)
    first = asyncio.create_task(reader.read())
    await until(lambda: head.reads == 1, "the first read has begun")
    head.fails = True
    head.gate.set()
    with pytest.raises(OSError, match="no answer"):
        await first
    head.fails = False
    head.index = 3
    assert await reader.read() == 3


@scenario
async def test_one_that_gives_up_takes_nothing_from_the_others() -> None:
    head = Head()
    reader = HeadReader(head.read)
    patient, impatient = (asyncio.create_task(reader.read()) for _ in range(2))
    await until(lambda: head.reads == 1, "the read has begun")
    impatient.cancel()
    head.gate.set()
    assert await patient == 0
    assert impatient.cancelled() or await asyncio.gather(impatient, return_exceptions=True)
