"""A log or an archive that lost something: filled in again, or refused by name until that is accepted."""

from pathlib import Path

import pytest

from lattice.ports.quorum.archive import ArchiveFilter
from lattice.quorum.losses import DataLost, Losses
from lattice.quorum.replica import LogReplica
from lattice.testing import scenario
from tests.unit.quorum.world import finish, founded, replica_at, running, submit


def remove(folder: Path, name: str) -> None:
    for path in folder.glob(f"{name}*"):
        path.unlink()


async def finished(replica: LogReplica, count: int) -> list[int]:
    numbers = [await submit(replica) for _ in range(count)]
    for number in numbers:
        await finish(replica, number)
    return numbers


async def known(replica: LogReplica) -> list[int]:
    return sorted(record.number for record in await replica.archived_page(ArchiveFilter(), None, 1000))


async def refused(folder: Path) -> str:
    with pytest.raises(DataLost) as failure:
        await replica_at(folder).start()
    return str(failure.value)


@scenario
async def test_a_log_that_is_gone_is_missed_by_the_archive_and_nothing_is_deleted(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path)) as replica:
        numbers = await finished(replica, 5)
        await replica._archive.flush(replica.applied_index)
    kept = (tmp_path / "archive.sqlite").read_bytes()
    remove(tmp_path, "log.sqlite")
    said = await refused(tmp_path)
    assert "the log ends at entry 0 but the archive reaches up to entry" in said
    assert "--accept-loss" in said
    assert (tmp_path / "archive.sqlite").read_bytes() == kept
    async with running(replica_at(tmp_path, accepts_loss=True)) as replica:
        assert await known(replica) == []
        assert numbers
    assert "acknowledged entries are missing" in Losses(tmp_path).told
    async with running(replica_at(tmp_path)):
        pass


@scenario
async def test_a_log_behind_a_snapshot_is_refused_and_with_leave_the_snapshot_is_put_aside(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path)) as replica:
        await finished(replica, 3)
        written = await replica.snapshot_now()
    remove(tmp_path, "log.sqlite")
    assert f"snapshot {written.index} exists" in await refused(tmp_path)
    async with running(replica_at(tmp_path, accepts_loss=True)) as replica:
        assert replica.applied_index == 0
    async with running(replica_at(tmp_path)):
        pass
    assert (tmp_path / "snapshots" / f"{written.index}.lost").is_dir()


@scenario
async def test_an_archive_that_is_gone_is_filled_from_the_log(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path)) as replica:
        numbers = await finished(replica, 5)
        digest = replica.state.digest()
    remove(tmp_path, "archive.sqlite")
    async with running(replica_at(tmp_path)) as replica:
        assert await known(replica) == numbers
        assert replica.state.digest() == digest
    assert Losses(tmp_path).told == ""


@scenario
async def test_what_neither_log_nor_archive_has_is_refused_then_accepted_once(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path)) as replica:
        await finished(replica, 5)
        for _ in range(7):
            await submit(replica)
            await replica.snapshot_now()
        later = await finished(replica, 2)
    remove(tmp_path, "archive.sqlite")
    assert "finished work that was archived in between is missing" in await refused(tmp_path)
    async with running(replica_at(tmp_path, accepts_loss=True)) as replica:
        assert await known(replica) == later
    async with running(replica_at(tmp_path)) as replica:
        assert await known(replica) == later
    assert Losses(tmp_path).told.count("missing") == 1
