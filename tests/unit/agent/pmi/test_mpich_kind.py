"""MPICH 5 aborts where it finds the variables of two kinds of PMI, as every task of `--pmi=auto` does; a variable says which it speaks."""

import pytest

from lattice.agent.steps.launch import MPICH_KIND, mpich_kind


@pytest.mark.parametrize(("kinds", "spoken"), [(("pmi1", "pmi2", "pmix"), "1"), (("pmix",), "x")])
def test_it_is_told_where_it_would_guess(kinds: tuple[str, ...], spoken: str) -> None:
    assert mpich_kind(kinds, {}) == {MPICH_KIND: spoken}


def test_it_is_told_nothing_where_it_finds_out_by_itself() -> None:
    """Builds that know PMI-2 alone choose that, and the service names those that speak PMI-1 where it was not offered."""
    for kinds in (("pmi1", "pmi2"), ("pmi1",), ("pmi2",)):
        assert mpich_kind(kinds, {}) == {}


def test_what_the_user_says_stays() -> None:
    assert mpich_kind(("pmi1", "pmi2", "pmix"), {MPICH_KIND: "2"}) == {}
