"""The node's images: fetched once, verified, and read only by those who may."""

import fcntl
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lattice.agent.images.cache import CacheFull, FetchStopped, ImageCache, WrongDigest
from lattice.agent.images.sources import Reader, SourceFailed
from lattice.ports.nodes.images import ImageOrder

OWN = Reader(name="me", uid=os.getuid(), gid=os.getgid())
NOBODY = Reader(name="stranger", uid=65534, gid=65534)
BYTES = b"an image" * 1000
ENDED = 1 << 30  # no process has this number


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    made = ImageCache(tmp_path / "cache", min_free=0)
    made.prepare()
    return made


def order(path: Path, data: bytes = BYTES, *, by_user: bool = False, write: bool = True) -> ImageOrder:
    if write:
        path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return ImageOrder(reference="x/1:v1", digest=digest, source=str(path), size=len(data), by_user=by_user)


def test_image_is_fetched_once_and_kept(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    path = cache.obtain(image, OWN)
    assert path.read_bytes() == BYTES
    assert path.stat().st_mode & 0o777 == 0o400
    (tmp_path / "image").unlink()
    assert cache.obtain(image, OWN) == path
    assert cache.entries()[image.digest].reference == "x/1:v1"


def test_many_who_wait_for_an_image_share_one_fetch(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "pipe", write=False)
    os.mkfifo(tmp_path / "pipe")  # can be read only once
    with ThreadPoolExecutor(9) as pool:
        waiting = [pool.submit(cache.obtain, image, OWN) for _ in range(8)]
        (tmp_path / "pipe").write_bytes(BYTES)
        assert {each.result().read_bytes() for each in waiting} == {BYTES}


def test_an_image_that_a_process_serves_is_in_use_and_stays(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    path = cache.obtain(image, OWN)
    assert cache.in_use() == set()
    with open(path, "rb") as served:
        fcntl.flock(served, fcntl.LOCK_SH)
        assert cache.in_use() == {image.digest}
        assert cache.evict(image.digest) == "work uses it"
    assert cache.in_use() == set()
    assert cache.evict(image.digest) == ""


def test_other_bytes_are_refused_and_nothing_is_left(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    (tmp_path / "image").write_bytes(b"other")
    with pytest.raises(WrongDigest, match="the registry has other bytes now"):
        cache.obtain(image, OWN)
    assert os.listdir(tmp_path / "cache" / "uenv") == []


def test_image_that_decayed_is_fetched_again_after_a_reboot(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    path = cache.obtain(image, OWN)
    path.chmod(0o600)
    decayed, about = bytes(len(BYTES)), path.stat()
    path.write_bytes(decayed)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert cache.obtain(image, OWN).read_bytes() == decayed  # verified in this boot, and nobody wrote to it
    cache._boot_id = "the next one"
    assert cache.obtain(image, OWN).read_bytes() == BYTES


def test_image_that_was_written_to_in_the_cache_is_fetched_again(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    path = cache.obtain(image, OWN)
    path.chmod(0o600)
    about = path.stat()
    path.write_bytes(bytes(len(BYTES)))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1_000_000_000))
    assert cache.obtain(image, OWN).read_bytes() == BYTES


@pytest.mark.root
def test_file_of_another_user_is_not_read_for_a_user_who_may_not(cache: ImageCache, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    image = order(tmp_path / "image", by_user=True)
    (tmp_path / "image").chmod(0o600)
    with pytest.raises(SourceFailed, match=r"cannot read .* as stranger on this node: Permission denied"):
        cache.obtain(image, NOBODY)
    assert os.listdir(tmp_path / "cache" / "uenv") == []
    cache.obtain(image, OWN)
    # It is in the cache now, and still not theirs: neither by its own path nor by another one.
    with pytest.raises(SourceFailed, match="Permission denied"):
        cache.obtain(image, NOBODY)
    (tmp_path / "theirs").write_bytes(b"something else")
    claimed = ImageOrder(reference="x", digest=image.digest, source=str(tmp_path / "theirs"), by_user=True)
    with pytest.raises(WrongDigest, match="it was changed since"):
        cache.obtain(claimed, NOBODY)
    (tmp_path / "image").chmod(0o644)
    assert cache.obtain(image, NOBODY).read_bytes() == BYTES


def test_missing_file_is_named_with_the_user(cache: ImageCache, tmp_path: Path) -> None:
    image = order(tmp_path / "none", by_user=True, write=False)
    with pytest.raises(SourceFailed, match=r"none as me on this node: No such file"):
        cache.obtain(image, OWN)
    with pytest.raises(SourceFailed, match=r"none: No such file"):
        cache.obtain(order(tmp_path / "none", write=False), OWN)


def test_image_that_does_not_fit_is_refused_before_it_is_fetched(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "cache", min_free=1 << 60)
    cache.prepare()
    with pytest.raises(CacheFull, match="no room for x/1:v1"):
        cache.obtain(order(tmp_path / "image"), OWN)
    assert os.listdir(tmp_path / "cache" / "uenv") == []


def test_fetch_that_nobody_wants_any_more_stops(cache: ImageCache, tmp_path: Path) -> None:
    with pytest.raises(FetchStopped):
        cache.obtain(order(tmp_path / "image"), OWN, lambda: True)
    assert os.listdir(tmp_path / "cache" / "uenv") == []


def test_rest_of_a_fetch_that_died_is_removed_and_a_living_one_is_spared(cache: ImageCache, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "uenv"
    (folder / "dead.part").write_bytes(b"half")
    (folder / f"dead.json.{ENDED}.1").write_bytes(b"half")
    (folder / f"dead.json.{os.getpid()}.1").write_bytes(b"of an agent that still writes it")
    begun, go = threading.Event(), threading.Event()
    image = order(tmp_path / "image")

    def hold(*_: int) -> None:
        begun.set()
        go.wait()

    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(cache.obtain, image, OWN, lambda: False, hold)
        begun.wait()
        ImageCache(tmp_path / "cache").prepare()
        assert [path.name for path in folder.glob("*.part")] == [f"{image.digest}.part"]
        assert [path.name for path in folder.glob("dead.json.*")] == [f"dead.json.{os.getpid()}.1"]
        go.set()
        assert fetched.result().read_bytes() == BYTES
