"""Where budgets are kept outside the cluster, as an accounting system of the site does."""

from collections.abc import Mapping
from typing import Protocol

from lattice.core.model.site.budgets import Remaining


class BudgetsUnavailable(Exception):
    """The source cannot be read now, or what it says makes no sense; the text says which."""


class BudgetSource(Protocol):
    async def remaining(self) -> Mapping[str, Remaining]:
        """What is left, by tenant. A tenant that is not there has its budget in the cluster. Raises BudgetsUnavailable."""
        ...
