"""Notifies the admins of tenants when 80 and 100 % of a budget are used, by the figures that the score goes by.

Who was notified of what is in the log. When less of a budget is used again, because days leave its window, the next time counts again.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from lattice.control.loop import Guard, keep_turning
from lattice.core.machine.commands import NoteBudget
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.notifications import Reader
from lattice.core.scheduler.score.budget import Use
from lattice.ports.quorum.replica import Replica

LOOP = "budget notices"
EVERY_S = 60.0
STEPS = (100, 80)
BACK_BELOW = 0.75  # of a budget: earlier notifications do not count any more

# A user, and the places they want; returns those that the site can write to.
Places = Callable[[str, tuple[str, ...]], tuple[str, ...]]


class BudgetNotices:
    """`uses` gives what tenants have used of their budgets."""

    def __init__(self, replica: Replica, uses: Callable[[], Mapping[str, list[Use]]], places: Places) -> None:
        self._replica, self._uses, self._places = replica, uses, places
        self._guard = Guard(LOOP)

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(EVERY_S)
        await self.look()

    async def look(self) -> None:
        """Notes whatever has passed a step since it was looked last."""
        tenants = self._replica.state.tenants
        if not self._replica.state.notifications.budgets and not any(each.admins for each in tenants.values()):
            return
        due: list[NoteBudget] = []
        for name, uses in sorted(self._uses().items()):
            with self._guard.item(name):
                tenant = tenants.get(name)
                due += self._due(tenant, uses) if tenant is not None else ()
        if due:
            await self._replica.propose_many(due, LOOP)

    def _due(self, tenant: Tenant, uses: list[Use]) -> Iterator[NoteBudget]:
        part, hours, budget, unit = max(
            (hours / budget if budget > 0 else 2.0, hours, budget, unit) for hours, budget, unit in uses
        )
        step = next((each for each in STEPS if part * 100 >= each), 0)
        noted = self._replica.state.notifications.noted_percent(tenant.name)
        if step > noted:
            readers = tuple(self._readers(tenant))
            text = f"{hours:,.1f} of {budget:,.0f} {unit}-hours ({part:.0%}) are used"
            if readers:  # else as soon as there are some
                yield NoteBudget(tenant=tenant.name, percent=step, text=text, to=readers)
        elif noted and part < BACK_BELOW:
            yield NoteBudget(tenant=tenant.name, percent=0)

    def _readers(self, tenant: Tenant) -> Iterator[Reader]:
        defaults = self._replica.state.notifications.defaults
        for user in tenant.admins:
            known = defaults.get(user)
            for place in self._places(user, known.notify.to if known is not None else ()):
                yield Reader(user=user, to=place)
