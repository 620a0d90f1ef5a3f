"""The queue by size, against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from lattice.replay.policies.waiting import LEFT, Waiting


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(("add", "first", "within"))), max_size=200))
def test_it_knows_who_is_first_through_all_growing_and_closing_of_gaps(steps: list[tuple[int, str]]) -> None:
    waiting, plain = Waiting(1), dict[int, int]()
    for position, (value, step) in enumerate(steps):
        if step == "add":
            waiting.add(position, value)
            plain[position] = value
        elif step == "first" and plain:
            place = waiting.first()
            assert waiting.position(place) == min(plain)
            waiting.leave(place)
            del plain[min(plain)]
        elif step == "within" and waiting.shortest <= value:
            place = waiting.first_within(value)
            expected = min(who for who, estimate in plain.items() if estimate <= value)
            assert waiting.position(place) == expected
            assert waiting.place_of(expected) == place
            waiting.leave(place)
            del plain[expected]
        assert len(waiting) == len(plain)
        assert waiting.shortest == min(plain.values(), default=LEFT)
