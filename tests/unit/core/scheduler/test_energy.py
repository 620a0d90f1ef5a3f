"""Where the price of electricity stands within the day around it."""

from lattice.core.scheduler.score.energy import STEP_MS, normalised_price, price_at

PRICES = ((0, 10.0), (STEP_MS, 30.0), (2 * STEP_MS, 20.0))


def test_a_price_is_known_from_the_first_to_an_hour_after_the_last() -> None:
    assert price_at(PRICES, -1) is None
    assert price_at(PRICES, 0) == 10.0
    assert price_at(PRICES, 3 * STEP_MS - 1) == 20.0
    assert price_at(PRICES, 3 * STEP_MS) is None


def test_the_price_lies_between_the_cheapest_and_the_dearest() -> None:
    assert [normalised_price(PRICES, hour * STEP_MS) for hour in range(4)] == [0.0, 1.0, 0.5, None]
    assert normalised_price(((0, 7.0),), 0) == 0.5
