"""Keeps what an accounting system says of budgets at hand. While it does not answer, the cluster's own ledger counts."""

import asyncio
import logging
from collections.abc import Mapping

from lattice.control.loop import keep_turning
from lattice.core.model.site.budgets import Remaining
from lattice.ports.site.budgets import BudgetSource, BudgetsUnavailable

REFRESH_S = 30.0

_log = logging.getLogger(__name__)


class Budgets:
    """`refresh` asks once; `remaining` is what it said last, nothing after a failure."""

    def __init__(self, source: BudgetSource, refresh_s: float = REFRESH_S) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._remaining: Mapping[str, Remaining] = {}
        self._failed = False

    def remaining(self) -> Mapping[str, Remaining]:
        """By tenant."""
        return self._remaining

    async def run(self) -> None:
        await keep_turning("budgets", self._turn)

    async def _turn(self) -> None:
        await self.refresh()
        await asyncio.sleep(self._refresh_s)

    async def refresh(self) -> bool:
        """False when the source had no answer."""
        try:
            self._remaining = await self._source.remaining()
        except BudgetsUnavailable as error:
            if not self._failed:
                _log.warning("budgets are those of the cluster's own ledger: %s", error)
            self._remaining, self._failed = {}, True
            return False
        self._failed = False
        return True
