"""When a service gets a node, when it gives one back, and why not."""

import pytest

from lattice.core.model.services.requests import SPAN_S, RequestBoard
from lattice.core.model.services.scaling import MAX_KEPT, ScalePolicy, ScaleStanding, ScalingBoard
from lattice.core.scheduler.autoscale import Sample, alternates, judge

POLICY = ScalePolicy(min_nodes=1, max_nodes=4, metric="m", target=10.0)  # windows of 120 and 300 s, cooldown 180 s
NOW = 10_000_000


def samples(*values: float, every_s: int = 60) -> list[Sample]:
    """The last one is of now."""
    count = len(values)
    return [Sample(NOW - (count - 1 - place) * every_s * 1000, value) for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "size", "step", "said"),
    [
        ((11, 11, 11), 1, 1, "m is 11, the target 10"),
        ((11, 11), 1, 0, "above the target for 60 of 120 s"),
        ((11, 9, 11), 1, 0, "above the target for 0 of 120 s"),
        ((11, 11, 11), 4, 0, "its maximum of 4 nodes"),
        ((4, 4, 4, 4, 4, 4), 2, -1, "m is 4"),
        ((4, 4, 4, 4, 4), 2, 0, "below 5 for 240 of 300 s"),
        ((4, 4, 6, 4, 4, 4, 4), 2, 0, "below 5 for 180"),
        ((4, 4, 4, 4, 4, 4), 1, 0, "its minimum of 1 nodes"),
        ((5, 5, 5, 5, 5, 5), 2, 0, "m is 5, the target 10"),
        ((10, 10, 10), 2, 0, "m is 10, the target 10"),
    ],
)
def test_one_step_after_a_whole_window_on_one_side(values: tuple[float, ...], size: int, step: int, said: str) -> None:
    verdict = judge(POLICY, size, 0, samples(*values), NOW)
    assert verdict.step == step
    assert said in verdict.reason


def test_no_step_right_after_the_start_or_the_last_step() -> None:
    verdict = judge(POLICY, 1, NOW - 100_000, samples(11, 11, 11), NOW)
    assert (verdict.step, "80 s more" in verdict.reason) == (0, True)
    assert judge(POLICY, 1, NOW - 180_000, samples(11, 11, 11), NOW).step == 1


def test_no_metric_no_action() -> None:
    for known in ([], [Sample(NOW - 1, 99.0)]):
        verdict = judge(POLICY, 2, 0, known, NOW)
        assert (verdict.step, "not known" in verdict.reason) == (0, True)


def test_steps_in_turn_are_noticed() -> None:
    assert alternates((1, -1, 1, -1, 1, -1))
    assert not alternates((1, -1, 1, -1, 1))
    assert not alternates((1, 1, 1, -1, 1, -1))


def test_requests_are_counted_for_half_a_minute() -> None:
    board = RequestBoard()
    assert board.rates(1, 1, 5.0).per_s == 0.0
    board.ended(1, 1, 5.0, 1.0)
    for second in range(10):
        board.begun(1, 1, 100.0 + second)
        board.ended(1, 1, 100.5 + second, 0.1 * second)
    board.begun(1, 1, 109.0)
    rates = board.rates(1, 1, 110.0)
    assert (rates.per_s, rates.in_flight) == (1.1, 1)
    assert rates.latency_p99_s == pytest.approx(0.9)
    later = board.rates(1, 1, 110.0 + SPAN_S)
    assert (later.per_s, later.latency_p99_s, later.in_flight) == (0.0, None, 1)


def test_boards_keep_no_more_than_they_may() -> None:
    requests, board = RequestBoard(), ScalingBoard()
    standing = ScaleStanding(run=1, at=1, value=None, decision="hold", reason="")
    for number in range(MAX_KEPT + 2):
        requests.begun(number, 1, 1.0)
        board.note(number, standing)
    assert (requests.rates(0, 1, 1.0).in_flight, board.get(0), board.get(2)) == (0, None, standing)
    board.forget(2)
    assert board.get(2) is None
    for _ in range(2_000):
        requests.begun(7, 1, 2.0)
        requests.ended(7, 1, 2.0, 1.0)
    assert requests.rates(7, 1, 2.0).latency_p99_s == 1.0


def test_what_no_rate_counts_any_more_is_forgotten() -> None:
    board = RequestBoard()
    board.begun(1, 1, 100.0)
    board.ended(1, 1, 100.0, 0.5)
    board.begun(2, 1, 100.0 + 2 * SPAN_S)
    assert not board._counted[1, 1].seconds
    assert board._counted[2, 1].seconds
    board.begun(1, 1, 101.0 + 2 * SPAN_S)
    assert board.rates(1, 1, 101.0 + 2 * SPAN_S).per_s == 1 / SPAN_S, "it is as old as before"


def test_requests_that_were_held_before_they_were_sent_do_not_push_others_out() -> None:
    board = RequestBoard()
    board.begun(1, 1, 80.0)
    for _ in range(100):
        board.begun(1, 1, 99.0)
        board.ended(1, 1, 100.0, 1.0)
    rates = board.rates(1, 1, 100.0)
    assert (rates.per_s, rates.in_flight) == (101 / 20, 1)
