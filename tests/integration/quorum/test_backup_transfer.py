"""Backups that are fetched from another server: resumed where a connection broke off, bounded, verified, hostile senders refused."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord
from lattice.ports.quorum.peers import PeerLost, PeerRefused
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup import transfer
from lattice.quorum.backup.service import BackupService
from lattice.quorum.backup.transfer import Pace, Pieces, receive
from tests.integration.quorum.test_backup import backed_up, server_at, step_service_of
from tests.unit.quorum.world import founded, run

FAST = Pace(again_after_s=0.0, room_bytes=0)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    run(backed_up(folder / "data", folder / "backup"))
    return folder / "backup"


class Sender:
    """The other server. Each answer ends with PeerLost after `answers` bytes of it, as often as there are figures."""

    def __init__(self, path: Path, *answers: int) -> None:
        self._path = path
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def pieces(self, name: str, offset: int) -> AsyncIterator[bytes]:
        self.asked.append((name, offset))
        left = self._answers.pop(0) if self._answers and name == backup.ARCHIVE else None
        async for piece in transfer.send(self._path, name, offset):
            if left is not None and len(piece) > left:
                yield piece[:left]
                raise PeerLost("the connection broke")
            yield piece


def telling(path: Path, **files: bytes) -> Pieces:
    """A sender with other contents in the place of some files."""

    async def pieces(name: str, offset: int) -> AsyncIterator[bytes]:
        if name in files:
            yield files[name][offset:]
            return
        async for piece in transfer.send(path, name, offset):
            yield piece

    return pieces


def retold(path: Path, change: Callable[[dict[str, Any]], None]) -> Pieces:
    manifest = msgspec.json.decode((path / backup.MANIFEST).read_bytes())
    change(manifest)
    data = msgspec.json.encode(manifest)
    files = {backup.MANIFEST: data, backup.MANIFEST_HASH: hashlib.sha256(data).hexdigest().encode()}
    return telling(path, **files)


def fetch(folder: Path, pieces: Pieces, pace: Pace = FAST, name: str = "copy") -> Path:
    return asyncio.run(asyncio.wait_for(receive(folder, name, pieces, pace), 60))[0]


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_copy_is_complete_private_and_goes_on_where_the_connection_broke(original: Path, tmp_path: Path) -> None:
    sender = Sender(original, 100, 0, 50)
    copy = fetch(tmp_path / "here", sender.pieces)
    assert backup.verify(copy) == backup.verify(original)
    assert [offset for name, offset in sender.asked if name == backup.ARCHIVE] == [0, 100, 100, 150]
    assert {path.stat().st_mode & 0o077 for path in (copy, *copy.rglob("*"))} == {0}
    assert left_in(tmp_path / "here") == ["copy"]


def test_what_has_arrived_is_kept_for_the_next_request(original: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="breaks off at byte 100: the connection broke"):
        fetch(tmp_path, Sender(original, 100, 0, 0, 0, 0, 0).pieces)
    assert left_in(tmp_path) == [".copy.fetched"]
    again = Sender(original)
    fetch(tmp_path, again.pieces)
    assert [offset for name, offset in again.asked if name == backup.ARCHIVE] == [100]
    # A second request finds it there; what another attempt left behind is removed by the next one.
    (tmp_path / ".other.fetched").mkdir()
    assert fetch(tmp_path, again.pieces) == tmp_path / "copy"
    assert left_in(tmp_path) == ["copy"]


def test_another_backup_of_that_name_is_not_replaced(original: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "link").symlink_to(original)
    for name in ("copy", "link"):
        with pytest.raises(BackupError, match=r"is another backup|a backup\?"):
            fetch(tmp_path, Sender(original).pieces, name=name)
    assert left_in(tmp_path) == ["copy", "link"]


@pytest.mark.parametrize("name", ["..", ".", "", "a/", ".hidden", "a\0b", "a b", "\u00e4", "-x", "x" * 300, "a\n"])
def test_a_hostile_name_of_a_backup_is_refused(name: str) -> None:
    with pytest.raises(BackupError, match="its name is not made of"):
        transfer.name_of(f"/backups/{name}")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "manifest.json",
        "snapshots/../../x",
        "snapshots/1/../x",
        "archive.db\0",
        "a/b",
    ],
)
def test_a_hostile_name_in_a_manifest_is_refused(original: Path, tmp_path: Path, name: str) -> None:
    def rename(manifest: dict[str, Any]) -> None:
        manifest["files"][0]["name"] = name

    with pytest.raises(BackupError, match="invalid file name"):
        fetch(tmp_path / "here", retold(original, rename))
    assert left_in(tmp_path / "here") == []
    assert left_in(tmp_path) == ["here"]


def doubled(manifest: dict[str, Any]) -> None:
    manifest["files"].append(manifest["files"][0])


def crowded(manifest: dict[str, Any]) -> None:
    one = manifest["files"][0]
    manifest["files"] = [{**one, "name": f"snapshots/1/{number}"} for number in range(transfer.MAX_FILES + 1)]


def huge(manifest: dict[str, Any]) -> None:
    manifest["files"][0]["size_bytes"] = 1 << 60


def short(manifest: dict[str, Any]) -> None:
    manifest["files"][-1]["size_bytes"] -= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (doubled, "one of them twice"),
        (crowded, "too many files"),
        (huge, "there is no room for it"),
        (short, "larger than its manifest says"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(
    original: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    with pytest.raises(BackupError, match=words):
        fetch(tmp_path, retold(original, change))
    assert not (tmp_path / "copy").exists()


def test_other_bytes_than_the_manifest_says_are_thrown_away(original: Path, tmp_path: Path) -> None:
    spoiled = bytearray((original / backup.ARCHIVE).read_bytes())
    spoiled[-1] ^= 1
    with pytest.raises(BackupError, match=r"archive\.db is damaged"):
        fetch(tmp_path, telling(original, **{backup.ARCHIVE: bytes(spoiled)}))
    with pytest.raises(BackupError, match="is damaged"):
        fetch(tmp_path, telling(original, **{backup.MANIFEST_HASH: b"0" * 64}))
    with pytest.raises(BackupError, match="too large"):
        fetch(tmp_path, telling(original, **{backup.MANIFEST_HASH: b"0" * 5000}))
    assert left_in(tmp_path) == []


def test_a_disk_that_would_be_full_afterwards_is_left_alone(original: Path, tmp_path: Path) -> None:
    class Disk:
        total, free = 1 << 40, 1000

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: Disk)
        with pytest.raises(BackupError, match="1000 are free"):
            fetch(tmp_path, Sender(original).pieces)
    assert left_in(tmp_path) == []


def test_a_refusal_is_not_asked_again(tmp_path: Path, original: Path) -> None:
    asked = []

    async def refusing(name: str, offset: int) -> AsyncIterator[bytes]:
        asked.append(name)
        if name not in (backup.MANIFEST, backup.MANIFEST_HASH):
            raise PeerRefused("it is no backup any more")
        async for piece in transfer.send(original, name, offset):
            yield piece

    with pytest.raises(BackupError, match="no backup any more"):
        fetch(tmp_path, refusing)
    assert len(asked) == 3


def test_the_copy_keeps_its_pace(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    size = backup.read_manifest(original).size_bytes
    fetch(tmp_path, Sender(original).pieces, Pace(bytes_per_s=size / 1000, room_bytes=0))
    assert max(waited) == pytest.approx(1000, rel=0.1)


def test_a_server_sends_only_files_of_the_backups_in_its_folder(original: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        data = tmp_path / "data"
        async with founded(server_at(data)) as replica:
            service = step_service_of(replica, data)
            await check(service, await service.create(""))

    async def check(service: BackupService, made: BackupRecord) -> None:
        async def sent(path: str, name: str, offset: int = 0) -> bytes:
            return b"".join([piece async for piece in service.pieces(path, name, offset)])

        whole = (Path(made.path) / backup.ARCHIVE).read_bytes()
        assert await sent(made.path, backup.ARCHIVE, 10) == whole[10:]
        assert await sent(made.path, backup.ARCHIVE, 1 << 40) == b""
        for path in (
            str(original),
            "/etc",
            "",
            str(tmp_path / "data" / "backups"),
            f"{made.path}/.",
            f"{made.path}/../{original.name}",
        ):
            with pytest.raises(BackupMissing, match="is no backup in"):
                await sent(path, backup.MANIFEST)
        for name in ("../../data/log.db", "/etc/passwd", "", "snapshots", "log.db"):
            with pytest.raises(BackupError, match="is no file of"):
                await sent(made.path, name)
        (Path(made.path) / backup.ARCHIVE).unlink()
        (Path(made.path) / backup.ARCHIVE).symlink_to("/etc/passwd")
        with pytest.raises(BackupError, match="is a link"):
            await sent(made.path, backup.ARCHIVE)

    run(scenario())
