"""Prices at hand."""

import asyncio

import pytest

from lattice.control.work.energy import EnergyPrices
from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.core.model.nodes.observations import Observations
from lattice.core.scheduler.score.energy import normalised_price, price_at
from lattice.ports.site.energy import PricesUnavailable
from lattice.testing import scenario
from tests.unit.control.world import World

HOUR = 3_600_000
DAY = 24 * HOUR
PRICES = ((0, 50.0), (HOUR, 100.0), (2 * HOUR, 150.0))


class Source:
    """Says what it was given, or fails."""

    def __init__(self) -> None:
        self.answer: tuple[tuple[int, float], ...] | None = PRICES

    async def prices(self) -> tuple[tuple[int, float], ...]:
        if self.answer is None:
            raise PricesUnavailable("out of order")
        return self.answer


@pytest.mark.parametrize(
    ("now", "price"), [(-1, None), (0, 50.0), (HOUR - 1, 50.0), (HOUR, 100.0), (3 * HOUR - 1, 150.0), (3 * HOUR, None)]
)
def test_a_price_holds_until_the_next_and_the_last_for_an_hour(now: int, price: float | None) -> None:
    assert price_at(PRICES, now) == price


def test_the_price_stands_between_cheapest_and_dearest_of_the_day_around() -> None:
    assert [normalised_price(PRICES, hour * HOUR) for hour in range(3)] == [0.0, 0.5, 1.0]
    far = (*PRICES, (3 * HOUR, 60.0), (10 * DAY, 9999.0))
    assert normalised_price(far, 3 * HOUR) == pytest.approx(0.1)


def test_equal_prices_are_neither_cheap_nor_dear() -> None:
    assert normalised_price(((0, 5.0), (HOUR, 5.0)), HOUR) == 0.5


def test_nothing_is_known_without_prices() -> None:
    assert normalised_price((), HOUR) is None


def test_a_source_that_fails_leaves_what_was_known(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    prices = EnergyPrices(source)
    assert prices.price(HOUR) is None
    assert asyncio.run(prices.refresh()) is True
    source.answer = None
    assert asyncio.run(prices.refresh()) is False
    assert asyncio.run(prices.refresh()) is False
    assert prices.price(HOUR) == 0.5
    assert len([record for record in caplog.records if "out of order" in record.message]) == 1


@scenario
async def test_the_price_of_the_moment_is_part_of_the_score() -> None:
    world = World()
    await world.prepare("n1")
    await world.submit()
    number = await world.submit()
    asked: list[int] = []

    def price(now: int) -> float:
        asked.append(now)
        return 0.25

    loop = Scheduling(world.replica, Observations(), world.clock, SchedulingSettings(), energy_price=price)
    await loop.run_cycle()
    assert asked == [world.clock.now_ms()]
    outlook = loop.outlook(number)
    assert outlook is not None
    assert outlook.scores["energy"] == 0.75
