"""What every archive of finished work must do for its readers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lattice.core.model.work.allocations import Allocation, AllocationState, Request, TaskGroup
from lattice.core.model.work.dags import Dag, DagState
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveError, ArchiveFilter
from lattice.quorum.archive.archive import SqliteArchive
from lattice.testing import scenario

Scenario = Callable[[SqliteArchive], Coroutine[Any, Any, None]]
Opener = Callable[[], SqliteArchive]
Field = str | int | AllocationState
ALL = ArchiveFilter()


@pytest.fixture(params=["file", "memory"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    path = tmp_path / "archive.sqlite" if request.param == "file" else None
    return lambda: SqliteArchive(path)


@asynccontextmanager
async def opened(opener: Opener) -> AsyncIterator[SqliteArchive]:
    archive = opener()
    await archive.open()
    try:
        yield archive
    finally:
        await archive.close()


def run(opener: Opener, scenario: Scenario) -> None:
    async def body() -> None:
        async with opened(opener) as archive:
            await scenario(archive)

    asyncio.run(asyncio.wait_for(body(), 30))


def finished(number: int, **fields: Field) -> Allocation:
    given: dict[str, Any] = {
        "name": f"work-{number}",
        "user": "ada",
        "account": "ada",
        "tenant": "default",
        "vcluster": "default",
        "request": Request(nodes=2),
        "submitted_at": number * 1000,
        "ended_at": number * 1000 + 500,
        "state": AllocationState.COMPLETED,
    }
    return Allocation(number=number, **(given | fields))


def group(number: int, size: int, **fields: Any) -> TaskGroup:  # noqa: ANN401 - fields of the record
    template = finished(number, state=AllocationState.PENDING)
    return TaskGroup(
        number=number,
        template=template,
        indices=((0, size - 1, 1),),
        size=size,
        pending=(),
        ended_at=number * 1000,
        **fields,
    )


def add(archive: SqliteArchive, entry: int, records: Sequence[ArchivedRecord]) -> None:
    archive.add(entry, [(record, b"") for record in records])


def numbers(records: list[ArchivedRecord]) -> list[int]:
    return [record.number for record in records]


def test_a_record_is_there_at_once_and_still_there_when_durable(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 7, [finished(1), finished(2)])
        assert archive.waiting == 2
        assert await archive.archived(2) == finished(2)
        assert numbers(await archive.archived_page(ALL, None, 10)) == [2, 1]
        await archive.flush(7)
        assert archive.waiting == 0
        assert await archive.archived(2) == finished(2)
        assert numbers(await archive.archived_page(ALL, None, 10)) == [2, 1]
        assert await archive.archived(3) is None

    run(opener, scenario)


def test_payloads_are_kept_beside_the_records(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        archive.add(1, [(finished(1), b"a script"), (group(2, 3), b"script of the group")])
        for _ in range(2):
            assert await archive.archived_payload(1) == b"a script"
            assert await archive.archived_payload(2) == b"script of the group"
            assert await archive.archived_payload(3) == b""
            await archive.flush(1)

    run(opener, scenario)


def test_pages_follow_each_other_over_durable_and_fresh_records(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 1, [finished(n) for n in range(1, 21)])
        await archive.flush(1)
        add(archive, 2, [finished(n) for n in (5, 21, 22)])
        seen: list[int] = []
        before: int | None = None
        while page := await archive.archived_page(ALL, before, 4):
            assert len(page) <= 4
            seen += numbers(page)
            before = page[-1].number
        assert seen == list(range(22, 0, -1))

    run(opener, scenario)


FILTERS: dict[str, tuple[ArchiveFilter, list[int]]] = {
    "user": (ArchiveFilter(user="bob"), [2]),
    "tenant": (ArchiveFilter(tenant="physics"), [3]),
    "vcluster": (ArchiveFilter(vcluster="gpu"), [4]),
    "name": (ArchiveFilter(name="train"), [5]),
    "states": (ArchiveFilter(states=(AllocationState.FAILED, AllocationState.CANCELLED)), [9, 6]),
    "since": (ArchiveFilter(since=90_000), [8, 7]),
    "until": (ArchiveFilter(until=2_501), [2, 1]),
    "window": (ArchiveFilter(since=90_000, until=100_000), [7]),
    "group": (ArchiveFilter(group=9), [10, 9]),
    "without groups": (ArchiveFilter(with_groups=False, user="ada", until=20_000), [10, 6, 5, 4, 3, 1]),
    "several": (ArchiveFilter(user="ada", tenant="physics", vcluster="gpu"), []),
}


@pytest.mark.parametrize("which", FILTERS)
def test_a_filter_means_the_same_for_durable_and_fresh_records(opener: Opener, which: str) -> None:
    records: list[ArchivedRecord] = [
        finished(1),
        finished(2, user="bob"),
        finished(3, tenant="physics"),
        finished(4, vcluster="gpu"),
        finished(5, name="train"),
        finished(6, state=AllocationState.FAILED),
        finished(7, ended_at=90_000),
        finished(8, ended_at=100_000),
        group(9, 2, completed=1, cancelled=1),
        finished(10, group=9, task_index=0),
    ]
    wanted, expected = FILTERS[which]

    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 1, records)
        assert numbers(await archive.archived_page(wanted, None, 100)) == expected
        await archive.flush(1)
        assert numbers(await archive.archived_page(wanted, None, 100)) == expected

    run(opener, scenario)


def test_a_task_that_never_became_a_record_leads_to_its_group(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        for entry in (1, 2):
            add(archive, entry, [finished(5), group(10, 3, cancelled=2), finished(12, group=10)])
            assert await archive.archived(11) == group(10, 3, cancelled=2)
            assert await archive.archived(12) == finished(12, group=10)
            assert await archive.archived(13) == group(10, 3, cancelled=2)
            assert await archive.archived(14) is None
            assert await archive.archived(9) is None
            await archive.flush(entry)

    run(opener, scenario)


def test_what_is_complete_is_not_written_again(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 4, [finished(1)])
        await archive.flush(9)
        assert archive.complete_to == 9
        add(archive, 4, [finished(1, name="repeated")])
        assert archive.waiting == 0
        add(archive, 10, [finished(2)])
        assert archive.waiting == 1

    run(opener, scenario)


def test_forget_removes_the_oldest_ended(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 1, [finished(n) for n in range(1, 11)])
        await archive.flush(1)
        assert await archive.forget(6_000, limit=3) == 3
        assert await archive.forget(6_000, limit=3) == 2
        assert await archive.forget(6_000, limit=3) == 0
        assert numbers(await archive.archived_page(ALL, None, 20)) == [10, 9, 8, 7, 6]

    run(opener, scenario)


def test_rewind_removes_what_came_from_entries_that_are_gone(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        add(archive, 1, [finished(1)])
        await archive.flush(2)
        add(archive, 3, [finished(2)])
        add(archive, 4, [finished(3)])
        await archive.flush(4)
        assert await archive.rewind(4) == 0
        assert await archive.rewind(3) == 1
        assert archive.complete_to == 3
        assert numbers(await archive.archived_page(ALL, None, 20)) == [2, 1]

    run(opener, scenario)


def test_a_closed_archive_says_so(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        await archive.close()
        await archive.close()
        with pytest.raises(ArchiveError, match="closed"):
            await archive.archived(1)

    run(opener, scenario)


def test_records_survive_reopening(tmp_path: Path) -> None:
    def opener() -> SqliteArchive:
        return SqliteArchive(tmp_path / "archive.sqlite")

    async def first(archive: SqliteArchive) -> None:
        add(archive, 3, [finished(1), group(2, 4)])
        await archive.flush(5)

    async def second(archive: SqliteArchive) -> None:
        assert archive.complete_to == 5
        assert numbers(await archive.archived_page(ALL, None, 10)) == [2, 1]
        assert await archive.archived(4) == group(2, 4)

    run(opener, first)
    run(opener, second)


@scenario
async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    path.write_bytes(b"nonsense " * 1000)
    with pytest.raises(ArchiveError, match="not a database"):
        await SqliteArchive(path).open()


def dag(number: int, user: str = "ada", tenant: str = "default") -> Dag:
    return Dag(
        number=number,
        name="flow",
        user=user,
        tenant=tenant,
        submitted_at=1,
        members=(number + 1,),
        state=DagState.COMPLETED,
        ended_at=number * 1000,
    )


def test_dags_are_found_by_number_and_listed_by_owner(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        archive.add(1, [], dags=[dag(1), dag(3, "bob"), dag(5, tenant="other")])
        for _ in range(2):
            assert await archive.archived_dag(3) == dag(3, "bob")
            assert await archive.archived_dag(2) is None
            assert [each.number for each in await archive.archived_dags("", "", 100, 2)] == [5, 3]
            assert [each.number for each in await archive.archived_dags("ada", "default", 100, 9)] == [1]
            assert [each.number for each in await archive.archived_dags("", "", 3, 9)] == [1]
            assert await archive.archived(3) is None
            await archive.flush(1)

    run(opener, scenario)


def test_dags_of_entries_that_no_longer_exist_are_removed_and_old_ones_forgotten(opener: Opener) -> None:
    async def scenario(archive: SqliteArchive) -> None:
        archive.add(1, [], dags=[dag(1), dag(2)])
        archive.add(5, [], dags=[dag(9)])
        await archive.flush(5)
        assert await archive.rewind(4) == 1
        assert await archive.archived_dag(9) is None
        assert await archive.forget(1500) == 1
        assert [each.number for each in await archive.archived_dags("", "", 100, 9)] == [2]

    run(opener, scenario)
