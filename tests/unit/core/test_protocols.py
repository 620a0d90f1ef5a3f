"""Which version two sides speak, whatever each of them knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model.site.protocols import (
    OURS,
    SILENT,
    Agreed,
    Border,
    NoCommonVersion,
    Offer,
    header,
    negotiate,
    offer_of,
    parse_offer,
)

OFFERS = st.builds(
    lambda oldest, more, features: Offer(oldest=oldest, newest=oldest + more, features=tuple(sorted(features))),
    st.integers(1, 9),
    st.integers(0, 4),
    st.sets(st.sampled_from("abcd"), max_size=4),
)


@pytest.mark.parametrize("border", Border)
def test_this_release_speaks_with_the_one_before_at_every_border(border: Border) -> None:
    assert negotiate(OURS[border], SILENT).version == 1
    assert negotiate(SILENT, OURS[border]).version == 1
    assert negotiate(OURS[border], OURS[border]).version == OURS[border].newest
    assert OURS[border].newest - OURS[border].oldest >= 1


def test_the_highest_common_version_and_the_common_features_are_used() -> None:
    ours, theirs = Offer(oldest=2, newest=5, features=("a", "b")), Offer(oldest=1, newest=3, features=("b", "c"))
    assert negotiate(ours, theirs) == Agreed(version=3, features=("b",))


@given(OFFERS, OFFERS)
def test_both_sides_come_to_the_same_version_or_both_refuse(one: Offer, other: Offer) -> None:
    def outcome(ours: Offer, theirs: Offer) -> object:
        try:
            agreed = negotiate(ours, theirs)
        except NoCommonVersion:
            return None
        return agreed.version, set(agreed.features)

    assert outcome(one, other) == outcome(other, one)
    found = outcome(one, other)
    both = set(range(one.oldest, one.newest + 1)) & set(range(other.oldest, other.newest + 1))
    assert (found is None) == (not both)
    if isinstance(found, tuple):
        assert found[0] == max(both)


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [(Offer(oldest=1, newest=1), "upgrade the agent"), (Offer(oldest=7, newest=8), "upgrade this server")],
)
def test_sides_without_a_common_version_part_with_both_versions_and_the_remedy(theirs: Offer, remedy: str) -> None:
    with pytest.raises(NoCommonVersion) as refused:
        negotiate(Offer(oldest=3, newest=4), theirs, them="the agent")
    assert str(theirs) in str(refused.value)
    assert "versions 3 to 4" in str(refused.value)
    assert remedy in str(refused.value)


@given(OFFERS)
def test_an_offer_is_read_from_a_header_as_it_was_written(offer: Offer) -> None:
    assert parse_offer(header(offer)) == offer


def test_who_says_nothing_speaks_version_1() -> None:
    assert parse_offer("") == offer_of(0, 0) == SILENT == Offer(oldest=1, newest=1)


@pytest.mark.parametrize(
    "text", ["x", "1", "2-1", "0-3", "1-1001", "-", "1-2-3", "99999999999999-1", "1-2;" + "x" * 65]
)
def test_nonsense_is_no_offer(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_offer(text)
    with pytest.raises(ValueError, match="features"):
        offer_of(1, 2, [str(number) for number in range(65)])
