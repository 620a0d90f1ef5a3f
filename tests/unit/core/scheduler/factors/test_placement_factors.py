"""Factors that look at the machine: topology, conformance, backlog."""

import pytest

from lattice.core.model.nodes.fitness import GpuFitness
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.factors.test_row_factors import values
from tests.unit.core.scheduler.world import World


def grouped(world: World, sizes: dict[str, int], **hardware: object) -> None:
    for group, size in sizes.items():
        for index in range(size):
            world.add_node(f"{group}n{index}", group=group, **hardware)  # type: ignore[arg-type]


def test_one_node_and_one_group_fit_perfectly() -> None:
    world = World()
    grouped(world, {"a": 4, "b": 2})
    for nodes in (1, 2, 4):
        world.submit(Request(nodes=nodes))
    assert values(world.snapshot(), "topology") == [1.0, 1.0, 1.0]


def test_each_further_group_costs() -> None:
    world = World()
    grouped(world, {"a": 4, "b": 3, "c": 2, "d": 1})
    for nodes in (5, 8, 10):
        world.submit(Request(nodes=nodes))
    expected = [0.7 * (1 - groups / 4) + 0.3 for groups in (2, 3, 4)]
    assert values(world.snapshot(), "topology") == pytest.approx(expected)


def test_a_congested_network_takes_from_work_in_several_groups() -> None:
    world = World()
    grouped(world, {"a": 4, "b": 3, "c": 2})
    for nodes in (1, 4, 6):
        world.submit(Request(nodes=nodes))
    calm = values(world.snapshot(), "topology")
    world.cycle.signals = Signals(congestion=0.4)
    assert values(world.snapshot(), "topology") == pytest.approx([1.0, 1.0, (calm[2] - 0.3) * 0.8 + 0.3])


def test_work_that_leaves_its_gpus_idle_counts_less_for_where_it_lies() -> None:
    world = World()
    grouped(world, {"a": 4}, gpus=4, gpu_type="A100")
    numbers = [world.submit(Request(gpus=4)) for _ in range(5)]
    assert values(world.snapshot(), "topology") == [1.0] * 5
    uses = dict(zip(numbers, (0.0, 0.2, 0.5, 1.0), strict=False))
    world.cycle.signals = Signals(gpu_use=uses)
    assert values(world.snapshot(), "topology") == pytest.approx([0.5, 0.7, 1.0, 1.0, 1.0])


def test_only_nodes_that_suit_the_request_count() -> None:
    world = World()
    grouped(world, {"a": 4})
    grouped(world, {"b": 1, "c": 1}, gpus=4, gpu_type="GH200")
    world.submit(Request(nodes=2, gpu_type="GH200"))
    assert values(world.snapshot(), "topology") == pytest.approx([0.3])


def test_with_too_few_free_nodes_all_in_service_are_looked_at() -> None:
    world = World()
    grouped(world, {"a": 3, "b": 2})
    busy = world.submit(Request(nodes=2))
    world.place(busy, "an0", "an1")
    world.submit(Request(nodes=3))
    assert values(world.snapshot(), "topology") == pytest.approx([0.3])
    other = world.submit(Request(nodes=1))
    world.place(other, "bn0")
    assert values(world.snapshot(), "topology") == [1.0]


def test_gpus_that_are_far_apart_inside_a_node_fit_less() -> None:
    world = World()
    grouped(world, {"a": 2}, gpus=4, gpu_type="A100")
    grouped(world, {"b": 1}, gpus=4, gpu_type="H100")
    known = {
        ("A100", 2): GpuFitness(),
        ("A100", 4): GpuFitness(0.5, 0.5),
        ("H100", 4): GpuFitness(0.8, 0.8),
    }
    for request in (
        Request(gpus=2, gpu_type="A100"),
        Request(gpus=4, gpu_type="A100"),
        Request(gpus=4),
        Request(gpus=3, gpu_type="A100"),
        Request(nodes=2, gpus=4, gpu_type="A100"),
        Request(),
    ):
        world.submit(request)
    assert values(world.snapshot(), "topology") == [1.0] * 6
    world.cycle.signals = Signals(gpu_fitness=known)
    assert values(world.snapshot(), "topology") == pytest.approx([1.0, 0.5, 0.8, 1.0, 0.7 + 0.3 * 0.5, 1.0])


def test_links_count_more_for_gpu_work_and_memory_for_work_with_many_cpus() -> None:
    world = World()
    grouped(world, {"a": 1}, gpus=2, gpu_type="A100", cpus=64)
    for cpus in (0, 2, 32, 33):
        world.submit(Request(gpus=2, cpus=cpus))
    world.cycle.signals = Signals(gpu_fitness={("A100", 2): GpuFitness(links=1.0, memory=0.0)})
    assert values(world.snapshot(), "topology") == pytest.approx([0.5, 0.7, 0.7, 0.3])


def test_nodes_of_one_configuration_make_conformance() -> None:
    world = World()
    world.add_nodes([f"n{index}" for index in range(6)])
    for nodes in (1, 2, 4, 6):
        world.submit(Request(nodes=nodes))
    fingerprints = {"n0": "x", "n1": "x", "n2": "x", "n3": "y", "n4": "y"}
    world.cycle.signals = Signals(fingerprints=fingerprints)
    snapshot = world.snapshot()
    assert snapshot.nodes.conformance.tolist() == [0, 0, 0, 1, 1, -1]
    assert values(snapshot, "conformance") == [1.0, 1.0, 0.75, 0.5]


def test_nodes_of_unknown_configuration_are_alike_to_nobody() -> None:
    world = World()
    world.add_nodes(["n1", "n2", "n3", "n4"])
    world.submit(Request(nodes=1))
    world.submit(Request(nodes=4))
    world.cycle.signals = Signals(fingerprints={"n1": "x"})
    assert values(world.snapshot(), "conformance") == [1.0, 0.25]


def test_a_vcluster_whose_nodes_told_nothing_is_not_ordered_by_conformance() -> None:
    world = World()
    world.add_nodes(["n1", "n2", "n3", "n4"])
    world.set_vcluster("quiet", nodes=("n3", "n4"))
    world.submit(Request(nodes=2), vcluster="quiet")
    assert values(world.snapshot(), "conformance") == [1.0]
    world.submit(Request(nodes=2))
    world.cycle.signals = Signals(fingerprints={"n1": "x"})
    assert values(world.snapshot(), "conformance") == [1.0, 0.5]


def test_backlog_is_what_waits_against_what_runs_in_gpu_hours() -> None:
    world = World()
    world.add_node("n1", gpus=4)
    running = world.submit(Request(gpus=4), walltime_s=8 * 3600)
    world.place(running, "n1")
    world.submit(Request(gpus=2), walltime_s=4 * 3600)
    world.submit(Request(gpus=1), walltime_s=8 * 3600)
    assert values(world.snapshot(), "backlog") == [0.5, 0.5]


def test_backlog_counts_node_hours_where_there_are_no_gpus() -> None:
    world = World()
    world.add_nodes(["n1", "n2"])
    running = world.submit(Request(nodes=2), walltime_s=4 * 3600)
    world.place(running, "n1", "n2")
    world.submit(walltime_s=2 * 3600)
    assert values(world.snapshot(), "backlog") == [0.25]
    for _ in range(20):
        world.submit(walltime_s=2 * 3600)
    assert set(values(world.snapshot(), "backlog")) == {1.0}


def test_backlog_is_full_when_nothing_runs() -> None:
    world = World()
    world.submit()
    assert values(world.snapshot(), "backlog") == [1.0]
