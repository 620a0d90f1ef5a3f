"""The words and the algebra of dependencies."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model.ids import dag_id, parse_dag_id
from lattice.core.model.work.dags import DagState, end_state
from lattice.core.model.work.dependencies import (
    Condition,
    Dependency,
    Ending,
    find_cycle,
    index_at,
    position_in,
    waiting_sentence,
)


def test_what_is_waited_for_is_said_in_words() -> None:
    one, two = Dependency(number=1), Dependency(number=2, condition=Condition.FAILURE)
    assert waiting_sentence(()) == ""
    assert waiting_sentence(((one,),)) == "waiting for a1 to complete"
    assert waiting_sentence(((one, two),)) == "waiting for a1 to complete or a2 to fail"
    assert waiting_sentence(((one,), (two,))) == "waiting for a1 to complete, and for a2 to fail"
    assert waiting_sentence(((one,), ())) == "its dependency can never be satisfied"
    many = tuple((Dependency(number=number, condition=Condition.ANY),) for number in range(1, 9))
    assert waiting_sentence(many).endswith("and for a5 to end and 3 more")


def test_a_cycle_is_found_wherever_it_lies() -> None:
    assert find_cycle({"a": [], "b": ["a"], "c": ["a", "b"]}) == []
    assert find_cycle({"a": ["b"], "b": ["a"]}) == ["a", "b", "a"]
    assert find_cycle({"x": [], "a": ["x", "c"], "b": ["a"], "c": ["b"], "y": ["a"]}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({"a": ["elsewhere"]}) == []
    chain = {f"m{place}": [f"m{place - 1}"] if place else [] for place in range(5000)}
    assert find_cycle(chain) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("d17", 17), ("dag-17", 17), ("17", 17), ("a17", None), ("da17", None), ("d", None), ("", None), ("d0", None)],
)
def test_the_id_of_a_dag_is_read_in_each_of_its_forms(text: str, number: int | None) -> None:
    assert parse_dag_id(text) == number
    assert dag_id(17) == "d17"


def test_a_position_is_found_in_several_ranges() -> None:
    ranges = ((0, 4, 2), (10, 10, 1))
    assert [position_in(ranges, index) for index in (0, 1, 4, 10, 11)] == [0, None, 2, 3, None]


def test_a_dag_that_was_cancelled_after_all_had_run_is_judged_by_its_members() -> None:
    assert end_state({1: Ending.COMPLETED}, frozenset(), is_cancelled=True) is DagState.COMPLETED
    assert end_state({1: Ending.FAILED, 2: Ending.CANCELLED}, frozenset(), is_cancelled=True) is DagState.CANCELLED
    assert end_state({1: Ending.FAILED, 2: Ending.CANCELLED}, frozenset(), is_cancelled=False) is DagState.FAILED
    assert end_state({1: Ending.SKIPPED}, frozenset(), is_cancelled=False) is DagState.COMPLETED


_RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 5)), min_size=1, max_size=8)


@given(drawn=_RANGES)
def test_the_index_at_a_position_is_that_of_the_ranges_written_out(drawn: list[tuple[int, int, int]]) -> None:
    ranges = tuple((first, first + length, step) for first, length, step in drawn)
    written_out = list(chain.from_iterable(range(first, last + 1, step) for first, last, step in ranges))
    assert [index_at(ranges, position) for position in range(len(written_out))] == written_out
    for outside in (-1, len(written_out)):
        with pytest.raises(IndexError):
            index_at(ranges, outside)


def test_the_tasks_of_a_group_of_very_many_ranges_are_found_without_walking_through_them() -> None:
    ranges = tuple((2 * place, 2 * place, 1) for place in range(50_000))
    # Range by range this would be 1,250,000,000 steps.
    assert sum(index_at(ranges, position) for position in range(50_000)) == 50_000 * 49_999


def test_members_of_a_dag_are_waited_for_by_their_names() -> None:
    clauses = ((Dependency(number=1), Dependency(number=12, condition=Condition.FAILURE)), (Dependency(number=2),))
    sentence = waiting_sentence(clauses, {1: "prepare", 12: "mesh-a1"})
    assert sentence == "waiting for prepare to complete or mesh-a1 to fail, and for a2 to complete"
