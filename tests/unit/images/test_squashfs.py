"""Metadata read out of real images, and out of damaged ones without harm."""

import json
import random
import struct
import subprocess
from pathlib import Path

import pytest

from lattice.images.metadata import read_metadata
from lattice.images.squashfs import BadImage, SquashfsReader
from tests.conftest import require_program


def image_of(folder: Path, path: Path, *options: str) -> bytes:
    require_program("mksquashfs")
    command = ["mksquashfs", str(folder), str(path), "-noappend", "-quiet", "-no-progress", "-all-root", *options]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_bytes()


def reader(data: bytes) -> SquashfsReader:
    return SquashfsReader(lambda offset, size: data[offset : offset + size])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    (made / "meta").mkdir(parents=True)
    (made / "bin").mkdir()
    for number in range(600):
        (made / "bin" / f"program-{number}").write_text(f"{number}" * number)
    (made / "meta" / "env.json").write_text(json.dumps({"mount": "/user-environment", "views": {}}))
    (made / "meta" / "large").write_bytes(random.Random(1).randbytes(300_000))
    (made / "meta" / "empty").write_bytes(b"")
    (made / "meta" / "holes").write_bytes(bytes(200_000))
    return made


@pytest.mark.parametrize(
    "options",
    [
        ["-comp", "zstd"],
        ["-comp", "xz"],
        ["-comp", "gzip"],
        ["-no-fragments"],
        ["-noI", "-noD", "-noF"],
        ["-b", "4096"],
    ],
    ids=" ".join,
)
def test_files_are_read_as_they_were_packed(folder: Path, tmp_path: Path, options: list[str]) -> None:
    found = reader(image_of(folder, tmp_path / "image", *options))
    for path in sorted((folder / "meta").iterdir()):
        assert found.read(f"meta/{path.name}") == path.read_bytes(), path.name
    assert found.read("bin/program-599") == (folder / "bin" / "program-599").read_bytes()
    for missing in ("meta/none", "none/env.json", "meta", "meta/env.json/x"):
        assert found.read(missing) is None


def test_metadata_of_a_compression_that_is_not_read_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadImage, match="lz4 compression is not supported"):
        reader(image_of(folder, tmp_path / "image", "-comp", "lz4")).read("meta/env.json")


def test_large_file_is_no_metadata(folder: Path, tmp_path: Path) -> None:
    found = reader(image_of(folder, tmp_path / "image"))
    with pytest.raises(BadImage, match="too large for metadata"):
        found.read("meta/large", most=1000)


@pytest.mark.parametrize("data", [b"", b"hsqs", b"\x7fELF" + bytes(200), b"hsqs" + bytes(92)])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(BadImage):
        reader(data)


def test_damage_anywhere_is_an_error_or_nothing_and_never_more(folder: Path, tmp_path: Path) -> None:
    whole = image_of(folder, tmp_path / "image")
    chance = random.Random(7)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 8, 64))):
            place = chance.choice((chance.randrange(96), chance.randrange(len(whole))))
            damaged[place] = chance.randrange(256)
        cut = bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
        try:
            read_metadata(lambda offset, size, cut=cut: cut[offset : offset + size])  # type: ignore[misc]
        except BadImage:
            continue


def test_table_in_tiny_blocks_is_not_followed() -> None:
    """Only the last block of a table may be short; a million blocks of one byte are an attack."""
    head = struct.pack(
        "<4sIIIIHHHHHHQQQQQQQQ", b"hsqs", 1, 0, 4096, 0, 1, 12, 0, 1, 4, 0, 0xFFFF, 96, 0, 0, 96, 96, 96, 0
    )
    reads = []

    def read_at(offset: int, size: int) -> bytes:
        reads.append(offset)
        return head if offset == 0 else (b"\x01\x80" if size == 2 else bytes(size))

    with pytest.raises(BadImage, match="ends too early"):
        SquashfsReader(read_at).read("meta/env.json")
    assert len(reads) < 10
