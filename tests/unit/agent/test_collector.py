"""A collector's rounds with a clock of the test's own: when a round ends, what it holds, and how old that is."""

from lattice.agent.collectors.rounds import MAX_BROUGHT_BYTES, Gatherer
from lattice.wire.agents.collecting import MAX_BEAT, MAX_SHARES, GatheredShare


class Line:
    def __init__(self) -> None:
        self.asked = 0
        self.is_closed = False

    def ask(self) -> None:
        self.asked += 1

    def close(self) -> None:
        self.is_closed = True


def gathering(*members: int) -> tuple[Gatherer, dict[int, Line]]:
    gatherer = Gatherer("c1")
    gatherer.assign(10.0, 15.0, {member: 100 + member for member in members})
    lines = {member: Line() for member in members}
    for member, line in lines.items():
        assert gatherer.join(member, 100 + member, line)
    return gatherer, lines


def rows(share: GatheredShare) -> dict[int, tuple[int, bytes]]:
    return {member: (age, beat) for member, age, beat in zip(share.members, share.ages_ms, share.beats, strict=True)}


def test_a_round_ends_when_all_have_answered_and_says_how_old_each_answer_is() -> None:
    gatherer, lines = gathering(1, 2)
    gatherer.begin(100.0)
    assert [line.asked for line in lines.values()] == [2, 2]  # when they joined, and now
    gatherer.answer(1, b"one", 100.5)
    assert not gatherer.is_complete(101.0)
    gatherer.answer(2, b"two", 102.0)
    assert gatherer.is_complete(102.0)
    (share,) = gatherer.take((9, b"own"), 102.0)
    assert share.collector == "c1"
    assert rows(share) == {1: (1500, b"one"), 2: (0, b"two"), 9: (0, b"own")}
    assert not gatherer.is_complete(103.0)


def test_a_round_ends_at_its_limit_without_those_who_are_silent_and_nobody_waits_for_them_again() -> None:
    gatherer, lines = gathering(1, 2)
    gatherer.begin(100.0)
    gatherer.answer(1, b"one", 100.1)
    gatherer.begin(110.0)
    gatherer.answer(1, b"newer", 110.1)
    assert not gatherer.is_complete(114.9)
    assert gatherer.is_complete(115.0)
    (share,) = gatherer.take(None, 115.0)
    assert rows(share) == {1: (4900, b"newer")}
    gatherer.begin(120.0)
    assert lines[2].asked == 4
    gatherer.answer(1, b"again", 120.1)
    assert gatherer.is_complete(120.1)
    gatherer.answer(2, b"back", 120.2)
    (share,) = gatherer.take(None, 120.2)
    assert set(rows(share)) == {1, 2}
    gatherer.begin(130.0)
    gatherer.answer(1, b"x", 130.1)
    assert not gatherer.is_complete(130.1)


def test_a_member_that_leaves_is_not_waited_for() -> None:
    gatherer, lines = gathering(1, 2)
    gatherer.begin(100.0)
    gatherer.answer(1, b"one", 100.0)
    gatherer.leave(2, Line())  # an older connection of the member changes nothing
    assert not gatherer.is_complete(100.1)
    gatherer.leave(2, lines[2])
    assert gatherer.is_complete(100.1)


def test_only_members_with_their_ticket_are_let_in_and_a_newer_connection_takes_the_place_of_the_older() -> None:
    gatherer, lines = gathering(1)
    stranger = Line()
    assert not gatherer.join(1, 7, stranger)
    assert not gatherer.join(5, 105, stranger)
    assert not gatherer.join(5, 0, stranger)
    newer = Line()
    assert gatherer.join(1, 101, newer)
    assert lines[1].is_closed
    gatherer.leave(1, lines[1])
    gatherer.begin(1.0)
    assert newer.asked == 2
    gatherer.answer(5, b"forged", 1.0)
    gatherer.answer(1, b"good", 1.0)
    (share,) = gatherer.take(None, 1.0)
    assert rows(share) == {1: (0, b"good")}


def test_who_is_no_member_any_more_is_sent_away() -> None:
    gatherer, lines = gathering(1, 2)
    gatherer.begin(1.0)
    gatherer.assign(10.0, 15.0, {1: 101})
    assert (lines[1].is_closed, lines[2].is_closed) == (False, True)
    gatherer.answer(1, b"one", 1.0)
    assert gatherer.is_complete(1.0)
    gatherer.close()
    assert lines[1].is_closed
    assert not gatherer.is_gathering
    assert not gatherer.is_complete(100.0)


def test_what_collectors_below_bring_grows_older_on_its_way() -> None:
    gatherer, _ = gathering(1, 2)
    gatherer.begin(100.0)
    gatherer.answer(1, b"one", 100.0)
    gatherer.bring(2, [GatheredShare("c2", [7], [400], [b"old"])], 100.0)
    gatherer.bring(2, [GatheredShare("c2", [7], [250], [b"seven"])], 100.5)
    gatherer.bring(8, [GatheredShare("c8", [1], [0], [b"nobody's"])], 100.5)
    own, below = gatherer.take(None, 102.0)
    assert rows(own) == {1: (2000, b"one")}
    assert (below.collector, rows(below)) == ("c2", {7: (1750, b"seven")})


def test_no_member_spoils_what_the_others_bring() -> None:
    gatherer, _ = gathering(1, 2, 3, 4, 5)
    gatherer.begin(100.0)
    gatherer.bring(1, [GatheredShare("c2", [7], [0], [b"seven"])], 100.0)
    gatherer.bring(2, [GatheredShare("c2", [], [], [])], 100.0)  # in another's name
    gatherer.bring(3, [GatheredShare("c3", [1, 2], [0], [b"x"])], 100.0)  # makes no sense
    rows_too_many = 1 + MAX_BROUGHT_BYTES // MAX_BEAT
    members = list(range(rows_too_many))
    gatherer.bring(4, [GatheredShare("c4", members, [0] * rows_too_many, [b"x" * MAX_BEAT] * rows_too_many)], 100.0)
    gatherer.bring(5, [GatheredShare("c5", [], [], [])] * MAX_SHARES, 100.0)
    assert gatherer.is_complete(100.0)
    _, *brought = gatherer.take(None, 100.0)
    assert [(share.collector, share.beats) for share in brought] == [("c2", [b"seven"]), ("c2", [])]
    assert gatherer.take(None, 101.0)[1:] == []


def test_nothing_grows_older_than_can_be_said() -> None:
    gatherer, _ = gathering(1)
    gatherer.bring(1, [GatheredShare("c2", [7], [2**32 - 1], [b"seven"])], 100.0)
    _, below = gatherer.take(None, 200.0)
    assert below.ages_ms == [2**32 - 1]


def test_what_was_gathered_from_a_member_goes_with_it() -> None:
    gatherer, _ = gathering(1, 2)
    gatherer.answer(1, b"one", 1.0)
    gatherer.answer(2, b"two", 1.0)
    gatherer.bring(2, [GatheredShare("c2", [7], [0], [b"seven"])], 1.0)
    gatherer.assign(10.0, 15.0, {1: 101})
    (share,) = gatherer.take(None, 1.0)
    assert rows(share) == {1: (0, b"one")}
