"""Backups that somebody made by hand: links, pipes and figures that cannot be are refused at once, with words."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lattice.daemons.server.recovery import check
from lattice.ports.quorum.backups import BackupError
from lattice.quorum.backup import folder as backup
from tests.integration.quorum.test_backup import backed_up, server_at, step_service_of
from tests.unit.quorum.world import founded, run

QUICK_S = 5.0


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    run(backed_up(folder / "data", folder / "backup"))
    return folder / "backup"


@pytest.fixture
def copied(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def refused(path: Path, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(BackupError, match=words):
        check(None, path)
    assert time.monotonic() - began < QUICK_S


def retold(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The manifest says something else, and its hash fits."""
    manifest = msgspec.json.decode((folder / backup.MANIFEST).read_bytes())
    change(manifest)
    data = msgspec.json.encode(manifest)
    (folder / backup.MANIFEST).write_bytes(data)
    (folder / backup.MANIFEST_HASH).write_text(hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("name", [backup.MANIFEST, backup.MANIFEST_HASH, backup.ARCHIVE])
def test_a_pipe_or_a_link_in_the_place_of_a_file_is_refused(copied: Path, name: str, tmp_path: Path) -> None:
    shutil.move(copied / name, tmp_path / name)
    os.mkfifo(copied / name)
    refused(copied, "is not a plain file")
    (copied / name).unlink()
    (copied / name).symlink_to(tmp_path / name)
    refused(copied, "is a link")


def test_a_link_in_the_place_of_a_directory_is_refused(copied: Path, tmp_path: Path) -> None:
    shutil.move(copied / backup.SNAPSHOTS, tmp_path / "elsewhere")
    (copied / backup.SNAPSHOTS).symlink_to(tmp_path / "elsewhere")
    refused(copied, "is a link; backups must not contain links")
    (tmp_path / "latest").symlink_to(copied)
    refused(tmp_path / "latest", "is a link; name the directory itself")


def test_a_pipe_or_a_device_in_the_place_of_a_backup_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "neither a backup directory nor a packed snapshot")
    refused(Path("/dev/zero"), "neither a backup directory nor a packed snapshot")
    refused(tmp_path / "nothing", "No such file or directory")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda manifest: manifest.update(epoch=1 << 70), "cannot be read"),
        (lambda manifest: manifest.update(index=-1), "cannot be read"),
        (lambda manifest: manifest["files"][0].update(size_bytes=1 << 64), "cannot be read"),
        (lambda manifest: manifest["files"][0].update(name="a\0b"), "invalid file name"),
        (lambda manifest: manifest["files"][0].update(name="../../etc/passwd"), "invalid file name"),
        (lambda manifest: manifest["files"][0].update(name="/etc/passwd"), "invalid file name"),
        (lambda manifest: manifest.update(server="x" * 5000), "cannot be read"),
    ],
)
def test_a_manifest_that_says_what_cannot_be_is_refused(
    copied: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    retold(copied, change)
    refused(copied, words)


def test_a_chunk_outside_its_snapshot_is_not_read(copied: Path) -> None:
    (folder,) = (copied / backup.SNAPSHOTS).iterdir()
    inner = msgspec.json.decode((folder / "manifest.json").read_bytes())
    inner["chunks"][0]["name"] = "../../../pipe"
    data = msgspec.json.encode(inner)
    (folder / "manifest.json").write_bytes(data)

    def change(manifest: dict[str, Any]) -> None:
        for stored in manifest["files"]:
            if stored["name"].endswith("/manifest.json"):
                stored.update(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    retold(copied, change)
    os.mkfifo(copied.parent / "pipe")
    refused(copied, "not the name of a chunk")


def test_a_pipe_among_the_backups_of_a_server_does_not_hold_up_their_list(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def scenario() -> None:
        async with founded(server_at(data)) as replica:
            service = step_service_of(replica, data)
            made = await service.create("")
            (data / "backups" / "odd").mkdir()
            os.mkfifo(data / "backups" / "odd" / backup.MANIFEST)
            assert [each.path for each in await service.list()] == [made.path]
            with pytest.raises(BackupError, match="is not a plain file"):
                await service.verify("odd")

    run(scenario())
