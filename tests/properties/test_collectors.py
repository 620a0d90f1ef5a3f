"""Shares of collectors: balanced, complete, stable, and nobody moves without need."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model.nodes.collectors import DIRECTLY, depth_of, levels, may_bring, shares

COLLECTORS = [f"c{number}" for number in range(12)]
NODES = [f"n{number}" for number in range(60)]

some_collectors = st.lists(st.sampled_from(COLLECTORS), unique=True, max_size=12)
some_nodes = st.lists(st.sampled_from(NODES), unique=True, max_size=60)
earlier = st.dictionaries(st.sampled_from(NODES), st.sampled_from([*COLLECTORS, DIRECTLY, "gone"]))


@given(some_collectors, some_nodes, earlier)
def test_every_node_has_one_collector_and_shares_differ_by_one_at_most(
    collectors: list[str], nodes: list[str], previous: dict[str, str]
) -> None:
    given_to = shares(collectors, nodes, previous)
    assert sorted(given_to) == sorted(nodes)
    assert given_to == shares(collectors, nodes, previous)
    sizes = Counter(given_to.values())
    if collectors:
        assert set(sizes) <= set(collectors)
        assert max(sizes[c] for c in collectors) - min(sizes[c] for c in collectors) <= 1
    else:
        assert set(given_to.values()) <= {DIRECTLY}


@given(some_collectors.filter(bool), some_nodes, earlier)
def test_no_balanced_division_moves_fewer_nodes(
    collectors: list[str], nodes: list[str], previous: dict[str, str]
) -> None:
    given_to = shares(collectors, nodes, previous)
    stayed = sum(given_to[node] == previous.get(node) for node in nodes)
    # The most that may stay: every share filled with its own, the larger shares for whoever has most.
    own = sorted((sum(previous.get(node) == c for node in nodes) for c in collectors), reverse=True)
    least, larger = divmod(len(nodes), len(collectors))
    assert stayed == sum(min(count, least + (place < larger)) for place, count in enumerate(own))


@given(some_collectors.filter(lambda some: len(some) > 1), some_nodes)
def test_the_nodes_of_a_lost_collector_alone_move_when_it_dies_and_a_share_comes_back_with_it(
    collectors: list[str], nodes: list[str]
) -> None:
    first = shares(collectors, nodes, {})
    lost = collectors[0]
    second = shares(collectors[1:], nodes, first)
    assert all(second[node] == first[node] for node in nodes if first[node] != lost)
    third = shares(collectors, nodes, second)
    share = sum(collector == lost for collector in third.values())
    assert share in (len(nodes) // len(collectors), len(nodes) // len(collectors) + 1)
    assert sum(third[node] != second[node] for node in nodes) == share


@given(some_collectors, st.integers(1, 4), st.dictionaries(st.sampled_from(COLLECTORS), st.sampled_from(COLLECTORS)))
def test_levels_are_a_tree_in_which_nobody_has_more_below_than_the_limit(
    collectors: list[str], fan_out: int, previous: dict[str, str]
) -> None:
    above = levels(collectors, fan_out, previous)
    assert sorted(above) == sorted(collectors)
    below = Counter(above.values())
    assert all(count <= fan_out for count in below.values())
    for name in collectors:
        assert depth_of(name, above) <= len(collectors)
        assert may_bring(name, name, above)
        parent = above[name]
        assert not parent or may_bring(parent, name, above)
        assert not parent or not may_bring(name, parent, above)


@given(some_collectors, st.integers(1, 4))
def test_levels_stay_as_they_are_when_nothing_changes(collectors: list[str], fan_out: int) -> None:
    first = levels(collectors, fan_out, {})
    assert levels(collectors, fan_out, first) == first


@given(some_collectors.filter(lambda some: len(some) > 3))
def test_a_lower_collector_takes_the_place_of_a_lost_higher_one(collectors: list[str]) -> None:
    first = levels(collectors, 2, {})
    left = [name for name in collectors if name != collectors[0]]
    second = levels(left, 2, first)
    assert second[collectors[1]] == DIRECTLY
    assert sum(parent == DIRECTLY for parent in second.values()) == 2
