"""What earlier runs teach."""

import numpy as np

from lattice.core.scheduler.tables.predictor import Predictor


def expected(predictor: Predictor, number: int) -> int:
    return int(predictor.expected_s(np.array([number]))[0])


def test_the_last_two_runs_count() -> None:
    predictor = Predictor()
    number = predictor.hold("ann", "fit")
    assert expected(predictor, number) == 0
    for seconds, mean in ((100, 100), (300, 200), (500, 400)):
        predictor.learn("ann", "fit", seconds)
        assert expected(predictor, number) == mean
    predictor.learn("ann", "other", 9)
    predictor.learn("ben", "fit", 9)
    assert expected(predictor, number) == 400


def test_a_pair_is_remembered_while_nothing_of_it_waits() -> None:
    predictor = Predictor()
    predictor.learn("ann", "fit", 0)
    number = predictor.hold("ann", "fit")
    assert expected(predictor, number) == 1
    predictor.drop(number)
    other = predictor.hold("ben", "fit")
    assert (other, expected(predictor, other)) == (number, 0)


def test_memory_is_bounded() -> None:
    predictor = Predictor(most=2)
    for name in ("a", "b", "c"):
        predictor.learn("ann", name, 60)
    numbers = [predictor.hold("ann", name) for name in ("a", "b", "c")]
    assert [expected(predictor, number) for number in numbers] == [0, 60, 60]


def test_any_number_of_pairs_may_wait_at_once() -> None:
    predictor = Predictor()
    predictor.learn("ann", "job199", 30)
    numbers = [predictor.hold("ann", f"job{index}") for index in range(200)]
    assert [expected(predictor, number) for number in (numbers[0], numbers[199])] == [0, 30]
