"""Memory policies: the words of users, and which NUMA nodes of a node they mean."""

import pytest

from lattice.core.model.nodes.memory_policy import MemoryPolicy, chosen_nodes, read_policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("local", MemoryPolicy("local")),
        ("interleave", MemoryPolicy("interleave")),
        ("preferred", MemoryPolicy("preferred")),
        ("preferred:3", MemoryPolicy("preferred", (3,))),
        ("bind:0-1,3,1", MemoryPolicy("bind", (0, 1, 3))),
    ],
)
def test_policies_are_read(text: str, policy: MemoryPolicy) -> None:
    assert read_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("near", "is not a memory policy"),
        ("", "is not a memory policy"),
        ("local:0", "takes no NUMA nodes"),
        ("preferred:0,1", "takes one NUMA node"),
        ("bind:", "is not a NUMA node"),
        ("bind:1-0", "is not a NUMA node"),
        ("bind:-1", "is not a NUMA node"),
        ("bind:0-99999999999", "is not a NUMA node"),
        ("bind:\u0661", "is not a NUMA node"),
    ],
)
def test_what_means_nothing_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_policy(text)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("local", ()),
        ("interleave", (0, 1, 2)),
        ("preferred", (1,)),
        ("preferred:2", (2,)),
        ("bind", (1, 2)),
        ("bind:0,2", (0, 2)),
    ],
)
def test_without_a_number_they_mean_the_nodes_of_the_runs_cpus(text: str, nodes: tuple[int, ...]) -> None:
    assert chosen_nodes(read_policy(text), own=(1, 2), present=(0, 1, 2)) == nodes


def test_a_numa_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no NUMA node 3 on this node, only 0, 1"):
        chosen_nodes(read_policy("bind:0,3"), own=(), present=(0, 1))
