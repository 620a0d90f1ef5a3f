"""Of nodes that fit equally well, those with the better free GPUs are taken, then those that have the images; nothing else changes."""

from collections.abc import Mapping

import pytest

from lattice.core.model.nodes.at_hand import GpuSets
from lattice.core.model.nodes.gpus import GpuSet
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import World, nodes_of

IMAGE, OTHER = 17, 18
UENV = ("uenv",)
FAST = (GpuSet(near=1, nics=1), GpuSet(gbps=450, near=2, nics=1))
SLOW = (GpuSet(near=1, nics=1), GpuSet(gbps=32, near=2, nics=1))
FAR = (GpuSet(), GpuSet(gbps=450))
SPREAD = (GpuSet(near=1, nics=1), GpuSet(gbps=450, near=2, nics=2))


def machine(sharing: NodeSharing = NodeSharing.SHARED, *, gpus: int = 0, groups: Mapping[str, str] = {}) -> World:
    world = World(sharing)
    for node in ("n1", "n2", "n3", "n4"):
        world.add_node(
            node, gpus=gpus, gpu_type="H100" if gpus else "", features=(*UENV, "container"), group=groups.get(node, "")
        )
    return world


def told(sets: Mapping[str, tuple[GpuSet, ...]]) -> GpuSets:
    """What the nodes said, by node."""
    kinds = tuple(dict.fromkeys(sets.values()))
    return GpuSets(kinds=kinds, by_node={node: kinds.index(each) for node, each in sets.items()})


def cached(world: World, number: int, **nodes: tuple[int, ...]) -> None:
    """The work brings both images; by node those that it has."""
    having = {key: frozenset(node for node, keys in nodes.items() if key in keys) for key in (IMAGE, OTHER)}
    world.cycle.signals = Signals(images={number: (IMAGE, OTHER)}, cached=having)


@pytest.mark.parametrize("sharing", list(NodeSharing))
@pytest.mark.parametrize("topology", ["", "any"])
def test_work_goes_to_the_node_that_has_most_of_its_images(sharing: NodeSharing, topology: str) -> None:
    world = machine(sharing)
    number = world.submit(Request(cpus=1, features=UENV, topology=topology))
    cached(world, number, n2=(OTHER,), n3=(IMAGE, OTHER), n4=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n3",)


@pytest.mark.parametrize("sharing", list(NodeSharing))
def test_work_on_several_nodes_takes_those_that_have_its_image_first(sharing: NodeSharing) -> None:
    world = machine(sharing)
    number = world.submit(Request(nodes=2, cpus=1, features=UENV))
    cached(world, number, n2=(IMAGE,), n4=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n2", "n4")
    cached(world, number, n4=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n1", "n4")


def test_of_groups_that_fit_equally_well_the_one_with_more_images_is_taken() -> None:
    groups = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    world = machine(NodeSharing.EXCLUSIVE, groups=groups)
    number = world.submit(Request(nodes=2, features=UENV))
    cached(world, number, n1=(IMAGE,), n3=(IMAGE,), n4=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n3", "n4")


def test_a_group_that_fits_better_is_taken_without_the_image() -> None:
    groups = {"n1": "a", "n2": "b", "n3": "b", "n4": "b"}
    world = machine(NodeSharing.EXCLUSIVE, groups=groups)
    number = world.submit(Request(features=UENV))
    cached(world, number, n3=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n1",)


def test_a_node_that_fits_better_is_taken_without_the_image() -> None:
    world = machine()
    first = world.submit(Request(cpus=2))
    world.run_cycle()
    number = world.submit(Request(cpus=2, features=UENV))
    cached(world, number, n3=(IMAGE, OTHER))
    assert nodes_of(world.plan())[number] == world.state.allocations[first].nodes == ("n1",)


def test_an_explanation_says_how_many_suitable_nodes_have_the_images() -> None:
    world = machine(NodeSharing.EXCLUSIVE)
    world.submit(Request(nodes=4))
    world.run_cycle()
    number, other = world.submit(Request(features=UENV, exclude=("n4",))), world.submit()
    cached(world, number, n2=(IMAGE, OTHER), n3=(IMAGE,), n4=(IMAGE, OTHER))
    made = world.plan()
    said = [made.explain(each) for each in (number, other)]
    assert [each and each.images for each in said] == ["in the cache of 1 of 3 suitable nodes", ""]


def test_tasks_of_a_group_have_the_images_of_the_group() -> None:
    world = machine(NodeSharing.EXCLUSIVE)
    group = world.submit(Request(features=UENV), tasks=((0, 1, 1),))
    cached(world, group, n2=(IMAGE,), n4=(IMAGE,))
    assert nodes_of(world.plan()) == {group + 1: ("n2",), group + 2: ("n4",)}


def test_work_without_images_is_placed_by_id() -> None:
    world = machine()
    number, other = world.submit(Request(cpus=1)), world.submit(Request(cpus=1, features=UENV))
    cached(world, other, n3=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n1",)


def test_nobody_waits_for_a_node_with_the_image() -> None:
    world = machine(NodeSharing.EXCLUSIVE)
    busy = world.submit(Request(node_list=("n3",)))
    world.run_cycle()
    number = world.submit(Request(features=UENV))
    cached(world, number, n3=(IMAGE, OTHER))
    assert world.state.allocations[busy].nodes == ("n3",)
    assert nodes_of(world.plan())[number] == ("n1",)


@pytest.mark.parametrize(
    ("better", "worse", "count"),
    [
        (FAST, SLOW, 2),
        (FAST, FAR, 2),
        (FAST, FAR, 1),
        (FAST, SPREAD, 2),
        (SLOW, (GpuSet(), GpuSet()), 2),
        (FAST, (), 2),
    ],
)
def test_work_goes_to_the_node_whose_free_gpus_hold_the_better_set(
    better: tuple[GpuSet, ...], worse: tuple[GpuSet, ...], count: int
) -> None:
    world = machine(gpus=2)
    number = world.submit(Request(gpus=count))
    said = {"n1": worse, "n2": worse, "n3": better, "n4": worse}
    world.cycle.signals = Signals(gpu_sets=told({node: sets for node, sets in said.items() if sets}))
    assert nodes_of(world.plan())[number] == ("n3",)


def test_links_do_not_count_for_a_single_gpu() -> None:
    world = machine(gpus=2)
    number = world.submit(Request(gpus=1))
    world.cycle.signals = Signals(gpu_sets=told({"n1": SLOW, "n2": FAST}))
    assert nodes_of(world.plan())[number] == ("n1",)


def test_what_a_node_said_before_it_got_work_does_not_count() -> None:
    world = machine(gpus=4)
    for node in ("n1", "n2"):
        world.submit(Request(gpus=2, node_list=(node,)))
    world.run_cycle()
    number = world.submit(Request(gpus=2))
    before = (*FAST, GpuSet(gbps=450), GpuSet(gbps=450))
    world.cycle.signals = Signals(gpu_sets=told({"n1": before, "n2": SLOW}))
    assert nodes_of(world.plan())[number] == ("n2",)


def test_gpus_count_more_than_images() -> None:
    world = machine(gpus=2)
    number = world.submit(Request(gpus=2, features=UENV))
    sets = {"n1": SLOW, "n2": SLOW, "n3": FAST, "n4": FAST}
    world.cycle.signals = Signals(
        gpu_sets=told(sets), images={number: (IMAGE,)}, cached={IMAGE: frozenset({"n1", "n4"})}
    )
    assert nodes_of(world.plan())[number] == ("n4",)


def test_whole_nodes_are_chosen_by_their_gpus_where_work_asks_for_some() -> None:
    world = machine(NodeSharing.EXCLUSIVE, gpus=2)
    number = world.submit(Request(nodes=2, gpus=2))
    world.cycle.signals = Signals(gpu_sets=told({"n1": SLOW, "n2": FAST, "n3": SLOW, "n4": FAST}))
    assert nodes_of(world.plan())[number] == ("n2", "n4")


def test_nodes_that_are_new_to_the_tenant_are_chosen_by_their_images_too() -> None:
    world = machine()
    world.set_tenant(max_nodes=1)
    number = world.submit(Request(cpus=1, features=UENV))
    cached(world, number, n3=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n3",)


def test_an_image_that_comes_to_another_node_is_seen_by_the_next_plan() -> None:
    world = machine()
    number = world.submit(Request(cpus=1, features=UENV))
    cached(world, number, n2=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n2",)
    cached(world, number, n4=(IMAGE,))
    assert nodes_of(world.plan())[number] == ("n4",)
    cached(world, number, n9=(IMAGE,))  # one that is not there yet
    assert nodes_of(world.plan())[number] == ("n1",)


def test_those_that_bring_images_are_known_as_long_as_they_are_in_the_queue() -> None:
    world = machine(NodeSharing.EXCLUSIVE)
    numbers = [world.submit(Request(features=("container",))), world.submit(Request(features=UENV))]
    world.submit(Request())
    assert list(world.cycle.with_images()) == numbers
    world.run_cycle()
    assert world.cycle.with_images() == ()
