"""What views do to an environment."""

import pytest

from lattice.images.metadata import Operation, Patch, View
from lattice.images.patches import MAX_EXPANDED, MAX_WRITTEN, Change, apply_views
from lattice.images.references import BadReference


def lists(variable: str, operation: Operation, *values: str) -> Patch:
    return Patch(variable, operation, values, is_list=True)


def applied(environment: dict[str, str], *patches: Patch) -> dict[str, str]:
    return apply_views(environment, [("image:v", View("v", "", patches))])[0]


def test_lists_are_set_extended_at_both_ends_and_unset() -> None:
    before = {"P": "/old"}
    assert applied(before, lists("P", "prepend", "/a", "/b")) == {"P": "/a:/b:/old"}
    assert applied(before, lists("P", "append", "/a", "/b")) == {"P": "/old:/a:/b"}
    assert applied(before, lists("P", "set", "/a")) == {"P": "/a"}
    assert applied(before, lists("P", "unset")) == {}
    assert before == {"P": "/old"}


def test_list_that_was_empty_gets_no_empty_place() -> None:
    assert applied({"P": ""}, lists("P", "prepend", "/a")) == {"P": "/a"}
    assert applied({}, lists("P", "append", "/a")) == {"P": "/a"}


def test_scalars_see_what_was_done_before_them_and_are_expanded_once() -> None:
    after = applied(
        {"A": "${@B@}", "B": "b"}, Patch("C", "set", ("<${@A@}|${@NONE@}>",)), Patch("D", "set", ("${@C@}",))
    )
    assert (after["C"], after["D"]) == ("<${@B@}|>", "<${@B@}|>")


def test_every_change_is_told_with_the_view_that_made_it() -> None:
    first, second = View("v", "", (Patch("A", "set", ("1",)),)), View("w", "", (Patch("A", "unset"),))
    after, changes = apply_views({}, [("a:v", first), ("b:w", second)])
    assert after == {}
    assert changes == [Change("A", "set", "a:v", "1"), Change("A", "unset", "b:w", None)]


def test_what_lattice_says_to_a_process_cannot_be_changed_by_an_image() -> None:
    before = {"LATTICE_TOKEN_FILE": "/run/token"}
    assert applied(before, Patch("LATTICE_TOKEN_FILE", "set", ("/other",)), Patch("LATTICE_X", "set", ("1",))) == before


def test_value_that_repeats_another_too_often_is_refused_before_it_is_made() -> None:
    long = Patch("A", "set", ("x" * MAX_EXPANDED,))
    with pytest.raises(BadReference, match="makes B longer than"):
        applied({}, long, Patch("B", "set", ("${@A@}" * 20_000,)))
    with pytest.raises(BadReference, match="makes A longer than"):
        applied({}, long, lists("A", "append", "/a"))


def test_views_that_write_the_same_variables_again_and_again_are_refused() -> None:
    patches = [Patch("A", "set", ("x" * MAX_EXPANDED,))] * (MAX_WRITTEN // MAX_EXPANDED)
    assert applied({}, *patches)
    with pytest.raises(BadReference, match="write more than"):
        applied({}, *patches, *patches)
