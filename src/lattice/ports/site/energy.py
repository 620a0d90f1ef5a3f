"""Where electricity prices come from."""

from typing import Protocol


class PricesUnavailable(Exception):
    """The source cannot be read now, or what it says makes no sense; the text says which."""


class PriceSource(Protocol):
    async def prices(self) -> tuple[tuple[int, float], ...]:
        """All that is known: (from when, in milliseconds since 1970, price per energy in any unit), rising in time.

        Raises PricesUnavailable.
        """
        ...
