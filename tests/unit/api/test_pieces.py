"""Places in output, whole characters, cursors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.api.errors import ApiError
from lattice.api.find.cursors import make_cursor, read_cursor
from lattice.api.running.output import whole_characters
from lattice.api.running.output_follow import Place
from lattice.wire.text.problems import BadField


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 200))
def test_text_is_cut_between_characters(text: str, cut: int) -> None:
    data = text.encode()[:cut]
    whole = whole_characters(data)
    data[:whole].decode()
    assert len(data) - whole < 4


@given(st.binary(max_size=64))
def test_at_most_three_bytes_wait_for_the_next_piece(data: bytes) -> None:
    assert 0 <= len(data) - whole_characters(data) <= 3


@pytest.mark.parametrize(
    ("text", "run", "offsets"),
    [
        ("0", 1, {"": 0}),
        ("17", 1, {"": 17}),
        ("r2:17", 2, {"": 17}),
        ("n1=4,n2=0", 1, {"n1": 4, "n2": 0}),
        ("r3:n1=4", 3, {"n1": 4}),
        ("node.a-1=9,x1000c0s0b0n0=1", 1, {"node.a-1": 9, "x1000c0s0b0n0": 1}),
    ],
)
def test_places_are_read(text: str, run: int, offsets: dict[str, int]) -> None:
    assert Place.parse(text) == Place(run, offsets)


@pytest.mark.parametrize("text", ["", "x", "-1", "1,2", "n1=", "n1=4,", "r:4", "r2:", "n1=4;n2=5", "1" * 30])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(BadField):
        Place.parse(text)


@given(
    st.integers(1, 5),
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True), st.integers(0, 10**9), min_size=2, max_size=4
    ),
)
def test_places_survive_the_way_back(run: int, offsets: dict[str, int]) -> None:
    assert Place.parse(str(Place(run, offsets))) == Place(run, offsets)


@given(st.integers(1, 2**53))
def test_cursors_survive_the_way_back(number: int) -> None:
    text = make_cursor(number)
    assert text.isascii()
    assert read_cursor(text, tuple[int]) == (number,)


@pytest.mark.parametrize("text", ["", "x", "ä", "W10", "eyJhIjoxfQ", "WyJhIl0", "!", "A" * 1000])
def test_foreign_cursors_are_refused(text: str) -> None:
    with pytest.raises(ApiError, match="cursor"):
        read_cursor(text, tuple[int])
