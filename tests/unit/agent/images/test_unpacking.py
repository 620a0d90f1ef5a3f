"""An OCI image as it comes into the cache: unpacked once, and refused where it was made to harm."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from lattice.agent.images.cache import ImageCache, SourceFailed
from lattice.agent.images.sources import Reader
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.agents import ImageOrder
from tests.conftest import require_program
from tests.oci_files import layer, make_layout

ME = Reader(name="me", uid=os.getuid(), gid=os.getgid())


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    require_program("mksquashfs")
    cache = ImageCache(tmp_path / "cache", min_free=0)
    cache.prepare()
    return cache


def order(folder: Path, *layers: bytes, **options: str) -> ImageOrder:
    digest = make_layout(folder, layers, env=options)
    return ImageOrder(reference=f"oci:{folder}:v1", digest=digest, source=str(folder), by_user=True, kind="oci")


def listing(image: Path) -> str:
    return subprocess.run(["unsquashfs", "-lls", image], check=True, capture_output=True, text=True).stdout


def device(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.devmajor, info.devminor = tarfile.CHRTYPE, 1, 3
    return info


def test_layers_become_one_file_with_owner_root(cache: ImageCache, tmp_path: Path) -> None:
    low = layer(
        [("bin", None), ("bin/a", b"a"), ("bin/hard", "=> bin/a"), ("bin/b", b"b"), ("etc/passwd", b"x:x:1:1::/:/x\n")]
    )
    image = order(tmp_path / "oci", low, layer([("bin/.wh.a", b""), ("bin/b", b"new"), ("bin/c", "-> b")]), A="1")
    path = cache.obtain(image, ME)
    seen = [
        line.split()[-1] if "->" not in line else line.split("squashfs-root")[1] for line in listing(path).splitlines()
    ]
    assert any(each.endswith("bin/hard") for each in seen)
    assert not any(each.endswith("bin/a") for each in seen)
    assert "-> b" in listing(path)
    about = cache.unpacked(image.digest)
    assert (about.env, about.passwd) == ((("A", "1"),), "x:x:1:1::/:/x\n")
    assert about.content == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sorted(each.suffix for each in path.parent.iterdir()) == [".json", ".squashfs"]


def test_image_is_unpacked_once_and_again_when_its_file_was_damaged(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "oci", layer([("a", b"a")]))
    path = cache.obtain(image, ME)
    first = path.stat().st_ino
    assert cache.obtain(image, ME).stat().st_ino == first
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    other_boot = ImageCache(tmp_path / "cache", min_free=0)
    other_boot._boot_id = "another"
    assert "squashfs-root" in listing(other_boot.obtain(image, ME))


def test_digest_alone_does_not_give_the_image_to_others(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "oci", layer([("a", b"a")]))
    cache.obtain(image, ME)
    with pytest.raises(SourceFailed, match="cannot read"):
        cache.obtain(ImageOrder(reference="x", digest=image.digest, source="/nowhere", by_user=True, kind="oci"), ME)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (layer([("../../etc/evil", b"x")]), "leads out of the image"),
        (layer([], [device("dev/null")]), "holds the device"),
        (layer([("a", "=> ../../../etc/shadow")]), "leads out of the image"),
        (layer([("a", "=> nowhere")]), "does not hold"),
        (b"no archive at all", "damaged"),
        (gzip.compress(b"x" * 1000), "damaged"),
        (layer([("a", b"a" * 5000)])[:60], "damaged"),
    ],
    ids=["path out", "device", "link out", "link to nothing", "no archive", "no tar inside", "cut off"],
)
def test_hostile_layer_is_refused_and_nothing_is_left(cache: ImageCache, tmp_path: Path, data: bytes, why: str) -> None:
    image = order(tmp_path / "oci", data)
    with pytest.raises(BadImage, match=why):
        cache.obtain(image, ME)
    assert list((tmp_path / "cache" / "uenv").iterdir()) == []


def test_layer_that_unpacks_without_end_is_refused(
    cache: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lattice.agent.images.unpacking.SPARE", 1 << 20)
    image = order(tmp_path / "oci", layer([("zeros", bytes(64 << 20))]))
    with pytest.raises(BadImage, match="made to fill the disk"):
        cache.obtain(image, ME)


def test_header_that_would_fill_the_memory_is_refused(cache: ImageCache, tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    data = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with pytest.raises(BadImage, match="header that is too large"):
        cache.obtain(order(tmp_path / "oci", data), ME)


def test_blob_with_other_bytes_is_refused(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "oci", layer([("a", b"a")]))
    largest = max((tmp_path / "oci" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"x")
    with pytest.raises(BadImage, match="other bytes than its name says"):
        cache.obtain(image, ME)


def test_owners_and_set_id_bits_are_dropped(cache: ImageCache, tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        info = tarfile.TarInfo("su")
        info.mode, info.uid, info.size = 0o4755, 1234, 1
        archive.addfile(info, io.BytesIO(b"x"))
    said = listing(cache.obtain(order(tmp_path / "oci", data.getvalue()), ME))
    assert "-rwxr-xr-x root/root" in said
