"""Feature expressions of --constraint."""

import pytest

from lattice.slurm.text.features import TooLong, matches_features, plain_features

NODE = frozenset({"fast", "new"})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("fast", True),
        ("slow", False),
        ("fast&new", True),
        ("fast,new", True),
        ("fast&slow", False),
        ("fast|slow", True),
        ("slow|fast&new", True),
        ("(slow|fast)&new", True),
        ("[slow|fast]", True),
        ("fast*2", True),
        (" fast & new ", True),
    ],
)
def test_an_expression_holds_or_not(text: str, holds: bool) -> None:
    found = matches_features(text)
    assert found is not None
    assert found(NODE) is holds


@pytest.mark.parametrize("text", ["", "&", "a&", "|a", "(a", "a)", "[a)", "a b", "((((", "()"])
def test_what_is_no_expression_is_none(text: str) -> None:
    assert matches_features(text) is None


@pytest.mark.parametrize("text", ["(" * 3000, "a|" * 2000 + "a", "(" * 40 + "a" + ")" * 40])
def test_an_expression_that_is_too_long_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(TooLong):
        matches_features(text)


def test_names_that_are_all_wanted_are_plain() -> None:
    assert plain_features("fast&new") == plain_features("fast,new") == ("fast", "new")
    assert plain_features("fast|new") is plain_features("fast*2") is plain_features("(fast)") is None
