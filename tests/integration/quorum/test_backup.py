"""Backups of a real data folder: every bit of them is checked, and what is restored goes on in a history of its own."""

import asyncio
import shutil
from pathlib import Path

import pytest

from lattice.core.machine.codec import decode_batch
from lattice.ports.quorum.backups import BackupError, BackupMissing
from lattice.ports.quorum.log import Conflict, LogCorrupt, LogError
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup import restore
from lattice.quorum.backup.service import BackupService
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.testing import HandClock
from tests.integration.quorum.etcd_world import running_etcd
from tests.unit.quorum.world import finish, founded, run, running, submit


def server_at(data: Path) -> LogReplica:
    """A replica with the names that a server gives its files."""
    return LogReplica(
        log=SqliteLog(data / "log.db"),
        archive=SqliteArchive(data / "archive.db"),
        snapshots=SnapshotFolder(data / "snapshots"),
        clock=HandClock(),
    )


def step_service_of(replica: LogReplica, data: Path) -> BackupService:
    return BackupService(replica, data, data / "backups", "s1", "sqlite")


async def backed_up(data: Path, target: Path) -> tuple[str, int]:
    """A server with work, waiting and archived, and a backup of it; then more work. Its digest and epoch at the backup."""
    async with founded(server_at(data)) as replica:
        for _ in range(20):
            await submit(replica)
        await finish(replica, 3)
        digest = replica.state.digest()
        made = await step_service_of(replica, data).create(str(target))
        assert made.digest == digest
        await finish(replica, 4)
        await submit(replica, "after the backup")
        return digest, replica.epoch


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """A backup, with the digest and epoch of what it was made of. Tests copy it."""
    folder = tmp_path_factory.mktemp("backup")
    digest, epoch = run(backed_up(folder / "data", folder / "backup"))
    return folder / "backup", digest, epoch


def test_a_restored_server_has_the_state_and_the_history_of_the_backup(
    made: tuple[Path, str, int], tmp_path: Path
) -> None:
    source, digest, epoch = made

    async def scenario() -> None:
        start = await asyncio.to_thread(restore.restore, source, tmp_path / "data", "sqlite")
        assert start.epoch > epoch
        async with running(server_at(tmp_path / "data")) as replica:
            assert replica.epoch == start.epoch
            assert replica.state.digest() == digest
            assert replica.applied_index == start.index + 1
            assert await replica.archived(3) is not None
            # It ended after the backup: the archive that was copied later must not know it.
            assert await replica.archived(4) is None
            assert replica.state.allocations[4].name == "work"
            assert await submit(replica, "goes on") == 21
        async with running(server_at(tmp_path / "data")) as replica:
            assert replica.state.allocations[21].name == "goes on"

    run(scenario())


def test_a_flipped_bit_is_found_in_whichever_file_it_is(made: tuple[Path, str, int], tmp_path: Path) -> None:
    source, _, _ = made
    names = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    assert {str(name) for name in names} >= {"manifest.json", "manifest.sha256", "archive.db"}
    assert any(name.parts[0] == "snapshots" for name in names)
    assert backup.verify(source).index
    for name in names:
        bad = tmp_path / "bad"
        shutil.copytree(source, bad)
        content = bytearray((bad / name).read_bytes())
        for place in (0, len(content) // 2, len(content) - 2):
            content[place] ^= 0x10
            (bad / name).write_bytes(content)
            with pytest.raises(BackupError, match="manifest" if "manifest" in name.name else name.name):
                backup.verify(bad)
            content[place] ^= 0x10
        (bad / name).unlink()
        with pytest.raises(BackupError, match=name.name):
            backup.verify(bad)
        shutil.rmtree(bad)


def test_what_does_not_belong_to_a_backup_is_refused(made: tuple[Path, str, int], tmp_path: Path) -> None:
    shutil.copytree(made[0], tmp_path / "more")
    (tmp_path / "more" / "log.db").write_bytes(b"")
    with pytest.raises(BackupError, match="does not belong"):
        backup.verify(tmp_path / "more")
    with pytest.raises(BackupMissing, match="a backup"):
        backup.verify(tmp_path / "nowhere")


def test_a_restore_refuses_a_folder_that_holds_a_cluster(made: tuple[Path, str, int], tmp_path: Path) -> None:
    for name in ("log.db", "archive.db", "snapshots", "etcd"):
        data = tmp_path / name.replace(".", "-")
        (data / name).mkdir(parents=True)
        with pytest.raises(BackupError, match=f"{name} exists"):
            restore.restore(made[0], data, "sqlite")
        assert [path.name for path in data.iterdir()] == [name]


def test_a_restore_that_fails_leaves_nothing_and_may_be_repeated(
    made: tuple[Path, str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, start: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    data = tmp_path / "data"
    with monkeypatch.context() as patched:
        patched.setattr(restore, "begin_file", no_room)
        with pytest.raises(BackupError, match="No space left"):
            restore.restore(made[0], data, "sqlite")
    assert list(data.iterdir()) == []
    # A restore that was killed in the middle of moving in.
    shutil.copytree(made[0] / "snapshots", data / "snapshots")
    (data / ".restoring").mkdir()
    with pytest.raises(BackupError, match="interrupted"):
        restore.refuse_unfinished(data)
    restore.restore(made[0], data, "sqlite")
    restore.refuse_unfinished(data)
    assert sorted(path.name for path in data.iterdir()) == ["archive.db", "log.db", "snapshots"]


def test_a_restore_that_no_server_has_begun_with_says_how_to_go_on(made: tuple[Path, str, int], tmp_path: Path) -> None:
    restore.restore(made[0], tmp_path / "data", "etcd")
    with pytest.raises(BackupError, match="start one there with --bootstrap and nothing else"):
        restore.restore(made[0], tmp_path / "data", "etcd")
    restore.log_has_begun(tmp_path / "data")
    with pytest.raises(BackupError, match="already contains a cluster"):
        restore.restore(made[0], tmp_path / "data", "etcd")


def test_a_damaged_backup_is_not_restored(made: tuple[Path, str, int], tmp_path: Path) -> None:
    shutil.copytree(made[0], tmp_path / "bad")
    (tmp_path / "bad" / "archive.db").write_bytes(b"nothing")
    with pytest.raises(BackupError, match=r"archive\.db is damaged"):
        restore.restore(tmp_path / "bad", tmp_path / "data", "sqlite")
    assert not (tmp_path / "data").exists()


def test_the_same_backup_restored_twice_gives_two_histories(made: tuple[Path, str, int], tmp_path: Path) -> None:
    first = restore.restore(made[0], tmp_path / "one", "sqlite")
    second = restore.restore(made[0], tmp_path / "two", "sqlite")
    assert second.epoch > first.epoch > made[2]


def test_a_restore_on_request_keeps_what_was_there(made: tuple[Path, str, int], tmp_path: Path) -> None:
    source, digest, _ = made
    data = tmp_path / "data"

    async def scenario() -> None:
        async with founded(server_at(data)) as replica:
            await submit(replica, "will be set aside")
            service = step_service_of(replica, data)
            with pytest.raises(BackupError):
                await service.restore_at_start(str(tmp_path / "nowhere"), "root")
            await service.restore_at_start(str(source), "root")
            former = replica.epoch
        done = await asyncio.to_thread(restore.carry_out_request, data)
        assert done is not None
        start, aside = done
        assert start.epoch > former
        async with running(server_at(data)) as replica:
            assert replica.state.digest() == digest
        async with running(server_at(aside)) as replica:
            assert replica.state.allocations[1].name == "will be set aside"
        assert await asyncio.to_thread(restore.carry_out_request, data) is None

    run(scenario())


def test_backups_are_named_listed_and_found(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def scenario() -> None:
        async with founded(server_at(data)) as replica:
            service = step_service_of(replica, data)
            with pytest.raises(BackupMissing, match="no backup in"):
                await service.verify("")
            first = await service.create("")
            await submit(replica)
            second = await service.create("evening")
            assert second.path == str(data / "backups" / "evening")
            with pytest.raises(BackupError, match="already exists"):
                await service.create("evening")
            with pytest.raises(BackupError, match="invalid directory name"):
                await service.create("../elsewhere")
            assert [each.path for each in await service.list()] == [first.path, second.path]
            assert (await service.verify("")).index == second.index

    run(scenario())


def test_several_servers_begin_where_the_backup_ends(made: tuple[Path, str, int], tmp_path: Path) -> None:
    source, digest, _ = made

    async def scenario() -> None:
        start = await asyncio.to_thread(restore.restore, source, tmp_path / "data", "etcd")
        assert restore.read_start(tmp_path / "data") == start
        first = EtcdLog(etcd.client(), start=start.log_start())
        second = EtcdLog(etcd.client())
        await first.open()
        await second.open()
        assert first.epoch == second.epoch == start.epoch
        assert await second.bounds() == (start.index + 1, start.index + 1)
        (entry,) = await second.read(start.index + 1, 10)
        assert decode_batch(entry.payload).envelopes == ()
        with pytest.raises(Conflict):
            await first.append(0, b"as if nothing had been")
        await first.close()
        await second.close()
        # Who restored the same, or has a later snapshot of this very history, goes on with it; nobody else.
        again = await asyncio.to_thread(restore.restore, source, tmp_path / "again", "etcd")
        later = restore.Start(index=start.index + 7, epoch=again.epoch, former=start.epoch, digest="later")
        for fellow in (again, later):
            log = EtcdLog(etcd.client(), start=fellow.log_start())
            await log.open()
            assert log.epoch == start.epoch != fellow.epoch
            await log.close()
        for index in (5, start.index):
            stranger = restore.Start(index=index, epoch=again.epoch, digest="another")
            with pytest.raises(LogCorrupt, match="started without the backup"):
                await EtcdLog(etcd.client(), start=stranger.log_start()).open()
        restore.log_has_begun(tmp_path / "data")
        assert restore.read_start(tmp_path / "data") is None
        log = EtcdLog(etcd.client())
        replica = LogReplica(
            log=log,
            archive=SqliteArchive(tmp_path / "data" / "archive.db"),
            snapshots=SnapshotFolder(tmp_path / "data" / "snapshots"),
            clock=HandClock(),
            shared_head=log.head,
        )
        async with running(replica):
            await replica.lead(lambda: True)
            assert replica.state.digest() == digest
            assert await submit(replica, "goes on") == 21

    with running_etcd(tmp_path / "etcd") as etcd:
        run(scenario())


def test_a_log_of_another_history_is_not_taken_for_the_restored_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with founded(server_at(tmp_path)):
            pass
        log = SqliteLog(tmp_path / "log.db", restore.Start(index=9, epoch=9).log_start())
        with pytest.raises(LogError, match="another log"):
            await log.open()

    run(scenario())
