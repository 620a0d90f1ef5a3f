"""Listings that are written once for several callers."""

import asyncio

from lattice.api.kept_listings import MAX_KEPT, MAX_KEPT_TEXT, MIN_KEPT_TEXT, KeptListings, is_long_text
from lattice.testing.coroutines import scenario
from lattice.wire.slurm.commands import SlurmAnswer


class Writer:
    """Counts how often it is asked, and answers when it may."""

    def __init__(self, length: int = MIN_KEPT_TEXT) -> None:
        self.stamp = (1,)
        self.count = 0
        self.length = length
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def now(self) -> tuple[int, ...]:
        return self.stamp

    async def write(self) -> SlurmAnswer:
        self.count += 1
        text = f"{self.count}".ljust(self.length)
        await self.may_answer.wait()
        return SlurmAnswer(stdout=text)


async def ask(kept: KeptListings[SlurmAnswer], writer: Writer, key: str = "squeue") -> int:
    return int((await kept.answer(key, writer.now, writer.write)).stdout)


@scenario
async def test_an_answer_counts_until_something_changes() -> None:
    kept, writer = KeptListings(is_long_text), Writer()
    assert [await ask(kept, writer), await ask(kept, writer)] == [1, 1]
    writer.stamp = (2,)
    assert await ask(kept, writer) == 2
    assert await ask(kept, writer, "squeue --me") == 3


@scenario
async def test_those_who_ask_while_it_is_written_get_it_or_the_next_one() -> None:
    kept, writer = KeptListings(is_long_text), Writer()
    writer.may_answer.clear()
    first = asyncio.create_task(ask(kept, writer))
    await asyncio.sleep(0)
    assert writer.count == 1
    others = [asyncio.create_task(ask(kept, writer)) for _ in range(3)]
    await asyncio.sleep(0)
    writer.stamp = (2,)
    writer.may_answer.set()
    assert await first == 1
    # What was written before the change does not count for those who may know of it; what is written now counts for all of them.
    assert await asyncio.gather(*others) == [2, 2, 2]


@scenario
async def test_a_change_while_the_second_one_is_written_does_not_make_everybody_write() -> None:
    kept, writer = KeptListings(is_long_text), Writer()

    async def write() -> SlurmAnswer:
        writer.stamp = (writer.stamp[0] + 1,)  # something always happens
        return await writer.write()

    writer.may_answer.clear()
    asked = [asyncio.create_task(kept.answer("squeue", writer.now, write)) for _ in range(20)]
    await asyncio.sleep(0)
    writer.may_answer.set()
    assert {int((await each).stdout) for each in asked} == {1, 2}


@scenario
async def test_a_failure_is_not_kept_and_stops_nobody() -> None:
    kept, writer = KeptListings(is_long_text), Writer()

    async def fail() -> SlurmAnswer:
        raise ValueError("nothing to show")

    failed = await asyncio.gather(kept.answer("squeue", writer.now, fail), return_exceptions=True)
    assert isinstance(failed[0], ValueError)
    assert await ask(kept, writer) == 1


@scenario
async def test_neither_short_nor_endless_nor_many_answers_are_kept() -> None:
    kept = KeptListings(is_long_text)
    for length in (MIN_KEPT_TEXT - 1, MAX_KEPT_TEXT + 1):
        writer = Writer(length)
        assert [await ask(kept, writer), await ask(kept, writer)] == [1, 2]
    writer = Writer()
    for number in range(MAX_KEPT + 1):
        await ask(kept, writer, f"squeue {number}")
    assert await ask(kept, writer, f"squeue {MAX_KEPT}") == MAX_KEPT + 1
    assert await ask(kept, writer, "squeue 0") == MAX_KEPT + 2
