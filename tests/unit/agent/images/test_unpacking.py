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
from lattice.agent.images.sources import FetchStopped, Reader, read_pieces
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.images import ImageOrder
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


def described(name: str, **headers: str) -> tarfile.TarInfo:
    """An entry that says more of itself than is true."""
    info = tarfile.TarInfo(name)
    info.pax_headers = {key.replace("_", "."): value for key, value in headers.items()}
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
        (layer([], [described("a", size="-5")]), "damaged"),
        (layer([], [described("a", mtime="inf")]), "damaged"),
        (layer([("n" * 256, b"")]), "name that is too long"),
        (layer([("a", f"-> {'x' * 5000}")]), "leads nowhere, or is too long"),
    ],
    ids=[
        *("path out", "device", "link out", "link to nothing", "no archive", "no tar inside", "cut off"),
        *("negative size", "endless time", "long name", "long link"),
    ],
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


def test_sparse_file_of_any_size_is_refused_when_it_was_written_for_long(
    cache: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lattice.agent.images.unpacking.SPARE", 16 << 20)
    size = str(1 << 45)
    hole = described("s", GNU_sparse_size=size, GNU_sparse_numblocks="1", GNU_sparse_map=f"{(1 << 45) - 1},0")
    with pytest.raises(BadImage, match="made to fill the disk"):
        cache.obtain(order(tmp_path / "oci", layer([], [hole])), ME)


def test_names_that_would_fill_the_memory_are_refused_over_all_layers(
    cache: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lattice.agent.images.unpacking.MAX_MEMBERS", 3)
    two = [layer([(f"a{place}", b""), (f"b{place}", b"")]) for place in range(2)]
    with pytest.raises(BadImage, match="more than 3 files"):
        cache.obtain(order(tmp_path / "oci", *two), ME)
    monkeypatch.setattr("lattice.agent.images.unpacking.MAX_NAMES", 2)
    with pytest.raises(BadImage, match="more than 2 characters"):
        cache.obtain(order(tmp_path / "other", layer([("abc", b"")])), ME)


def test_fifo_instead_of_a_blob_is_refused_at_once(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "oci", layer([("a", b"a")]))
    blob = tmp_path / "oci" / "blobs" / "sha256" / image.digest
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(SourceFailed, match="not a regular file"):
        cache.obtain(image, ME)


def test_source_that_never_answers_is_left_when_the_run_is_gone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    image = ImageOrder(reference="x", digest="0" * 64, source=str(tmp_path / "fifo"), by_user=True)
    with pytest.raises(FetchStopped):
        list(read_pieces(image, ME, lambda: True))


def test_image_whose_layer_is_a_squashfs_file_is_taken_as_it_is(cache: ImageCache, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "tool").write_text("x")
    subprocess.run(["mksquashfs", tmp_path / "files", tmp_path / "image", "-quiet"], check=True, capture_output=True)
    data = (tmp_path / "image").read_bytes()
    digest = make_layout(tmp_path / "oci", [data], layer_type="application/x-squashfs")
    image = ImageOrder(reference="x", digest=digest, source=str(tmp_path / "oci"), by_user=True, kind="oci")
    assert cache.obtain(image, ME).read_bytes() == data
    assert cache.unpacked(digest).content == hashlib.sha256(data).hexdigest()


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
