"""Tasks of a group on the timeline."""

from msgspec.structs import replace

from lattice.api.operations.web.folding import Span, folded
from lattice.core.model.work.allocations import Allocation, AllocationState, Request

REACH = 100
RECORD = Allocation(
    number=3, name="x", user="ada", account="ada", tenant="t", vcluster="v", request=Request(), submitted_at=0
)


def task(number: int, start: int, end: int, *nodes: str, state: AllocationState = AllocationState.COMPLETED) -> Span:
    found = replace(RECORD, number=number, group=7, state=state)
    return Span(found, "past", start, end, nodes or ("n1",))


def shown(spans: list[Span]) -> list[tuple[int, int, tuple[str, ...], int | None, int | None]]:
    return [(span.start, span.end, span.nodes, span.tasks, span.failed) for span in folded(spans, REACH)]


def test_tasks_that_follow_one_another_closely_are_one() -> None:
    failed = task(9, 1090, 2000, state=AllocationState.FAILED)
    assert shown([failed, task(8, 0, 1000), task(10, 2200, 3000)]) == [
        (0, 2000, ("n1",), 2, 1),
        (2200, 3000, ("n1",), 1, 0),
    ]


def test_no_node_is_said_to_be_held_when_it_was_not() -> None:
    early, late = task(8, 0, 1000, "n1"), task(9, 5000, 6000, "n2")
    assert shown([early, late]) == [(0, 1000, ("n1",), 1, 0), (5000, 6000, ("n2",), 1, 0)]


def test_nodes_that_look_alike_share_a_bar() -> None:
    assert shown([task(8, 0, 1000, "n1", "n2"), task(9, 1000, 2000, "n1", "n2")]) == [(0, 2000, ("n1", "n2"), 2, 0)]


def test_one_without_an_end_has_none_afterwards() -> None:
    assert shown([task(8, 0, 0), task(9, 500, 900)]) == [(0, 0, ("n1",), 2, 0)]


def test_what_is_in_no_group_stays_as_it_is() -> None:
    alone = Span(RECORD, "past", 0, 10, ("n1",))
    assert list(folded([alone], REACH)) == [alone]
