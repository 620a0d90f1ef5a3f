"""The archive while its file cannot be written: records stay readable, and get there in the end."""

import asyncio

import pytest

from lattice.core.model.work.allocations import Allocation, AllocationState, Request
from lattice.ports.quorum.archive import ArchiveError, ArchiveFilter
from lattice.quorum.archive import archive as archive_module
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.archive.store import ArchiveStore
from lattice.testing import scenario
from tests.unit.quorum.world import finish, founded, replica_at, submit, until


def finished(number: int) -> Allocation:
    return Allocation(
        number=number,
        name="n",
        user="ada",
        account="ada",
        tenant="default",
        vcluster="default",
        request=Request(),
        submitted_at=1,
        ended_at=2,
        state=AllocationState.COMPLETED,
    )


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Writes fail while the list has an element."""
    fault: list[bool] = [True]
    write = ArchiveStore.write

    def failing(self: ArchiveStore, *args: object) -> None:
        if fault:
            raise ArchiveError("archive: disk is full")
        write(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ArchiveStore, "write", failing)
    monkeypatch.setattr(archive_module, "_RETRY_S", (0.01,))
    return fault


async def until_failed(archive: SqliteArchive) -> None:
    await until(lambda: archive.failed_writes >= 2, "two writes fail")


@scenario
async def test_records_are_readable_until_the_disk_recovers(broken_disk: list[bool]) -> None:
    archive = SqliteArchive(None)
    await archive.open()
    archive.add(3, [(finished(1), b"script")])
    flush = asyncio.create_task(archive.flush(3))
    await until_failed(archive)
    assert await archive.archived(1) == finished(1)
    assert not flush.done()
    broken_disk.clear()
    await flush
    assert archive.complete_to == 3
    assert await archive.archived(1) == finished(1)
    assert await archive.archived_payload(1) == b"script"
    await archive.close()


@scenario
async def test_a_flush_ends_with_the_archive(broken_disk: list[bool]) -> None:
    archive = SqliteArchive(None)
    await archive.open()
    archive.add(3, [(finished(1), b"")])
    flush = asyncio.create_task(archive.flush(3))
    await until_failed(archive)
    await archive.close()
    with pytest.raises(ArchiveError, match="1 archived records"):
        await flush


@scenario
async def test_no_snapshot_is_taken_before_the_archive_is_complete(
    broken_disk: list[bool], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("data")
    async with founded(replica_at(folder, snapshot_every=20)) as replica:
        for _ in range(20):
            await finish(replica, await submit(replica))
        keeper = replica.snapshots
        assert keeper is not None
        assert keeper.taken == 0
        assert len(await replica.archived_page(ArchiveFilter(), None, 100)) == 20
        broken_disk.clear()
        await until(lambda: keeper.taken > 0, "a snapshot is taken")
        assert keeper.failed == 0
