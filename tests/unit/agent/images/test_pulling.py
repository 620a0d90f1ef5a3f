"""Images of a registry on their way to a node: resumed, bounded, verified, and fetched once for all who wait."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lattice.agent.images.cache import CacheFull, ImageCache, WrongDigest
from lattice.agent.images.fetching import ImageFetcher, amounts
from lattice.agent.images.pulling import TRIES, Pull
from lattice.agent.images.sources import FetchStopped, Reader
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable
from lattice.ports.nodes.images import ImageOrder
from tests.conftest import require_program
from tests.oci_files import layer, make_layout

ME = Reader(name="me", uid=os.getuid(), gid=os.getgid())
DATA = bytes(range(256)) * 40
DIGEST = hashlib.sha256(DATA).hexdigest()


class Shaky:
    """A registry that gives a few bytes at a time and then fails, as often as `failures` says; `wait` is called before each piece."""

    def __init__(self, blobs: dict[str, bytes], failures: int = 0, piece: int = 1000) -> None:
        self.blobs = blobs
        self.failures = failures
        self.piece = piece
        self.asked: list[tuple[str, int]] = []
        self.wait: Callable[[], object] = lambda: None

    def read(self, url: str, offset: int = 0) -> Iterator[bytes]:
        self.asked.append((url, offset))
        data = self.blobs.get(url.rsplit("/", 1)[-1].removeprefix("sha256:"))
        if data is None:
            raise BlobRefused("it is not here")
        for begin in range(offset, len(data), self.piece):
            self.wait()
            yield data[begin : begin + self.piece]
            if self.failures:
                self.failures -= 1
                raise BlobUnavailable("it broke off")


def fetch(source: Shaky, path: Path, digest: str = DIGEST, size: int = len(DATA)) -> list[int]:
    counted: list[int] = []
    Pull(source, lambda: False, first_pause_s=0.0).fetch("http://r/x/" + digest, digest, size, path, counted.append)
    return counted


def order(digest: str = DIGEST, kind: str = "", size: int = len(DATA)) -> ImageOrder:
    return ImageOrder(
        reference=f"r/x:v1@sha256:{digest}", digest=digest, source=f"http://r/x/{digest}", kind=kind, size=size
    )


def test_blob_that_breaks_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source = Shaky({DIGEST: DATA}, failures=9)
    assert sum(fetch(source, tmp_path / "blob")) == len(DATA)
    assert (tmp_path / "blob").read_bytes() == DATA
    assert [offset for _, offset in source.asked] == [1000 * place for place in range(10)]


def test_what_has_come_is_kept_for_the_next_fetch(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(DATA[:5000])
    source = Shaky({DIGEST: DATA})
    assert fetch(source, tmp_path / "blob")[0] == 5000
    assert source.asked[0][1] == 5000


def test_registry_that_never_gives_a_byte_is_left_after_some_tries(tmp_path: Path) -> None:
    class Dead(Shaky):
        def read(self, url: str, offset: int = 0) -> Iterator[bytes]:
            self.asked.append((url, offset))
            raise BlobUnavailable("it does not answer")

    source = Dead({})
    with pytest.raises(BlobUnavailable, match="does not answer"):
        fetch(source, tmp_path / "blob")
    assert len(source.asked) == TRIES


def test_blob_that_is_gone_is_asked_for_once(tmp_path: Path) -> None:
    source = Shaky({})
    with pytest.raises(BlobRefused):
        fetch(source, tmp_path / "blob")
    assert len(source.asked) == 1


@pytest.mark.parametrize(
    ("data", "why"), [(DATA[:-1] + b"x", "other bytes"), (DATA + b"x", "larger than it should be")]
)
def test_other_bytes_and_more_bytes_are_refused_and_removed(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(BadImage, match=why):
        fetch(Shaky({DIGEST: data}), tmp_path / "blob")
    assert not (tmp_path / "blob").exists()


def test_pull_that_nobody_wants_any_more_stops(tmp_path: Path) -> None:
    with pytest.raises(FetchStopped):
        Pull(Shaky({DIGEST: DATA}), lambda: True).fetch(
            "u/" + DIGEST, DIGEST, len(DATA), tmp_path / "blob", lambda _: None
        )


def made(tmp_path: Path, source: Shaky | None) -> ImageCache:
    cache = ImageCache(tmp_path / "cache", min_free=0, remote=source)
    cache.prepare()
    return cache


def test_cache_takes_a_squashfs_file_of_a_registry_once(tmp_path: Path) -> None:
    source = Shaky({DIGEST: DATA})
    cache = made(tmp_path, source)
    for _ in range(2):
        assert cache.obtain(order(), ME).read_bytes() == DATA
    assert len(source.asked) == 1
    assert sorted(path.suffix for path in (tmp_path / "cache" / "uenv").iterdir()) == [".json", ".squashfs"]
    source.blobs["0" * 64] = DATA
    with pytest.raises(WrongDigest, match="larger"):
        cache.obtain(order("0" * 64, size=1), ME)


def test_cache_unpacks_an_image_of_a_registry_and_resumes_its_layers(tmp_path: Path) -> None:
    require_program("mksquashfs")
    digest = make_layout(tmp_path / "oci", [layer([("a", os.urandom(9000))])], env={"A": "1"})
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "oci" / "blobs" / "sha256").iterdir()}
    largest = max(blobs, key=lambda name: len(blobs[name]))
    source = Shaky({name: data for name, data in blobs.items() if name != largest})
    cache = made(tmp_path, source)
    image = ImageOrder(reference="r/x:v1", digest=digest, source="http://r/v2/x", kind="oci")
    with pytest.raises(BlobRefused):
        cache.obtain(image, ME)
    folder = tmp_path / "cache" / "uenv"
    assert list(folder.iterdir()) == []
    source.blobs = blobs
    (folder / f"{digest}.unpack").mkdir()
    (folder / f"{digest}.unpack" / largest).write_bytes(blobs[largest][:4000])
    path = cache.obtain(image, ME)
    assert path.read_bytes()[:4] == b"hsqs"
    assert cache.unpacked(digest).env == (("A", "1"),)
    assert ("http://r/v2/x/blobs/sha256:" + largest, 4000) in source.asked
    assert ("http://r/v2/x/manifests/sha256:" + digest, 0) in source.asked
    assert sorted(path.suffix for path in (tmp_path / "cache" / "uenv").iterdir()) == [".json", ".squashfs"]


def test_node_without_registries_says_so(tmp_path: Path) -> None:
    with pytest.raises(BlobUnavailable, match="takes no images from registries"):
        made(tmp_path, None).obtain(order(), ME)


def test_all_who_wait_hear_how_far_it_is_and_share_one_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lattice.agent.images.fetching.SAY_EVERY_S", 0.01)
    source, go = Shaky({DIGEST: DATA}), threading.Event()
    source.wait = lambda: fetcher._running[DIGEST].done > 0 and go.wait()
    fetcher = ImageFetcher(made(tmp_path, source))
    said: list[set[str]] = [set() for _ in range(20)]  # more than there are threads

    def hear(heard: set[str], text: str) -> bool:
        if text:
            heard.add(text)
        return True

    async def work() -> None:
        waiting = [asyncio.create_task(fetcher.obtain(order(), ME, partial(hear, each))) for each in said]
        while not all(said):  # noqa: ASYNC110 - other tasks fill them
            await asyncio.sleep(0.01)
        go.set()
        assert {path.read_bytes() for path in await asyncio.gather(*waiting)} == {DATA}

    asyncio.run(work())
    assert all("pulling r/x:v1: 1.0 of 10.2 kB" in each for each in said)
    assert len(source.asked) == 1


def test_pull_that_stalls_ends_and_one_that_is_cancelled_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lattice.agent.images.fetching.SAY_EVERY_S", 0.01)
    source, go = Shaky({DIGEST: DATA}), threading.Event()
    source.wait = go.wait
    fetcher = ImageFetcher(made(tmp_path, source), stalled_after_s=0.05)
    with pytest.raises(CacheFull, match="did not get any further"):
        asyncio.run(fetcher.obtain(order(), ME))
    go.set()
    assert asyncio.run(fetcher.obtain(order(), ME)).read_bytes() == DATA


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [(3_100_000_000, 12_000_000_000, "3.1 of 12.0 GB"), (5_000_000, 0, "5.0 MB"), (10, 2000, "0.0 of 2.0 kB")],
)
def test_amounts_are_in_one_unit(done: int, total: int, text: str) -> None:
    assert amounts(done, total) == text


def test_pull_ends_when_the_work_is_not_wanted_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lattice.agent.images.fetching.SAY_EVERY_S", 0.01)
    source, go = Shaky({DIGEST: DATA}), threading.Event()
    source.wait = go.wait
    fetcher = ImageFetcher(made(tmp_path, source))
    with pytest.raises(FetchStopped):
        asyncio.run(fetcher.obtain(order(), ME, lambda _: False))
    go.set()
