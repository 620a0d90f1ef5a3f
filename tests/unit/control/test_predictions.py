"""How predicted starts moved, as the leader saw it."""

from lattice.control.work.predictions import MAX_KEPT, MAX_POINTS, Predictions
from lattice.core.scheduler.proposals import Reservation
from lattice.ports.scheduling import Prediction


def said(number: int, start: int) -> Reservation:
    return Reservation(number=number, start_at=start, nodes=("n1",))


def test_only_moves_are_kept() -> None:
    kept = Predictions()
    kept.note(1000, [said(7, 60_000)])
    kept.note(2000, [said(7, 60_400)])  # less than a second is no move
    kept.note(3000, [])  # a cycle that predicts nothing keeps what is known
    kept.note(4000, [said(7, 90_000)])
    assert kept.of(7) == (Prediction(1000, 60_000), Prediction(4000, 90_000))
    assert kept.of(8) == ()


def test_the_first_prediction_and_the_latest_stay() -> None:
    kept = Predictions()
    for turn in range(100):
        kept.note(turn, [said(7, turn * 10_000)])
    points = kept.of(7)
    assert len(points) == MAX_POINTS
    assert (points[0].start, points[1].start, points[-1].start) == (0, 850_000, 990_000)


def test_it_is_bounded_and_forgets_what_was_predicted_longest_ago() -> None:
    kept = Predictions()
    kept.note(0, [said(number, 60_000) for number in range(MAX_KEPT)])
    kept.note(1, [said(0, 60_000), said(MAX_KEPT, 60_000)])
    assert (len(kept.of(0)), len(kept.of(1)), len(kept.of(MAX_KEPT))) == (1, 0, 1)


def test_what_waits_no_more_is_forgotten() -> None:
    kept = Predictions()
    kept.note(0, [said(7, 60_000)])
    kept.forget([7, 8])
    assert kept.of(7) == ()
