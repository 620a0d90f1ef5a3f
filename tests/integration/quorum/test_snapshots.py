"""Snapshots as files: what is left of them after crashes and damage still leads to the right state."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lattice.core.machine.state import FrozenView, State
from lattice.ports.quorum.log import LogCorrupt
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotDamaged, SnapshotFolder, Written
from lattice.testing import scenario
from tests.unit.quorum.world import finish, founded, replica_at, run, running, submission, submit, until


async def some_work(replica: LogReplica, count: int) -> None:
    """Submissions of which every third is finished and archived: about 1.7 commands each."""
    for first in range(0, count, 50):
        batch = [submission(f"w{first + n}") for n in range(min(50, count - first))]
        await replica.propose_many(batch, "ada")
    for number in [n for n in replica.state.allocations if n % 3 == 0]:
        await finish(replica, number)


async def snapshot_taken(replica: LogReplica, count: int) -> None:
    """Returns when so many snapshots were taken."""
    keeper = replica.snapshots
    assert keeper is not None
    await until(lambda: keeper.taken >= count, f"{count} snapshots are taken")
    assert keeper.failed == 0


async def grown(folder: Path, snapshots: int) -> str:
    """A data folder with so many snapshots and a log behind the newest; returns the digest of its end."""
    async with founded(replica_at(folder, snapshot_every=100)) as replica:
        for taken in range(snapshots):
            await some_work(replica, 60)
            await snapshot_taken(replica, taken + 1)
        await some_work(replica, 20)
        return replica.state.digest()


async def reopened(folder: Path) -> tuple[str, int]:
    """Digest of the state and number of commands read from the log."""
    replica = replica_at(folder)
    async with running(replica):
        return replica.state.digest(), replica.counters.replayed


@scenario
async def test_a_start_from_a_snapshot_gives_the_state_of_the_whole_log(tmp_path: Path) -> None:
    digest = await grown(tmp_path, 1)
    again, replayed = await reopened(tmp_path)
    assert again == digest
    assert replayed < 50
    shutil.rmtree(tmp_path / "snapshots")
    assert (await reopened(tmp_path))[0] == digest


@scenario
async def test_the_log_records_the_snapshot_and_is_trimmed_up_to_the_one_before(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path, snapshot_every=100)) as replica:
        for taken in range(7):
            await some_work(replica, 60)
            await snapshot_taken(replica, taken + 1)
        kept = SnapshotFolder(tmp_path / "snapshots").indexes()
        assert len(kept) == 5
        pointer = replica.state.snapshot
        assert pointer.index == kept[-1]
        manifest = tmp_path / "snapshots" / str(pointer.index) / "manifest.json"
        assert f'"{pointer.digest}"' in manifest.read_text()
    log = SqliteLog(tmp_path / "log.sqlite")
    await log.open()
    assert (await log.bounds())[0] == kept[-2] + 1
    await log.close()


@scenario
async def test_a_torn_snapshot_is_ignored_and_removed(tmp_path: Path) -> None:
    digest = await grown(tmp_path, 1)
    folder = tmp_path / "snapshots"
    (newest,) = SnapshotFolder(folder).indexes()
    torn = folder / f".{newest + 5}.4711"
    shutil.copytree(folder / str(newest), torn)
    (torn / "manifest.json").unlink()
    assert (await reopened(tmp_path))[0] == digest
    assert not torn.exists()


def truncate_chunk(folder: Path) -> None:
    chunk = max(folder.glob("allocations-*"))
    os.truncate(chunk, chunk.stat().st_size // 2)


def change_byte(folder: Path) -> None:
    chunk = max(folder.glob("allocations-*"))
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def write_nonsense(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"index": []}')


DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated chunk": truncate_chunk,
    "changed byte": change_byte,
    "missing chunk": lambda folder: max(folder.glob("payloads-*")).unlink(),
    "missing manifest": lambda folder: (folder / "manifest.json").unlink(),
    "manifest cut off": lambda folder: os.truncate(folder / "manifest.json", 100),
    "manifest that is none": write_nonsense,
    "empty folder": empty,
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_newest_snapshot_falls_back_to_the_one_before(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        digest = await grown(tmp_path, 3)
        newest = SnapshotFolder(tmp_path / "snapshots").indexes()[-1]
        DAMAGE[what](tmp_path / "snapshots" / str(newest))
        again, replayed = await reopened(tmp_path)
        assert again == digest
        assert replayed > 100

    run(scenario())
    assert any("trying the previous one" in r.message for r in caplog.records if r.levelno == logging.ERROR)


@scenario
async def test_without_any_good_snapshot_a_trimmed_log_is_refused(tmp_path: Path) -> None:
    await grown(tmp_path, 3)
    for index in SnapshotFolder(tmp_path / "snapshots").indexes():
        change_byte(tmp_path / "snapshots" / str(index))
    with pytest.raises(LogCorrupt, match="no intact snapshot"):
        await replica_at(tmp_path).start()


@scenario
async def test_a_log_that_ends_before_the_snapshot_is_refused(tmp_path: Path) -> None:
    await grown(tmp_path, 1)
    for path in tmp_path.glob("log.sqlite*"):
        path.unlink()
    with pytest.raises(LogCorrupt, match="acknowledged entries are missing"):
        await replica_at(tmp_path).start()


@scenario
async def test_stop_takes_a_snapshot_when_much_happened(tmp_path: Path) -> None:
    async with founded(replica_at(tmp_path)) as replica:
        await some_work(replica, 900)
        digest = replica.state.digest()
    pointed, replayed = await reopened(tmp_path)
    assert replayed == 1
    assert pointed != digest
    (index,) = SnapshotFolder(tmp_path / "snapshots").indexes()
    assert SnapshotFolder(tmp_path / "snapshots").load(index).digest() == digest


class FailingFolder(SnapshotFolder):
    def write(self, index: int, view: FrozenView) -> Written:
        raise OSError(28, "No space left on device")


@scenario
async def test_a_snapshot_that_cannot_be_written_costs_nothing_but_a_longer_log(tmp_path: Path) -> None:
    full = FailingFolder(tmp_path / "snapshots")
    async with founded(replica_at(tmp_path, snapshot_every=100, snapshots=full)) as replica:
        await some_work(replica, 300)
        assert await submit(replica) == 301
        assert replica.snapshots is not None
        assert (replica.snapshots.taken, replica.snapshots.failed) == (0, 1)
        digest = replica.state.digest()
    assert (await reopened(tmp_path))[0] == digest


def test_a_snapshot_of_a_newer_format_is_not_guessed_at(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.write(5, State.empty().frozen_view())
    manifest = tmp_path / "5" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(SnapshotDamaged, match="newer"):
        folder.load(5)


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    SnapshotFolder(tmp_path / "snapshots").write(1, State.empty().frozen_view())
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "snapshots").rglob("*")}
    assert modes == {0o700, 0o600}
