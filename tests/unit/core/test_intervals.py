"""Intervals of positions behave as the sets that they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model import intervals
from lattice.core.model.intervals import Intervals

POSITIONS = st.sets(st.integers(0, 30))


@given(POSITIONS, POSITIONS)
def test_operations_are_those_of_sets(left: set[int], right: set[int]) -> None:
    a, b = intervals.from_positions(left), intervals.from_positions(right)
    assert set(intervals.positions(intervals.union(a, b))) == left | right
    assert set(intervals.positions(intervals.intersection(a, b))) == left & right
    assert set(intervals.positions(intervals.difference(a, b))) == left - right
    assert intervals.count(a) == len(left)
    assert {position for position in range(-1, 32) if intervals.contains(a, position)} == left


@given(POSITIONS, POSITIONS)
def test_equal_sets_are_equal_tuples(left: set[int], right: set[int]) -> None:
    a, b = intervals.from_positions(left), intervals.from_positions(right)
    assert intervals.union(intervals.difference(a, b), intervals.intersection(a, b)) == a


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [(((0, 2), (2, 4)), ((0, 4),)), (((0, 5), (1, 2)), ((0, 5),)), ((), ())],
)
def test_pieces_that_touch_are_joined(pieces: Intervals, joined: Intervals) -> None:
    assert intervals.union(pieces, ()) == joined
