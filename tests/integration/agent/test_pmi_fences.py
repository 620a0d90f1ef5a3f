"""Fences over many nodes, a star and a tree of them: one process plays all nodes, over real connections."""

import pytest

from lattice.agent.shim.pmi.seal import Veil
from lattice.agent.shim.pmi.space import pack, unpack
from lattice.agent.shim.pmi.star import GIVE
from lattice.control.steps.wireup import STAR_NODES, choose_heads
from lattice.testing.fences import PlayedNodes

TREE = STAR_NODES + 22


def blobs(count: int, fence: int) -> list[bytes]:
    """A key of each node's own, and one that all of them put."""
    return [pack({f"{fence}.{place}": "v" * 64, "same": str(place)}) for place in range(count)]


@pytest.mark.parametrize(("count", "hidden"), [(5, False), (5, True), (TREE, False), (TREE, True)])
def test_all_nodes_get_what_all_gave_fence_after_fence(count: int, hidden: bool) -> None:
    with PlayedNodes(count, 2, hidden=hidden) as played:
        for fence in range(3):
            played.fence(blobs(count, fence))
            assert len({node.result for node in played.nodes}) == 1
            got = unpack(played.nodes[-1].result)
            assert len(got) == count + 1
            assert got["same"] == str(count - 1)  # of two nodes that put a key, the later one in the step wins


def test_no_node_of_a_large_step_serves_many() -> None:
    assert choose_heads(STAR_NODES) == ()
    for count in (STAR_NODES + 1, 1_000, 10_000):
        heads = choose_heads(count)
        ends = (*heads[1:], count)
        widest = max(end - head for head, end in zip(heads, ends, strict=True))
        assert heads[0] == 1
        assert max(len(heads), widest) <= 2 * count**0.5


def test_a_rank_that_does_not_come_is_named_across_the_tree() -> None:
    heads = choose_heads(TREE)
    with PlayedNodes(TREE, 2) as played:
        late, head = played.nodes[heads[3] + 2], played.nodes[heads[5]]
        late.absent = list(late.plan.node_ranks[late.plan.place])[1:]
        head.absent = list(head.plan.node_ranks[head.plan.place])
        late.exchange.met()  # its other rank is there
        with pytest.raises(TimeoutError):
            played.fence(blobs(TREE, 0), within_s=2.0)
        played.nodes[heads[3] + 1].exchange.late()  # its time is over first
        played.settle(30.0)
    first, second = late.absent[0], head.absent[0]
    assert {node.failure for node in played.nodes} == {
        f"PMI fence timeout: waited for rank {first} on {late.plan.node}, ranks {second}-{second + 1} on {head.plan.node}"
    }


@pytest.mark.parametrize(("count", "other"), [(3, 0), (3, 2), (TREE, TREE - 1)])
def test_nodes_that_speak_different_protocols_are_told_so(count: int, other: int) -> None:
    with PlayedNodes(count, 1) as played:
        played.fence(blobs(count, 0), lambda place: "pmi2" if place == other else "pmi1")
    (text,) = {node.failure for node in played.nodes}
    assert "PMI-1" in text
    assert "PMI-2" in text
    assert f"ranks on n{other} " in text
    assert "start all ranks with the same MPI library" in text


def test_what_is_hidden_cannot_be_read_and_never_looks_alike() -> None:
    veil, content = Veil(b"k" * 32), b"address of rank 7" * 10
    seen = {veil.turn(GIVE, place, number, content) for place in (1, 2) for number in (1, 2)}
    assert len(seen) == 4
    assert not any(b"address" in each for each in seen)
    assert veil.turn(GIVE, 1, 1, veil.turn(GIVE, 1, 1, content)) == content
    assert Veil(b"l" * 32).turn(GIVE, 1, 1, veil.turn(GIVE, 1, 1, content)) != content
    assert Veil(b"").turn(GIVE, 1, 1, content) == content
