"""Large requests leave the event loop to others: slices, the thread, and answers that are made piece by piece."""

import asyncio
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.api import pacing
from lattice.api.answers import Page, is_long
from lattice.api.pacing import Pace, free_in_slices, in_thread, joined_in_slices, sorted_in_slices
from lattice.api.rest.encoding import PIECE_BYTES, encode, encode_long
from lattice.wire.slurm.commands import SlurmAnswer


@pytest.mark.parametrize("reverse", [False, True])
@given(items=st.lists(st.tuples(st.integers(0, 5), st.integers())))
def test_sorting_in_slices_sorts_like_sorted(items: list[tuple[int, int]], *, reverse: bool) -> None:
    many = items * 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "_SORTED_TOGETHER", 100)
        found = asyncio.run(sorted_in_slices(many, lambda item: item[0], Pace(), reverse=reverse))
    assert found == sorted(many, key=lambda item: item[0], reverse=reverse)


def test_others_have_their_turn_while_a_long_list_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE_S", 0.0)
    monkeypatch.setattr(pacing, "_SORTED_TOGETHER", 500)

    async def turns() -> int:
        had = 0

        async def other() -> None:
            nonlocal had
            while True:
                had += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await sorted_in_slices(range(2_000, 0, -1), lambda item: item, Pace())
        beside.cancel()
        return had

    assert asyncio.run(turns()) > 1000


def test_long_text_is_joined_in_slices_with_turns_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE_S", 0.0)
    turns = 0

    async def joined(texts: list[str]) -> str:
        nonlocal turns
        joining = asyncio.create_task(joined_in_slices(texts, "\n"))
        while not joining.done():
            turns += 1
            await asyncio.sleep(0)
        return joining.result()

    lines = [f"line {number}, é" for number in range(2_000)]
    assert asyncio.run(joined(lines)) == "\n".join([*lines, ""])
    assert turns > 50
    assert asyncio.run(joined([])) == ""


def test_large_requests_share_one_thread_that_is_not_the_loops() -> None:
    async def names() -> set[str]:
        return set(await asyncio.gather(*(in_thread(lambda: threading.current_thread().name) for _ in range(5))))

    found = asyncio.run(names())
    assert len(found) == 1
    assert threading.current_thread().name not in found


def test_a_long_page_reads_the_same_as_one_encoded_at_once() -> None:
    page = Page(items=[{"id": f"a{number}", "name": 'with "quotes", é'} for number in range(1001)], next_cursor="x")
    assert is_long(page)
    assert b"".join(encode_long(page)) == encode(page)
    assert not is_long(Page(items=[1, 2]))


def test_a_long_text_reads_the_same_as_one_encoded_at_once() -> None:
    answer = SlurmAnswer(stdout='é\n"\\\t😀' * PIECE_BYTES, stderr="said", code=3)
    assert is_long(answer)
    assert b"".join(encode_long(answer)) == encode(answer)
    assert msgspec.json.decode(b"".join(encode_long(answer)), type=SlurmAnswer) == answer


def test_long_list_goes_out_of_use_in_slices_with_turns_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE_S", 0.0)
    rows, turns = [[number] for number in range(5_000)], 0

    async def count_turns() -> None:
        nonlocal turns
        while rows:
            turns += 1
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(free_in_slices(rows), count_turns())

    asyncio.run(both())
    assert rows == []
    assert turns > 1
