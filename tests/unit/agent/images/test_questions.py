"""What a server asks about the images of a node: each question is answered with the cache as it is afterwards."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from lattice.agent.images.cache import ImageCache
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.images.mounting import REPORT, ImagesReport
from lattice.agent.images.questions import NO_CACHE, ImageQuestions
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.images import ImageOrder, ImagesAsk, MountedImage, NodeImagesTold, VariableChange
from lattice.testing import scenario
from lattice.wire.agents.messages import IMAGES_ASK, IMAGES_TOLD
from lattice.wire.pb import agent_pb2 as pb
from tests.unit.agent.images.test_cache import order


class Node:
    def __init__(self, folder: Path, *, has_cache: bool = True) -> None:
        self.cache = ImageCache(folder / "cache", min_free=0)
        self.cache.prepare()
        self.fetcher = ImageFetcher(self.cache)
        self.posted: asyncio.Queue[pb.AgentMessage] = asyncio.Queue()
        fetcher = self.fetcher if has_cache else None
        self.questions = ImageQuestions(fetcher, lambda key: folder / str(key.number), self.posted.put_nowait)

    async def ask(
        self, what: str, name: str = "", image: ImageOrder | None = None, key: RunKey | None = None
    ) -> NodeImagesTold:
        asked = IMAGES_ASK.write(ImagesAsk(what=what, name=name, image=image, key=key))
        asked.ticket = 7
        assert self.questions.received(pb.ServerMessage(ask_images=asked))
        answer = (await self.posted.get()).images_told
        assert answer.ticket == 7
        return IMAGES_TOLD.read(answer)

    async def warm(self, image: ImageOrder) -> NodeImagesTold:
        told = await self.ask("warm", image=image)
        while any(not each.error for each in told.coming):
            await asyncio.sleep(0)
            told = await self.ask("cache")
        return told


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@scenario
async def test_warming_brings_the_image_and_a_failure_is_told(node: Node, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    told = await node.warm(image)
    assert [(each.reference, each.digest, each.pinned) for each in told.images] == [("x/1:v1", image.digest, False)]
    assert told.used == image.size
    assert told.capacity > 0
    other = order(tmp_path / "other", b"other")
    (tmp_path / "other").unlink()
    failed = (await node.warm(other)).coming
    assert len(failed) == 1
    assert (failed[0].digest, bool(failed[0].error)) == (other.digest, True)
    (tmp_path / "other").write_bytes(b"other")
    assert (await node.warm(other)).coming == ()


@scenario
async def test_what_is_pinned_stays_until_it_is_unpinned(node: Node, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    await node.warm(image)
    assert (await node.ask("pin", "x/1:v1")).images[0].pinned
    refused = await node.ask("evict", image.digest[:12])
    assert refused.error == f"{image.digest[:12]} stays: it is pinned"
    assert len((await node.ask("evict")).images) == 1
    assert not (await node.ask("unpin", f"sha256:{image.digest}")).images[0].pinned
    looks: list[str] = []
    node.fetcher.on_change = lambda: looks.append("look")
    gone = await node.ask("evict", "x/1:v1")
    assert (gone.images, gone.error, looks) == ((), "", ["look"]), "servers hear of it at once"


@scenario
async def test_eviction_of_all_takes_what_nothing_uses(node: Node, tmp_path: Path) -> None:
    first, second = order(tmp_path / "a", b"a"), order(tmp_path / "b", b"b")
    await node.warm(first)
    await node.warm(second)
    ambiguous = await node.ask("pin", "x/1:v1")
    assert ambiguous.error == "x/1:v1 names 2 images of this node: write the digest"
    await node.ask("pin", first.digest)
    assert [each.digest for each in (await node.ask("evict")).images] == [first.digest]


@scenario
async def test_what_cannot_be_done_is_said(node: Node, tmp_path: Path) -> None:
    assert (await node.ask("evict", "nothing/1:v1")).error == "nothing/1:v1 is not in the cache of this node"
    assert (await node.ask("polish")).error == 'this node cannot do "polish" with images'
    own = order(tmp_path / "image", by_user=True)
    assert "cannot" in (await node.ask("warm", image=own)).error
    bare = Node(tmp_path / "bare", has_cache=False)
    assert await bare.ask("cache") == NodeImagesTold(error=NO_CACHE)
    assert not node.questions.received(pb.ServerMessage(measure=pb.Measure()))


@scenario
async def test_images_of_a_run_are_told_with_what_its_views_did(node: Node, tmp_path: Path) -> None:
    mounted = MountedImage(reference="x/1:v1", digest="d" * 64, mount="/user-environment", size=7, views=("default",))
    change = VariableChange(variable="PATH", operation="prepend", view="x/1:v1:default", value="p" * 5000)
    unset = VariableChange(variable="OLD", operation="unset", view="x/1:v1:default")
    (tmp_path / "17").mkdir()
    report = ImagesReport(images=(mounted,), changes=(change, unset))
    (tmp_path / "17" / REPORT).write_bytes(msgspec.json.encode(report))
    told = await node.ask("run", key=RunKey(17, 1))
    assert told.mounted == (mounted,)
    assert told.changes == (msgspec.structs.replace(change, value="p" * 4096), unset)
    assert await node.ask("run", key=RunKey(18, 1)) == NodeImagesTold()
