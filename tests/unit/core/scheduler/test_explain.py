"""The one sentence that answers why something waits."""

import pytest

from lattice.core.machine.commands import DegradeNode, DisableNode, DrainNode, RegisterNode
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.work.allocations import Hold, Request
from tests.unit.core.scheduler.world import HOUR, FirstCome, nodes_of, reason


def test_without_nodes() -> None:
    world = FirstCome()
    first, second = world.submit(), world.submit()
    plan = world.plan()
    assert reason(plan, first) == reason(plan, second) == "no nodes registered"
    assert plan.explanations.behind_others() == frozenset()


def test_a_vcluster_without_nodes() -> None:
    world = FirstCome()
    number = world.submit(vcluster="default")
    world.set_vcluster("default", nodes=("n7",))
    world.add_node("n1")
    assert reason(world.plan(), number) == "vCluster default has no nodes"


def test_more_nodes_than_suit() -> None:
    world = FirstCome()
    number = world.submit(Request(nodes=2, features=("nvme",)))
    world.add_node("n1", features=("nvme",))
    world.add_node("n2")
    text = reason(world.plan(), number)
    assert text == "no nodes matching constraints: 1 of 2 nodes of vCluster default suit the request, 2 requested"


def test_figures_of_a_mixed_machine() -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(8)])
    busy = world.submit(Request(nodes=2), walltime_s=8400)
    world.place(busy, "n6", "n7")
    world.report_running(busy)
    world.do(DrainNode(node="n0"))
    world.do(DrainNode(node="n1"))
    world.do(DegradeNode(node="n2"))
    world.do(DisableNode(node="n3"))
    world.do(RegisterNode(node="n8", hardware=Hardware(cpus=4, memory_mb=4000)))
    number = world.submit(Request(nodes=4))
    text = reason(world.plan(), number)
    figures = "all suitable nodes occupied: 2 of 9 nodes free, 2 drained, 1 down, 1 degraded, 1 booting, 2 busy"
    assert text == f"{figures}; the 4th is free at 14:20 UTC"


def test_nodes_that_are_not_connected_are_named() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    world.observations = Observations()
    number = world.submit()
    text = reason(world.plan(), number)
    assert (
        text
        == "all suitable nodes occupied: 0 of 2 nodes free, 2 not connected; when the 1st will be free is not known"
    )


def test_a_start_on_another_day_has_its_date() -> None:
    world = FirstCome()
    world.add_node("n1")
    first = world.submit(walltime_s=86400)
    world.run_cycle()
    world.report_running(first)
    number = world.submit()
    explanation = world.plan().explain(number)
    assert explanation is not None
    assert (
        explanation.reason
        == "all suitable nodes occupied: 0 of 1 node free, 1 busy; the 1st is free at 2026-03-06 12:00 UTC"
    )
    assert explanation.detail == "kept for it: n1"
    assert explanation.predicted_start == world.now + 24 * HOUR


def test_a_long_list_of_kept_nodes_is_cut_short() -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(10)])
    world.submit(Request(nodes=10))
    world.run_cycle()
    number = world.submit(Request(nodes=10))
    explanation = world.plan().explain(number)
    assert explanation is not None
    assert explanation.detail == "kept for it: n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"


def test_those_behind_the_first_are_told_how_many_are_ahead() -> None:
    world = FirstCome()
    world.set_vcluster("default", backfill_depth=1)
    world.add_node("n1")
    numbers = [world.submit() for _ in range(5)]
    plan = world.plan()
    assert list(nodes_of(plan)) == numbers[:1]
    assert reason(plan, numbers[1]).startswith("all suitable nodes occupied: 0 of 1 node free, 1 busy")
    ranks = [plan.explanations[number].rank for number in numbers[1:]]
    assert ranks == [0, 1, 2, 3]
    assert reason(plan, numbers[2]) == "waiting behind 1 other"
    assert reason(plan, numbers[4]) == "waiting behind 3 others"
    assert plan.explanations.behind_others() == frozenset(numbers[2:])


@pytest.mark.parametrize(("hold", "text"), [(Hold.USER, "held by user"), (Hold.OPERATOR, "held by operator")])
def test_a_hold_names_who_holds(hold: Hold, text: str) -> None:
    world = FirstCome()
    number = world.submit(hold=hold)
    assert reason(world.plan(), number) == text


def test_a_later_start_is_named() -> None:
    world = FirstCome()
    number = world.submit(eligible_at=world.now + HOUR)
    assert reason(world.plan(), number) == "not before 2026-03-05T13:00:00Z"


def test_every_waiting_allocation_has_an_explanation_and_no_other() -> None:
    world = FirstCome()
    world.add_node("n1")
    placed, waiting, held = world.submit(), world.submit(), world.submit(hold=Hold.USER)
    plan = world.plan()
    assert set(plan.explanations) == {waiting, held}
    assert len(plan.explanations) == 2
    assert plan.explain(placed) is plan.explain(held + 1) is plan.explain(0) is None


def test_a_task_is_explained_by_its_own_number_while_it_waits() -> None:
    world = FirstCome()
    world.add_node("n1")
    group = world.submit(tasks=((0, 2, 1),))
    plan = world.plan()
    assert list(nodes_of(plan)) == [group + 1]
    assert plan.explain(group + 1) is None
    assert reason(plan, group + 2) == reason(plan, group)
    assert plan.explain(group + 4) is None


@pytest.mark.parametrize(
    ("nodes", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_the_last_node_is_counted_in_words(nodes: int, word: str) -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(nodes)])
    world.submit(Request(nodes=nodes))
    world.run_cycle()
    number = world.submit(Request(nodes=nodes))
    assert f"the {word} is free at 13:00 UTC" in reason(world.plan(), number)


def test_nodes_kept_for_itself_count_as_free() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    busy = world.submit(walltime_s=8400)
    world.place(busy, "n1")
    world.report_running(busy)
    number = world.submit(Request(nodes=3))
    explanation = world.plan().explain(number)
    assert explanation is not None
    assert explanation.reason == "all suitable nodes occupied: 2 of 3 nodes free, 1 busy; the 3rd is free at 14:20 UTC"
    assert explanation.predicted_nodes == ("n1", "n2", "n3")
    assert explanation.scores["total"] > 0


def test_the_type_of_gpu_is_named() -> None:
    world = FirstCome()
    world.add_node("n1", gpus=4, gpu_type="GH200")
    world.add_node("n2", gpus=4, gpu_type="GH200")
    world.add_node("n3")
    first, second = (world.submit(Request(nodes=2, gpu_type="GH200")) for _ in range(2))
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [first]
    text = reason(plan, second)
    assert text == "all suitable nodes occupied: 0 of 2 GH200 nodes free, 2 busy; the 2nd is free at 13:00 UTC"


def test_a_conformance_group_that_is_too_small_is_named() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    world.cycle.signals = Signals(fingerprints={"n1": "a", "n2": "a", "n3": "b"})
    number = world.submit(Request(nodes=3, require_conformance=True))
    text = reason(world.plan(), number)
    assert text.startswith("insufficient conformance group: 2 of 3 requested nodes are alike; 3 of 3 nodes free")
    world.cycle.signals = Signals(fingerprints={})
    assert reason(world.plan(), number).startswith("insufficient conformance group: 1 of 3 requested nodes are alike")
