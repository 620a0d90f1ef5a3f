"""Stored chunks of output: their names and bytes."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lattice.wire.files.chunks import CHUNK_BYTES, BadChunk, Place, logs_prefix, pack, place_of, run_prefix, unpack


def test_the_name_says_where_a_chunk_begins_and_orders_by_it() -> None:
    early, late = Place(offset=999, line=80, at_ms=1_700_000_000_000), Place(offset=10**12, line=3, at_ms=5)
    assert early.name == "000000000000999-80-1700000000000.log.zst"
    assert place_of(f"t/-/a1/logs/run-1/stdout/n1/{early.name}") == early
    assert sorted([late.name, early.name]) == [early.name, late.name]
    assert place_of("t/-/a1/logs/run-1/stdout/n1/other.log.zst") is None


def test_the_prefix_begins_with_the_tenant() -> None:
    assert run_prefix("chem", "", "a17", 2) == "chem/-/a17/logs/run-2"
    assert logs_prefix("chem", "kry", "a17") == "chem/kry/a17/logs"


@given(
    st.binary(max_size=5_000),
    st.integers(0, 10**14),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(-5, 10**6)), max_size=40),
)
def test_a_chunk_comes_back_with_its_times(data: bytes, offset: int, steps: list[tuple[int, int]]) -> None:
    place = Place(offset=offset, line=1, at_ms=1_700_000_000_000)
    marks, position, at_ms = [], offset, place.at_ms
    for further, later in steps:
        position, at_ms = position + further, at_ms + later
        marks.append((position, at_ms))
    assert unpack(place, pack(place, data, marks)) == (data, marks)


def test_a_mark_before_the_chunk_counts_from_its_beginning() -> None:
    place = Place(offset=100, at_ms=7)
    assert unpack(place, pack(place, b"x", [(90, 7), (103, 9)]))[1] == [(100, 7), (103, 9)]


def test_usual_tools_print_the_output() -> None:
    packed = pack(Place(), b"hello\n", [(0, 1)])
    assert zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(packed) == b"hello\n"


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"hello, this is no chunk",
        pack(Place(), b"x" * 1000, [])[:-3],
        pack(Place(), b"x", [])[:9] + b"rubbish",
        pack(Place(), b"", [])[:9] + zstandard.ZstdCompressor().compress(b"\0" * (CHUNK_BYTES + 1)),
    ],
)
def test_what_is_no_chunk_is_refused(packed: bytes) -> None:
    with pytest.raises(BadChunk):
        unpack(Place(), packed)
