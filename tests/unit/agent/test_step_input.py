"""Input of a step from several clients: each counts its own bytes, and only who launched it ends it."""

from lattice.agent.shim.step import MAX_JOINED, Step


def step() -> Step:
    made = Step.__new__(Step)
    made.base, made.pending, made.joined, made.has_eof = 0, bytearray(), {}, False
    return made


def test_each_client_counts_its_own_bytes_and_repeats_are_taken_once() -> None:
    one = step()
    assert one.take_input(0, b"ab", eof=False) == 2
    assert one.take_input(0, b"xy", eof=False, client="other") == 2
    assert one.take_input(0, b"abc", eof=False) == 3
    assert one.take_input(0, b"xyz", eof=False, client="other") == 3
    assert one.take_input(9, b"q", eof=False, client="other") == 3, "bytes before them are missing"
    assert bytes(one.pending) == b"abxycz"


def test_a_client_that_joined_ends_nothing_and_loses_what_comes_after_the_end() -> None:
    one = step()
    one.take_input(0, b"x", eof=True, client="other")
    after_other = one.has_eof
    one.take_input(0, b"a", eof=True)
    assert (after_other, one.has_eof) == (False, True)
    assert one.take_input(1, b"late", eof=False, client="other") == 5
    assert bytes(one.pending) == b"xa"


def test_clients_are_bounded() -> None:
    one = step()
    for place in range(MAX_JOINED + 3):
        assert one.take_input(0, b"x", eof=False, client=f"c{place}") == 1
    assert (len(one.joined), len(one.pending)) == (MAX_JOINED, MAX_JOINED)
