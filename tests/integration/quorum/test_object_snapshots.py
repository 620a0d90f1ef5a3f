"""Snapshots in the object store: taken there in time, thinned out, and good for a new beginning."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.quorum.backups import BackupError, BackupMissing
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.quorum.backup import restore
from lattice.quorum.backup.folder import Source
from lattice.quorum.backup.objects import ObjectSnapshots, SnapshotUploads, name_of, time_of
from lattice.quorum.backup.service import BackupService
from lattice.testing import scenario
from tests.integration.quorum.test_backup import server_at
from tests.unit.quorum.world import founded, run, running, submit, until

AT = datetime(2026, 3, 5, 12, tzinfo=UTC)


def store_at(folder: Path) -> ObjectSnapshots:
    return ObjectSnapshots(DirectoryStore(folder / "store"), folder / "scratch")


async def uploaded(folder: Path, count: int) -> list[str]:
    """So many snapshots an hour apart, each with one allocation more; the digests of their states."""
    snapshots, digests = store_at(folder), []
    async with founded(server_at(folder / "data")) as replica:
        service = BackupService(replica, folder / "data", folder / "backups", "s1", "sqlite")
        for hour in range(count):
            await submit(replica)
            source = await service.source()
            digests.append(source.digest)
            await snapshots.upload(source, AT + timedelta(hours=hour))
    return digests


def test_names_say_when(tmp_path: Path) -> None:
    assert name_of(AT) == "raft/snap-20260305T120000Z.bin"
    assert time_of(name_of(AT)) == AT
    with pytest.raises(ValueError, match="not a snapshot"):
        time_of("raft/snap-latest.bin")


def test_the_newest_good_snapshot_brings_the_state_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        digests = await uploaded(tmp_path, 3)
        store, names = store_at(tmp_path), await store_at(tmp_path).names()
        assert names == [name_of(AT + timedelta(hours=hour)) for hour in range(3)]
        name, manifest = await store.fetch_newest(tmp_path / "newest")
        assert (name, manifest.digest) == (names[2], digests[2])
        newest = tmp_path / "store" / names[2]
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 4
        newest.write_bytes(content)
        (tmp_path / "store" / names[1]).write_bytes(b"")
        with caplog.at_level(logging.ERROR):
            name, manifest = await store.fetch_newest(tmp_path / "before")
        assert (name, manifest.digest) == (names[0], digests[0])
        complaints = [entry.getMessage() for entry in caplog.records]
        assert [names[2] in complaints[0], names[1] in complaints[1]] == [True, True]
        assert all("trying the previous one" in complaint for complaint in complaints)
        await asyncio.to_thread(restore.restore, tmp_path / "before", tmp_path / "fresh", "sqlite")
        async with running(server_at(tmp_path / "fresh")) as replica:
            assert replica.state.digest() == digests[0]
        (tmp_path / "store" / names[0]).write_bytes(b"x")
        with pytest.raises(BackupMissing, match="all 3 snapshots"):
            await store.fetch_newest(tmp_path / "none")

    run(scenario())
    assert not list((tmp_path / "scratch").iterdir())


def test_an_empty_store_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BackupMissing, match=r"there are no snapshots.*raft/snap-\*\.bin"):
        run(store_at(tmp_path).fetch_newest(tmp_path / "none"))


@scenario
async def test_no_flipped_bit_of_a_packed_snapshot_changes_what_is_restored(tmp_path: Path) -> None:
    """Nearly all are noticed. A few (the size of the window, unused codes of the compression) change no byte of the contents."""
    await uploaded(tmp_path, 1)
    packed = tmp_path / "store" / name_of(AT)
    good = packed.read_bytes()
    await store_at(tmp_path).fetch(name_of(AT), tmp_path / "good")
    contents = contents_of(tmp_path / "good")
    noticed = tried = 0
    for place in {*range(12), *range(0, len(good), max(1, len(good) // 60)), *range(len(good) - 12, len(good))}:
        bad = bytearray(good)
        bad[place] ^= 1
        packed.write_bytes(bad)
        tried += 1
        try:
            await store_at(tmp_path).fetch(name_of(AT), tmp_path / f"at-{place}")
        except BackupError:
            noticed += 1
        else:
            assert contents_of(tmp_path / f"at-{place}") == contents
    assert noticed >= 0.8 * tried


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@scenario
async def test_uploads_come_in_time_whichever_server_made_the_last(tmp_path: Path) -> None:
    snapshots = store_at(tmp_path)
    old = DirectoryStore(tmp_path / "store")
    for days in (95, 8.0, 8.1):
        await old.put(name_of(datetime.now(UTC) - timedelta(days=days)), b"old")
    async with founded(server_at(tmp_path / "data")) as replica:
        service = BackupService(replica, tmp_path / "data", tmp_path / "backups", "s1", "sqlite")
        uploads = SnapshotUploads(snapshots, service.source, every_s=3600)
        task = asyncio.create_task(uploads.run())
        await until(lambda: uploads.uploaded == 1, "one is uploaded at once")
        task.cancel()
        # The next server to lead finds that it was done.
        second = SnapshotUploads(snapshots, service.source, every_s=3600)
        task = asyncio.create_task(second.run())
        await asyncio.sleep(0.1)
        task.cancel()
        assert (second.uploaded, second.failed) == (0, 0)
    names = await snapshots.names()
    assert len(names) in (2, 3)
    assert datetime.now(UTC) - time_of(names[0]) < timedelta(days=30)


def test_a_failed_upload_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with founded(server_at(tmp_path / "data")) as replica:
            service = BackupService(replica, tmp_path / "data", tmp_path / "backups", "s1", "sqlite")
            troubles: list[Exception] = [ObjectStoreError("the store is away"), BackupError("no snapshot")]

            async def source() -> Source:
                if troubles:
                    raise troubles.pop()
                return await service.source()

            uploads = SnapshotUploads(store_at(tmp_path), source, every_s=3600, retry_s=0.01)
            task = asyncio.create_task(uploads.run())
            await until(lambda: uploads.uploaded == 1, "it is uploaded in the end")
            task.cancel()
            assert uploads.failed == 2

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "cannot store a snapshot in the object store" in caplog.text
