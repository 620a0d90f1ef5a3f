"""When work may start that waits for other work."""

from types import SimpleNamespace
from typing import Any

from lattice.api.find.prospects import Prospects
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, Request
from lattice.core.model.work.dependencies import Dependency

NOW = 1_000_000


class Outlooks:
    """The scheduler's predictions; counts how often one is asked for."""

    def __init__(self, starts: dict[int, int]) -> None:
        self._starts = starts
        self.asked = 0

    def outlook(self, number: int) -> Any:  # noqa: ANN401 - as far as it is used here
        self.asked += 1
        start = self._starts.get(number)
        return None if start is None else SimpleNamespace(predicted_start=start)


def waiting(number: int, *after: Dependency) -> Allocation:
    return Allocation(
        number=number,
        name="x",
        user="u",
        account="u",
        tenant="t",
        vcluster="v",
        request=Request(nodes=1),
        submitted_at=0,
        walltime_s=10,
        waits_for=tuple((each,) for each in after),
    )


def prospects(records: list[Allocation], outlooks: Outlooks) -> Prospects:
    state = State()
    state.allocations.update({record.number: record for record in records})
    return Prospects(state, outlooks, NOW)  # type: ignore[arg-type]


def test_what_waits_for_others_starts_behind_the_last_of_them() -> None:
    outlooks = Outlooks({1: NOW + 5_000, 2: NOW + 1_000})
    last = waiting(3, Dependency(number=1), Dependency(number=2))
    assert prospects([waiting(1), waiting(2), last], outlooks).earliest_start(last) == NOW + 15_000


def test_layers_that_wait_for_all_of_the_layer_before_are_looked_at_once_each() -> None:
    width, layers = 10, 25
    records = [waiting(number) for number in range(1, width + 1)]
    for layer in range(1, layers):
        before = [Dependency(number=(layer - 1) * width + place) for place in range(1, width + 1)]
        records += [waiting(layer * width + place, *before) for place in range(1, width + 1)]
    outlooks = Outlooks(dict.fromkeys(range(1, width + 1), NOW))
    looked = prospects(records, outlooks)
    assert looked.earliest_start(records[-1]) == NOW + (layers - 1) * 10_000
    assert [looked.earliest_start(record) is not None for record in records] == [True] * len(records)
    assert outlooks.asked <= 2 * len(records)


def test_a_dag_is_not_taken_for_the_allocation_with_its_number() -> None:
    last = waiting(3, Dependency(number=1, is_dag=True))
    assert prospects([waiting(1), last], Outlooks({1: NOW})).earliest_start(last) is None
