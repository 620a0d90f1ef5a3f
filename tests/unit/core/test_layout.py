"""Which ranks run where."""

import pytest

from lattice.core.model.work.layout import Distribution, Layout, Misfit, TaskRequest, lay_out

FOUR = [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 4)]


def laid(task_request: TaskRequest, cpus: list[tuple[str, int]] = FOUR) -> Layout:
    layout = lay_out(task_request, cpus)
    assert isinstance(layout, Layout), layout
    return layout


def refused(task_request: TaskRequest, cpus: list[tuple[str, int]] = FOUR) -> Misfit:
    misfit = lay_out(task_request, cpus)
    assert isinstance(misfit, Misfit), misfit
    return misfit


def test_one_task_per_node_when_nothing_is_said() -> None:
    assert laid(TaskRequest()) == Layout(nodes=("n1", "n2", "n3", "n4"), counts=(1, 1, 1, 1))


def test_block_gives_each_node_consecutive_ranks() -> None:
    layout = laid(TaskRequest(tasks=10))
    assert layout.counts == (3, 3, 2, 2)
    assert layout.ranks() == ((0, 1, 2), (3, 4, 5), (6, 7), (8, 9))


def test_cyclic_deals_ranks_round() -> None:
    layout = laid(TaskRequest(tasks=6, distribution=Distribution.CYCLIC))
    assert layout.ranks() == ((0, 4), (1, 5), (2,), (3,))


def test_tasks_per_node_times_nodes() -> None:
    layout = laid(TaskRequest(tasks_per_node=2, nodes=3))
    assert (layout.nodes, layout.counts) == (("n1", "n2", "n3"), (2, 2, 2))


def test_tasks_per_node_fills_as_many_nodes_as_it_takes_evenly() -> None:
    assert laid(TaskRequest(tasks=4, tasks_per_node=4)).counts == (1, 1, 1, 1)


def test_fewer_tasks_than_nodes_use_the_first_nodes() -> None:
    assert laid(TaskRequest(tasks=2)).nodes == ("n1", "n2")


def test_fewer_tasks_than_the_nodes_asked_for_are_refused() -> None:
    assert refused(TaskRequest(tasks=1, nodes=2)).message == "fewer tasks than nodes"


def test_uneven_nodes_are_filled_to_what_they_have() -> None:
    assert laid(TaskRequest(tasks=9), [("a", 1), ("b", 8), ("c", 2)]).counts == (1, 6, 2)


def test_nodes_without_room_get_no_task() -> None:
    layout = laid(TaskRequest(tasks=2), [("a", 0), ("b", 2)])
    assert (layout.nodes, layout.counts) == (("b",), (2,))


def test_named_nodes_in_the_order_named() -> None:
    assert laid(TaskRequest(node_list=("n3", "n1"), tasks=2)).nodes == ("n3", "n1")


def test_a_node_outside_the_allocation_is_named() -> None:
    assert "n9" in refused(TaskRequest(node_list=("n9",))).message


def test_more_nodes_than_there_are() -> None:
    misfit = refused(TaskRequest(nodes=5))
    assert (misfit.requested, misfit.limit) == ("5 nodes", "4 nodes")
    assert refused(TaskRequest(nodes=2, node_list=("n1",))).message == "more nodes than were named"


@pytest.mark.parametrize(
    "task_request",
    [TaskRequest(tasks=17), TaskRequest(tasks=9, cpus_per_task=2), TaskRequest(tasks=5, tasks_per_node=1)],
)
def test_more_tasks_than_fit(task_request: TaskRequest) -> None:
    misfit = refused(task_request)
    assert misfit.message == "more tasks than fit into the allocation"
    assert "overcommit" in misfit.hint


def test_few_tasks_go_where_there_is_room() -> None:
    assert laid(TaskRequest(tasks=1), [("a", 0), ("b", 4)]).nodes == ("b",)


def test_overcommit_lets_tasks_share_cpus() -> None:
    assert laid(TaskRequest(tasks=64, overcommit=True)).counts == (16, 16, 16, 16)


def test_there_is_an_end_to_the_number_of_tasks() -> None:
    assert refused(TaskRequest(tasks=10**6, overcommit=True)).message == "too many tasks"


BUSY = [("n1", 0), ("n2", 4), ("n3", 0)]


@pytest.mark.parametrize(
    "task_request",
    [
        TaskRequest(),
        TaskRequest(nodes=3),
        TaskRequest(nodes=3, tasks=3),
        TaskRequest(nodes=2, tasks=4),
        TaskRequest(tasks_per_node=2),
        TaskRequest(node_list=("n1", "n2"), tasks=2),
    ],
)
def test_nodes_that_were_asked_for_are_not_replaced_by_fewer(task_request: TaskRequest) -> None:
    assert isinstance(lay_out(task_request, BUSY), Misfit)


def test_so_many_nodes_are_those_that_have_room() -> None:
    assert laid(TaskRequest(nodes=2), [("n1", 0), ("n2", 4), ("n3", 4)]).nodes == ("n2", "n3")
    layout = laid(TaskRequest(nodes=2, tasks=6), [("n1", 1), ("n2", 4), ("n3", 4)])
    assert (layout.nodes, layout.counts) == (("n2", "n3"), (3, 3))
