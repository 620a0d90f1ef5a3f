"""What the leader knows of images and free GPUs on nodes: what each said last, and nothing after its stream was replaced."""

import pytest

from lattice.control.nodes import at_hand
from lattice.control.nodes.at_hand import NodesAtHand
from lattice.control.work.wanted_images import MAX_READ, Wanted, WantedImages
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.at_hand import AtHand, GpuSets, image_key
from lattice.core.model.nodes.gpus import GpuSet
from lattice.core.model.work.allocations import Request
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.testing import scenario
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.world import World

FAST = (GpuSet(near=1, nics=1), GpuSet(gbps=450, near=2, nics=1))
UENV, BOX = "a" * 64, "b" * 64


def nodes(*names: str) -> frozenset[str]:
    return frozenset(names)


def image(digest: str) -> ImageOrder:
    return ImageOrder(reference="x/1:v1", digest=digest, source="/x")


def test_the_last_word_of_a_node_counts() -> None:
    known = NodesAtHand()
    known.take("n1", AtHand(images=(1, 2)))
    known.take("n2", AtHand(images=(2,)))
    assert known.having(2) == {"n1", "n2"}
    before = (known.having(1), known.having(2))
    known.take("n1", AtHand(images=(2, 3)))
    assert [known.having(key) for key in (1, 2, 3)] == [nodes(), nodes("n1", "n2"), nodes("n1")]
    assert before == (nodes("n1"), nodes("n1", "n2")), "what a plan was given does not change under it"
    known.forget("n1")
    known.forget("n9")
    assert [known.having(key) for key in (2, 3)] == [nodes("n2"), nodes()]
    assert known.has_images()
    known.forget("n2")
    assert not known.has_images()


def test_the_same_object_is_given_as_long_as_nothing_changed() -> None:
    known = NodesAtHand()
    known.take("n1", AtHand(images=(1,), gpu_sets=FAST))
    images, sets = known.having(1), known.gpu_sets()
    known.take("n1", AtHand(images=(1,), gpu_sets=tuple(FAST)))
    assert known.having(1) is images
    assert known.gpu_sets() is sets
    known.take("n2", AtHand(gpu_sets=(GpuSet(near=1, nics=1), GpuSet(gbps=450, near=2, nics=1))))
    assert known.gpu_sets() == GpuSets(kinds=(FAST,), by_node={"n1": 0, "n2": 0}), "nodes that said the same are alike"
    assert "n2" not in sets.by_node


def test_gpus_of_which_nothing_is_known_are_not_kept() -> None:
    known = NodesAtHand()
    known.take("n1", AtHand(gpu_sets=FAST))
    known.take("n1", AtHand(gpu_sets=(GpuSet(), GpuSet())))
    assert known.gpu_sets().by_node == {}


def test_more_than_fits_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_hand, "MAX_ENTRIES", 3)
    known = NodesAtHand()
    known.take("n1", AtHand(images=(1, 2)))
    known.take("n2", AtHand(images=(1, 2)))
    assert [len(known.having(key)) for key in (1, 2)] == [2, 1]
    known.take("n1", AtHand())
    known.take("n2", AtHand(images=(1, 2)))
    assert [len(known.having(key)) for key in (1, 2)] == [1, 1]


def test_kinds_that_no_node_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_hand, "SPARE_KINDS", 2)
    known = NodesAtHand()
    known.take("n2", AtHand(gpu_sets=FAST))
    for width in range(1, 20):
        known.take("n1", AtHand(gpu_sets=(GpuSet(gbps=float(width)),)))
        sets = known.gpu_sets()
        assert [sets.kinds[sets.by_node[node]] for node in ("n1", "n2")] == [(GpuSet(gbps=float(width)),), FAST]
        assert len(sets.kinds) <= 6


class Waiting:
    """A queue, and two nodes that have something."""

    def __init__(self) -> None:
        self.world, self.at_hand = World(), NodesAtHand()
        self.wanted = WantedImages(self.world.replica, self.at_hand.having, self.at_hand.has_images)
        self.at_hand.take("n1", AtHand(images=(image_key(UENV),)))
        self.at_hand.take("n2", AtHand(images=(image_key(UENV), image_key(BOX))))

    async def submit(self, payload: bytes, **fields: object) -> int:
        more = {"tenant": "default", "vcluster": "default", "request": Request(), "payload": payload, **fields}
        command = SubmitAllocation(name="work", user="ada", account="ada", **more)  # type: ignore[arg-type]
        return (await self.world.do(command)).number


@scenario
async def test_images_of_work_are_found_with_the_nodes_that_have_them() -> None:
    waiting = Waiting()
    await waiting.world.prepare("n1", "n2")
    uenv = await waiting.submit(encode_work(Work(argv=("true",), images=(image(UENV), image("c" * 64)))))
    box = encode_work(Work(script="# " * 1000, container=ContainerOrder(image=image(BOX))))
    group = await waiting.submit(box, tasks=((0, 3, 1),))
    other = await waiting.submit(encode_work(Work(argv=("true",), images=(image("d" * 64),))))
    damaged, empty = await waiting.submit(b"\x28\xb5\x2f\xfd..."), await waiting.submit(b"")
    found = waiting.wanted.of((uenv, group, other, damaged, empty))
    assert found.images == {uenv: (image_key(UENV), image_key("c" * 64)), group: (image_key(BOX),)}
    assert found.cached == {image_key(UENV): {"n1", "n2"}, image_key(BOX): {"n2"}}
    assert waiting.wanted.of((uenv,)).images.keys() == {uenv}


@scenario
async def test_nothing_is_read_where_no_node_has_any_image() -> None:
    waiting = Waiting()
    await waiting.world.prepare("n1", "n2")
    number = await waiting.submit(encode_work(Work(images=(image(UENV),))))
    for node in ("n1", "n2"):
        waiting.at_hand.forget(node)
    assert waiting.wanted.of((number,)) == Wanted()


@scenario
async def test_a_long_queue_is_read_over_several_cycles() -> None:
    waiting = Waiting()
    await waiting.world.prepare("n1", "n2")
    number = await waiting.submit(encode_work(Work(images=(image(UENV),))))
    numbers = [*range(10_000, 10_000 + MAX_READ), number]
    assert waiting.wanted.of(numbers).images == {}
    assert waiting.wanted.of(numbers).images.keys() == {number}
