"""A copy of the state for another server: complete, checked before anything is replaced, and nothing else is accepted."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from lattice.ports.quorum.log import Log
from lattice.quorum.peers.handover import NothingToHandOver, pack, unpack
from lattice.quorum.peers.missing_state import fetch_missing
from lattice.quorum.snapshots.folders import SnapshotFolder
from tests.unit.quorum.world import finish, founded, replica_at, run, submit


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A data directory with one archived allocation, one pending, and a snapshot."""
    folder = tmp_path / "origin"

    async def scenario() -> None:
        async with founded(replica_at(folder)) as replica:
            await finish(replica, await submit(replica, "old"))
            await submit(replica, "new")
            SnapshotFolder(folder / "snapshots").write(replica.applied_index, replica.state.frozen_view())
        (folder / "archive.sqlite").rename(folder / "archive.db")

    folder.mkdir()
    run(scenario())
    return folder


def test_what_is_packed_here_is_the_same_there(origin: Path, tmp_path: Path) -> None:
    packed, target = pack(origin), tmp_path / "target"
    target.mkdir()
    index = unpack(packed, target)
    assert SnapshotFolder(origin / "snapshots").indexes() == SnapshotFolder(target / "snapshots").indexes() == [index]
    there = SnapshotFolder(target / "snapshots").load(index)
    assert there.digest() == SnapshotFolder(origin / "snapshots").load(index).digest()
    assert (target / "archive.db").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in target.iterdir()) == ["archive.db", "snapshots"]
    packed.unlink()
    assert not list(origin.glob(".handover-*"))


def test_it_replaces_what_was_there(origin: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for leftover in ("archive.db", "archive.db-wal", "archive.db-shm"):
        (target / leftover).write_bytes(b"of another time")
    unpack(pack(origin), target)
    assert not (target / "archive.db-wal").exists()
    assert (target / "archive.db").read_bytes().startswith(b"SQLite format 3")


def test_without_a_snapshot_there_is_nothing_to_hand_over(tmp_path: Path) -> None:
    with pytest.raises(NothingToHandOver, match="no snapshot"):
        pack(tmp_path)


def test_a_snapshot_that_does_not_reach_the_log_is_not_installed(origin: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (index,) = SnapshotFolder(origin / "snapshots").indexes()
    with pytest.raises(
        NothingToHandOver, match=f"snapshot, {index}, does not reach the log, which starts at entry {index + 2}"
    ):
        unpack(pack(origin), target, index + 1)
    assert list(target.iterdir()) == []
    assert unpack(pack(origin), target, index) == index


class CutLog:
    """A log that has lost its first entries; each look finds more of them gone."""

    def __init__(self, *firsts: int) -> None:
        self.firsts = list(firsts)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def bounds(self) -> tuple[int, int]:
        return (self.firsts.pop(0) if len(self.firsts) > 1 else self.firsts[0]), 1000


def test_a_server_takes_a_snapshot_that_reaches_the_log_even_when_that_was_cut_again(
    origin: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (index,) = SnapshotFolder(origin / "snapshots").indexes()
    asked: list[int] = []

    async def fetch(at_least: int) -> int:
        asked.append(at_least)
        return index - 1 if len(asked) == 1 else unpack(pack(origin), target, at_least)

    log = cast("Log", CutLog(index, index + 1))
    run(fetch_missing(log, target, fetch, accepts_loss=False))
    assert asked == [index - 1, index]
    assert SnapshotFolder(target / "snapshots").indexes() == [index]


def spoilt(packed: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    result = packed.with_name("spoilt.tar")
    with tarfile.open(packed) as source, tarfile.open(result, "w") as target:
        for part in source:
            file = source.extractfile(part)
            assert file is not None
            name, data = change(part.name, file.read())
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            target.addfile(entry, io.BytesIO(data))
    return result


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda name, data: (name, data if name.endswith(("json", "db")) else data[:-1] + b"?"), "hash|damaged|differ"),
        (lambda name, data: (f"../{name}", data), "unexpected content"),
        (lambda name, data: ("/etc/passwd", data), "unexpected content"),
    ],
)
def test_what_is_damaged_or_not_meant_replaces_nothing(
    change: Callable[[str, bytes], tuple[str, bytes]], says: str, origin: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "archive.db").write_bytes(b"mine")
    with pytest.raises(NothingToHandOver, match=says):
        unpack(spoilt(pack(origin), change), target)
    assert (target / "archive.db").read_bytes() == b"mine"
    assert [path.name for path in target.iterdir()] == ["archive.db"]


def test_half_of_it_is_refused(origin: Path, tmp_path: Path) -> None:
    packed, target = pack(origin), tmp_path / "target"
    target.mkdir()
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(NothingToHandOver):
        unpack(packed, target)
    assert list(target.iterdir()) == []
