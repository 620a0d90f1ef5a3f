"""Electricity prices as the scheduler sees them: where the price of this moment stands within the day around it.

See docs/architecture/scheduler.md.
"""

from bisect import bisect_right
from collections.abc import Sequence

DAY_MS = 86_400_000
STEP_MS = 3_600_000  # how long the last price is valid


def price_at(prices: Sequence[tuple[int, float]], now: int) -> float | None:
    """The price in force; `prices` are (from when in milliseconds since 1970, price), rising. None when none is."""
    place = bisect_right(prices, now, key=lambda entry: entry[0]) - 1
    if place < 0 or (place == len(prices) - 1 and now >= prices[place][0] + STEP_MS):
        return None
    return prices[place][1]


def normalised_price(prices: Sequence[tuple[int, float]], now: int) -> float | None:
    """0 = the cheapest of the 24 hours before and after, 1 = the dearest, 0.5 when all are the same; None = not known."""
    price = price_at(prices, now)
    if price is None:
        return None
    around = [entry[1] for entry in prices if now - DAY_MS <= entry[0] <= now + DAY_MS]
    lowest, highest = min([price, *around]), max([price, *around])
    return 0.5 if lowest == highest else (price - lowest) / (highest - lowest)
