"""Which CPUs and GPUs the tasks of a step have."""

import pytest

from lattice.core.model.nodes.memory import MemoryDomain, MemoryTopology
from lattice.core.model.work.binding import BadBinding, bind_cpus, bind_gpus, check_cpu_binding, parse_map

TWO = MemoryTopology(
    domains=(
        MemoryDomain(id=0, attached_cpus=(0, 1, 2, 3), attached_gpus=(0, 1)),
        MemoryDomain(id=1, attached_cpus=(4, 5, 6, 7), attached_gpus=(2, 3)),
    )
)
ALL = tuple(range(8))


def test_tasks_get_cpus_of_their_own_each_in_one_memory_domain() -> None:
    assert bind_cpus("cores", TWO, ALL, (), 2, 3) == [(0, 1, 2), (4, 5, 6)]
    assert bind_cpus("", TWO, ALL, (), 4, 1) == [(0,), (1,), (2,), (3,)]
    assert bind_cpus("cores", TWO, ALL, (0, 1, 2, 3), 2, 2) == [(4, 5), (6, 7)]


def test_numa_gives_a_task_all_of_the_allocation_in_its_domain() -> None:
    assert bind_cpus("numa", TWO, (0, 1, 4, 5, 6), (), 2, 2) == [(0, 1), (4, 5, 6)]


def test_without_a_kind_a_single_task_is_free_and_too_many_are_not_bound() -> None:
    assert bind_cpus("", TWO, ALL, (), 1, 1) == [()]
    assert bind_cpus("", TWO, ALL, (), 1, 4) == [(0, 1, 2, 3)]
    assert bind_cpus("", TWO, (0, 1), (), 3, 1) == [(), (), ()]
    assert bind_cpus("", TWO, (), (), 3, 1) == [(), (), ()]
    assert bind_cpus("none", TWO, ALL, (), 2, 1) == [(), ()]


def test_what_cannot_be_bound_says_why() -> None:
    with pytest.raises(BadBinding, match="3 CPUs are needed to bind the tasks, 2 are free here: use fewer tasks"):
        bind_cpus("cores", TWO, (0, 1), (), 3, 1)
    with pytest.raises(BadBinding, match=r"does not say which CPUs.*use --cpu-bind none"):
        bind_cpus("cores", TWO, (), (), 1, 1)
    with pytest.raises(BadBinding, match="CPU 5 of the map is not one of the allocation's on this node: use 0,1, or"):
        bind_cpus("map:0,5", TWO, (0, 1), (), 2, 1)


def test_a_map_is_used_in_turn() -> None:
    assert parse_map("map:0,2,4-6") == (0, 2, 4, 5, 6)
    assert bind_cpus("map:1,3", TWO, ALL, (), 3, 1) == [(1,), (3,), (1,)]


@pytest.mark.parametrize(
    "kind", ["map:", "map:x", "map:3-1", "map:0-99999", "map:70000", "sockets", "map:1,,2", "map:-1"]
)
def test_bindings_that_do_not_exist_are_refused(kind: str) -> None:
    with pytest.raises(BadBinding, match=": use "):
        check_cpu_binding(kind)


def test_gpus_of_a_task_are_those_nearest_to_its_cpus() -> None:
    cpus = [(4, 5), (0, 1)]
    assert bind_gpus("", TWO, (0, 1, 2, 3), cpus, 2) == [(2, 3), (0, 1)]
    assert bind_gpus("none", TWO, (0, 1, 2, 3), cpus, 1) == [(0,), (1,)]
    assert bind_gpus("closest", TWO, (0, 2, 3), cpus, 0) == [(2, 3), (0,)]
    assert bind_gpus("closest", TWO, (0,), cpus, 0) == [None, (0,)]
    assert bind_gpus("", TWO, (0, 1), cpus, 0) == [None, None]
    with pytest.raises(
        BadBinding, match="2 tasks with 2 GPUs each do not fit: the allocation has 3 on this node: use fewer"
    ):
        bind_gpus("", TWO, (0, 1, 2), cpus, 2)
