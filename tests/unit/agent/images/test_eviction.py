"""Which images make room for others, and which never do."""

import hashlib
import os
from pathlib import Path

import pytest

from lattice.agent.images.cache import CacheFull, ImageCache
from lattice.agent.images.eviction import Cached, Room, fits, to_evict
from lattice.agent.images.sources import Reader
from lattice.ports.nodes.images import ImageOrder

ME = Reader(name="me", uid=os.getuid(), gid=os.getgid())
AMPLE = 1 << 40


def test_nothing_is_removed_below_the_high_mark() -> None:
    images = {"a": Cached(500, 0.0), "b": Cached(300, 1.0)}
    assert to_evict(images, (), 100, Room(1000, AMPLE)) == []
    assert fits(images, 100, Room(1000, AMPLE))


def test_oldest_images_are_removed_down_to_the_low_mark() -> None:
    images = {
        "new": Cached(300, 9000.0),
        "old": Cached(300, 10.0),
        "older": Cached(300, 5.0),
        "middle": Cached(50, 900.0),
    }
    removed = to_evict(images, (), 10, Room(1000, AMPLE))
    assert "new" not in removed
    assert sum(each.size for name, each in images.items() if name not in removed) + 10 <= 700


def test_largest_goes_first_among_equally_old_ones() -> None:
    images = {"small": Cached(100, 10.0), "large": Cached(500, 20.0), "new": Cached(350, 9000.0)}
    assert to_evict(images, (), 10, Room(1000, AMPLE)) == ["large"]


def test_images_in_use_and_sticky_ones_stay() -> None:
    images = {"used": Cached(400, 1.0), "sticky": Cached(400, 2.0, is_sticky=True), "free": Cached(150, 9000.0)}
    assert to_evict(images, {"used"}, 100, Room(1000, AMPLE)) == ["free"]


def test_disk_that_is_filled_by_others_makes_room_too() -> None:
    images = {"a": Cached(100, 1.0), "b": Cached(100, 9000.0)}
    assert to_evict(images, (), 150, Room(AMPLE, 100)) == ["a"]


def order(folder: Path, name: str, size: int) -> ImageOrder:
    data = name.encode() * size
    (folder / name).write_bytes(data)
    return ImageOrder(reference=name, digest=hashlib.sha256(data).hexdigest(), source=str(folder / name), size=size)


def test_cache_removes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    now = 0.0
    cache = ImageCache(tmp_path / "cache", min_free=0, now_s=lambda: now, capacity=1000)
    cache.prepare()
    digests = {}
    for name in "abc":
        now += 1000.0
        image = order(tmp_path, name, 280)
        digests[name] = image.digest
        cache.obtain(image, ME)
    now += 1000.0
    cache.obtain(order(tmp_path, "a", 280), ME)
    now += 1000.0
    cache.obtain(order(tmp_path, "d", 280), ME)
    kept = cache.entries()
    assert digests["a"] in kept
    assert digests["b"] not in kept
    assert not list((tmp_path / "cache" / "uenv").glob(f"{digests['b']}*"))


def test_cache_full_of_images_that_must_stay_says_so(tmp_path: Path) -> None:
    now = 1000.0
    cache = ImageCache(tmp_path / "cache", min_free=0, now_s=lambda: now, capacity=1000)
    cache.prepare()
    first = order(tmp_path, "a", 800)
    cache.obtain(first, ME)
    with pytest.raises(
        CacheFull, match=r"no room for b on this node: 500 bytes.*1 of its images are in use or were just fetched"
    ):
        cache.obtain(order(tmp_path, "b", 500), ME)
    assert list(cache.entries()) == [first.digest]
    now += 10_000.0
    cache.obtain(order(tmp_path, "b", 500), ME)
    with pytest.raises(CacheFull, match="larger than the whole cache"):
        cache.obtain(order(tmp_path, "c", 2000), ME)
