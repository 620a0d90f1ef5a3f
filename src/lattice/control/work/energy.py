"""Keeps electricity prices at hand, so that the scheduler can ask for the present one at any time."""

import asyncio
import logging

from lattice.control.loop import keep_turning
from lattice.core.scheduler.score.energy import normalised_price
from lattice.ports.site.energy import PriceSource, PricesUnavailable

REFRESH_S = 900.0
RETRY_S = 60.0

_log = logging.getLogger(__name__)


class EnergyPrices:
    """A source that fails leaves what was known; a price that is no longer known is not made up."""

    def __init__(self, source: PriceSource, refresh_s: float = REFRESH_S, retry_s: float = RETRY_S) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._retry_s = retry_s
        self._prices: tuple[tuple[int, float], ...] = ()
        self._failed = False

    def price(self, now: int) -> float | None:
        """Where the price stands within the day around `now`: 0 = cheapest, 1 = dearest, None = not known."""
        return normalised_price(self._prices, now)

    async def run(self) -> None:
        await keep_turning("energy prices", self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(self._refresh_s if await self.refresh() else self._retry_s)

    async def refresh(self) -> bool:
        """Asks the source once; False when it had no answer."""
        try:
            self._prices = await self._source.prices()
        except PricesUnavailable as error:
            if not self._failed:
                _log.warning("no new energy prices: %s", error)
            self._failed = True
            return False
        self._failed = False
        return True
