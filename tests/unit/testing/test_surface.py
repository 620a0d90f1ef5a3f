"""What others may build on."""

import pytest

import lattice.testing
from lattice.testing import NotInTime, eventually


def test_public_names_change_on_purpose_only() -> None:
    assert lattice.testing.__all__ == ["QUICK_TIMINGS", "CommandFailed", "LocalCluster", "NotInTime", "eventually"]


def test_eventually_returns_the_first_true_answer() -> None:
    answers = iter([None, 0, "seen"])
    assert eventually(lambda: next(answers), "an answer", every_s=0) == "seen"


def test_eventually_ends_with_what_was_seen_last() -> None:
    with pytest.raises(NotInTime, match=r"a miracle \(last seen: 0\)"):
        eventually(lambda: 0, "a miracle", within_s=0, every_s=0)
