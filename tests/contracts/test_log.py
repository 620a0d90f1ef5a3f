"""What every log must do, whatever it is made of. Each implementation adds itself to the homes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lattice.ports.quorum.log import Conflict, Entry, Log, LogUnavailable, Trimmed
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.logs.sqlite import SqliteLog
from tests.integration.quorum.etcd_world import Etcd, running_etcd

Scenario = Callable[[Log], Coroutine[Any, Any, None]]


class MemoryHome:
    """The same object again: what a closed log keeps must be there when it is opened again."""

    def __init__(self, _: Path) -> None:
        self._log = MemoryLog()

    def log(self) -> Log:
        return self._log


class SqliteHome:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self) -> Log:
        return SqliteLog(self._folder / "log.sqlite")


class EtcdHome:
    """One real member for all tests; each begins with nothing in it."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd

    def log(self) -> Log:
        return self._etcd.log()


Home = MemoryHome | SqliteHome | EtcdHome
HOMES: dict[str, Callable[[Path], Home]] = {"memory": MemoryHome, "sqlite": SqliteHome}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(params=[*sorted(HOMES), "etcd"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    if request.param != "etcd":
        return HOMES[request.param](tmp_path)
    etcd: Etcd = request.getfixturevalue("etcd")
    asyncio.run(etcd.wipe())
    return EtcdHome(etcd)


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[Log]:
    log = home.log()
    await log.open()
    try:
        yield log
    finally:
        await log.close()


def run(home: Home, scenario: Scenario) -> None:
    async def body() -> None:
        async with opened(home) as log:
            await scenario(log)

    asyncio.run(asyncio.wait_for(body(), 30))


async def fill(log: Log, count: int) -> None:
    _, last = await log.bounds()
    for index in range(last + 1, last + 1 + count):
        assert await log.append(index - 1, b"entry %d" % index) == index


async def take(entries: AsyncIterator[Entry], count: int) -> list[Entry]:
    return [await anext(entries) for _ in range(count)]


async def refuses(kind: type[Exception], action: Awaitable[object]) -> None:
    with pytest.raises(kind):
        await action


def test_an_empty_log_has_bounds_one_and_zero(home: Home) -> None:
    async def scenario(log: Log) -> None:
        assert await log.bounds() == (1, 0)
        assert list(await log.read(1, 10)) == []

    run(home, scenario)


def test_entries_are_numbered_from_one_without_gaps(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 3)
        assert await log.bounds() == (1, 3)
        assert list(await log.read(1, 10)) == [
            Entry(1, b"entry 1"),
            Entry(2, b"entry 2"),
            Entry(3, b"entry 3"),
        ]

    run(home, scenario)


@pytest.mark.parametrize("expected_last", [0, 1, 3, 99])
def test_append_behind_another_index_than_the_newest_changes_nothing(home: Home, expected_last: int) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 2)
        await refuses(Conflict, log.append(expected_last, b"foreign"))
        assert await log.bounds() == (1, 2)
        assert await log.append(2, b"mine") == 3

    run(home, scenario)


def test_of_two_appends_at_one_index_exactly_one_wins(home: Home) -> None:
    async def scenario(log: Log) -> None:
        results = await asyncio.gather(*(log.append(0, b"proposer %d" % n) for n in range(20)), return_exceptions=True)
        winners = [n for n, result in enumerate(results) if result == 1]
        assert len(winners) == 1
        assert sum(isinstance(result, Conflict) for result in results) == 19
        assert list(await log.read(1, 5)) == [Entry(1, b"proposer %d" % winners[0])]

    run(home, scenario)


def test_read_returns_at_most_the_limit_and_nothing_behind_the_end(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 10)
        assert [entry.index for entry in await log.read(4, 3)] == [4, 5, 6]
        assert [entry.index for entry in await log.read(9, 100)] == [9, 10]
        assert list(await log.read(11, 5)) == []
        assert list(await log.read(500, 5)) == []
        assert list(await log.read(1, 0)) == []

    run(home, scenario)


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_payloads_come_back_byte_for_byte(home: Home, size: int) -> None:
    payload = bytes(n * 31 % 256 for n in range(min(size, 4096))) * max(1, size // 4096)

    async def scenario(log: Log) -> None:
        await log.append(0, payload)
        assert list(await log.read(1, 1)) == [Entry(1, payload)]

    run(home, scenario)


def test_everything_is_there_after_reopening(home: Home) -> None:
    async def first(log: Log) -> None:
        await fill(log, 7)
        await log.trim(3)

    async def second(log: Log) -> None:
        assert await log.bounds() == (3, 7)
        assert [entry.payload for entry in await log.read(3, 2)] == [b"entry 3", b"entry 4"]
        assert await log.append(7, b"entry 8") == 8

    run(home, first)
    run(home, second)


def test_tail_gives_what_is_there_and_then_what_comes(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 150)
        tail = aiter(log.tail(2))
        assert [entry.index for entry in await take(tail, 149)] == list(range(2, 151))
        waiting = asyncio.create_task(take(tail, 3))
        await asyncio.sleep(0)
        assert not waiting.done()
        await fill(log, 3)
        assert [entry.index for entry in await waiting] == [151, 152, 153]

    run(home, scenario)


def test_tail_from_behind_the_end_waits_for_that_entry(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 1)
        waiting = asyncio.create_task(take(aiter(log.tail(4)), 1))
        await fill(log, 3)
        assert await waiting == [Entry(4, b"entry 4")]

    run(home, scenario)


def test_several_tails_see_the_same_entries_in_order(home: Home) -> None:
    async def scenario(log: Log) -> None:
        tails = [asyncio.create_task(take(aiter(log.tail(1)), 200)) for _ in range(5)]
        await fill(log, 200)
        for seen in await asyncio.gather(*tails):
            assert [entry.index for entry in seen] == list(range(1, 201))

    run(home, scenario)


def test_a_waiting_tail_ends_when_the_log_is_closed(home: Home) -> None:
    async def scenario(log: Log) -> None:
        waiting = asyncio.create_task(take(aiter(log.tail(1)), 1))
        await asyncio.sleep(0)
        await log.close()
        await refuses(LogUnavailable, waiting)

    run(home, scenario)


def test_trim_forgets_older_entries_and_says_which_is_the_oldest(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 1200)
        await log.trim(1101)
        assert await log.bounds() == (1101, 1200)
        with pytest.raises(Trimmed) as gone:
            await log.read(1100, 1)
        assert gone.value.first_index == 1101
        await refuses(Trimmed, take(aiter(log.tail(5)), 1))
        assert [entry.index for entry in await log.read(1101, 2)] == [1101, 1102]

    run(home, scenario)


@pytest.mark.parametrize("before", [6, 7, 1000])
def test_trim_keeps_the_newest_entry_so_that_its_index_is_never_given_again(home: Home, before: int) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 6)
        await log.trim(before)
        assert await log.bounds() == (6, 6)
        await refuses(Conflict, log.append(0, b"again"))
        assert await log.append(6, b"next") == 7

    run(home, scenario)


def test_trim_of_nothing_is_harmless(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await log.trim(10)
        assert await log.bounds() == (1, 0)
        await fill(log, 3)
        await log.trim(0)
        await log.trim(1)
        assert await log.bounds() == (1, 3)
        await log.trim(3)
        await log.trim(2)
        assert await log.bounds() == (3, 3)

    run(home, scenario)


def test_appends_go_on_while_the_log_is_trimmed_and_read(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 1500)
        reader = asyncio.create_task(take(aiter(log.tail(1450)), 250))
        await asyncio.gather(fill(log, 200), log.trim(1400))
        assert [entry.index for entry in await reader] == list(range(1450, 1700))
        assert await log.bounds() == (1400, 1700)

    run(home, scenario)


def test_an_append_whose_caller_was_cancelled_leaves_the_log_usable(home: Home) -> None:
    async def scenario(log: Log) -> None:
        abandoned = asyncio.create_task(log.append(0, b"abandoned"))
        await asyncio.sleep(0)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        _, last = await log.bounds()
        assert await log.append(last, b"next") == last + 1
        assert [entry.payload for entry in await log.read(last + 1, 1)] == [b"next"]

    run(home, scenario)


def test_a_closed_log_says_so_and_closing_twice_is_harmless(home: Home) -> None:
    async def scenario(log: Log) -> None:
        await fill(log, 1)
        await log.close()
        await log.close()
        await refuses(LogUnavailable, log.append(1, b"late"))
        await refuses(LogUnavailable, log.read(1, 1))
        await refuses(LogUnavailable, log.bounds())
        await refuses(LogUnavailable, log.trim(1))

    run(home, scenario)
