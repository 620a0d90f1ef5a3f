"""Clocks of other servers: what an answer tells, and when it is worth a warning."""

import logging

import pytest

from lattice.quorum.peers.clock_skew import SkewWatch


def test_the_middle_of_the_way_is_when_the_other_looked_at_its_clock() -> None:
    watch = SkewWatch(0.5)
    assert watch.note("s2", 10_200, 10_000, 100.0) == (150, "")
    assert watch.note("s3", 9_950, 10_000, 100.0) == (-100, "")
    assert watch.skews_s == {"s2": 0.15, "s3": -0.1}


def test_beyond_the_limit_it_warns_once_and_says_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    watch = SkewWatch(0.5)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            skew, warning = watch.note("s2", 13_000, 10_000, 10.0)
            assert skew == 2995
            assert "3.0 s ahead" in warning
            assert "more than 0.5 s" in warning
        assert watch.note("s2", 10_000, 10_000, 0.0) == (0, "")
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert texts[0].startswith("server s2: its clock is 3.0 s ahead")
    assert texts[1] == "the clock of server s2 agrees again"
    assert "behind" in watch.note("s2", 8_000, 10_000, 0.0)[1]


def test_a_slow_answer_is_no_proof() -> None:
    # It may have looked at its clock at the very end of two seconds.
    assert SkewWatch(0.5).note("s2", 12_000, 10_000, 2_000.0) == (1000, "")


def test_a_server_that_does_not_tell_its_time_is_not_judged_and_one_that_left_is_forgotten() -> None:
    watch = SkewWatch(0.5)
    assert watch.note("s2", 0, 10_000, 1.0) == (None, "")
    watch.note("s3", 10_000, 10_000, 0.0)
    watch.keep_only(["s2"])
    assert watch.skews_s == {}
