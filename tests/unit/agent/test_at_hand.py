"""What a node tells of its cache and its free GPUs: everything after a Welcome, and then what is new."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lattice.agent.at_hand import AtHandTeller
from lattice.agent.images.cache import ImageCache
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.runs.devices import DeviceTable, NodeTopology
from lattice.core.model.nodes.at_hand import MAX_IMAGES, AtHand, image_key
from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuSet, GpuTopology, GpuVendor
from lattice.core.model.site.protocols import AT_HAND as FEATURE
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.testing import scenario
from lattice.wire.agents.messages import AT_HAND
from lattice.wire.pb import agent_pb2 as pb
from tests.unit.agent.images.test_cache import OWN, order

GPUS = GpuTopology(
    gpus=tuple(GpuDevice(index=index, vendor=GpuVendor.NVIDIA) for index in range(3)),
    links=(GpuLink(gpu_a=0, gpu_b=1, bandwidth_gbps=450.0), GpuLink(gpu_a=1, gpu_b=2, bandwidth_gbps=32.0)),
    nic_affinity={0: "hsn0", 2: "hsn1"},
)
ALONE = GpuSet(near=1, nics=1)
ALL_FREE = (ALONE, GpuSet(gbps=450.0, near=1, nics=1), GpuSet(near=2, nics=2))


class Node:
    """A cache, three GPUs, and what was told."""

    def __init__(self, folder: Path, *, has_cache: bool = True, gpus: GpuTopology = GPUS) -> None:
        self.cache = ImageCache(folder / "cache", min_free=0)
        self.cache.prepare()
        self.fetcher = ImageFetcher(self.cache)
        self.devices = DeviceTable(8, 0, "", NodeTopology(gpus=gpus), frozenset())
        self.alive: set[RunKey] = set()
        self.posted: asyncio.Queue[pb.AgentMessage] = asyncio.Queue()
        self.now_s = 0.0
        self.teller = AtHandTeller(
            self.fetcher if has_cache else None,
            self.devices,
            self.alive.__contains__,
            self.posted.put_nowait,
            look_every_s=0.01,
            now_s=lambda: self.now_s,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Node"]:
        task = asyncio.create_task(self.teller.run())
        yield self
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def welcome(self, *features: str) -> None:
        self.teller.heard(pb.ServerMessage(welcome=pb.Welcome(protocol=pb.Protocol(features=features))))

    def start(self, number: int, gpus: int) -> None:
        key = RunKey(number, 1)
        self.alive.add(key)
        self.devices.assign(
            StartOrder(key=key, allocation_id="a1", user="me", cpus=1, gpus=gpus), self.alive.__contains__
        )
        self.teller.look()

    async def told(self) -> AtHand:
        return AT_HAND.read((await self.posted.get()).at_hand)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@scenario
async def test_every_welcome_is_answered_with_all_that_is_there(node: Node, tmp_path: Path) -> None:
    image = order(tmp_path / "image")
    node.cache.obtain(image, OWN)
    (tmp_path / "cache" / "uenv" / "strange.squashfs").touch()
    async with node.running():
        for _ in range(2):
            node.welcome(FEATURE)
            assert await node.told() == AtHand(images=(image_key(image.digest),), gpu_sets=ALL_FREE)
        assert node.posted.empty()


@scenario
async def test_a_server_that_does_not_know_what_to_do_with_it_is_told_nothing(node: Node) -> None:
    async with node.running():
        node.welcome("pings")
        node.start(1, 1)
        await asyncio.to_thread(node.cache.newest, 1)
        assert node.posted.empty()


@scenario
async def test_images_that_come_and_go_are_told_whoever_brings_them(node: Node, tmp_path: Path) -> None:
    async with node.running():
        node.welcome(FEATURE)
        assert (await node.told()).images == ()
        image = order(tmp_path / "image")
        await node.fetcher.obtain(image, OWN)
        assert (await node.told()).images == (image_key(image.digest),)
        other = order(tmp_path / "other", b"other")
        node.cache.obtain(other, OWN)  # as another agent with the same cache would
        assert set((await node.told()).images) == {image_key(image.digest), image_key(other.digest)}
        node.cache.evict(image.digest)
        assert (await node.told()).images == (image_key(other.digest),)


@scenario
async def test_free_gpus_are_told_when_runs_start_and_end(node: Node) -> None:
    async with node.running():
        node.welcome(FEATURE)
        assert (await node.told()).gpu_sets == ALL_FREE
        node.start(1, 2)
        assert (await node.told()).gpu_sets == (ALONE,)
        node.alive.clear()
        node.teller.look()
        assert (await node.told()).gpu_sets == ALL_FREE


@scenario
async def test_it_is_told_again_from_time_to_time(node: Node) -> None:
    async with node.running():
        node.welcome(FEATURE)
        told = await node.told()
        node.now_s = 1000.0
        assert await node.told() == told


@scenario
async def test_a_cache_that_cannot_be_read_has_no_images(node: Node, tmp_path: Path) -> None:
    (tmp_path / "cache" / "uenv").rename(tmp_path / "away")
    async with node.running():
        node.welcome(FEATURE)
        assert await node.told() == AtHand(gpu_sets=ALL_FREE)


@scenario
async def test_a_node_without_cache_and_gpus_has_nothing_to_tell(tmp_path: Path) -> None:
    node = Node(tmp_path, has_cache=False, gpus=GpuTopology())
    node.welcome(FEATURE)
    await node.teller.run()
    assert node.posted.empty()


def test_of_many_images_those_that_were_used_last_are_told(node: Node, tmp_path: Path) -> None:
    digests = []
    for number in range(MAX_IMAGES + 3):
        image = order(tmp_path / "image", str(number).encode())
        node.cache.obtain(image, OWN)
        digests.append(image.digest)
    assert set(node.cache.newest(MAX_IMAGES)) <= set(digests)
    for digest in digests[:3]:
        node.cache.pin(digest, pinned=True)
    assert set(digests[:3]) <= set(node.cache.newest(3))
