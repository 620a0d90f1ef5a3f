"""What an accounting system says of budgets counts as long as it says it."""

from collections.abc import Mapping

from lattice.control.work.budgets import Budgets
from lattice.core.model.site.budgets import Remaining
from lattice.ports.site.budgets import BudgetsUnavailable
from lattice.testing import scenario


class Source:
    def __init__(self) -> None:
        self.answer: Mapping[str, Remaining] | None = {"physics": Remaining(gpu_hours_budget=10.0)}

    async def remaining(self) -> Mapping[str, Remaining]:
        if self.answer is None:
            raise BudgetsUnavailable("away")
        return self.answer


@scenario
async def test_without_an_answer_nothing_is_known_until_the_next() -> None:
    source = Source()
    budgets = Budgets(source)
    assert budgets.remaining() == {}
    assert await budgets.refresh()
    assert "physics" in budgets.remaining()
    source.answer = None
    assert not await budgets.refresh()
    assert not await budgets.refresh()
    assert budgets.remaining() == {}, "the ledger of the cluster counts"
    source.answer = {}
    assert await budgets.refresh()
