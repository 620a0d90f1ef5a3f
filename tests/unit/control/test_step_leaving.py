"""Nodes of a step that end before the others: who learns it, and when."""

from lattice.control.steps.leaving import AFTER_S, Leavers
from lattice.control.steps.live import LiveStep, pmi_summary, record_of
from lattice.control.steps.plan import StepPlan
from lattice.core.model.work.layout import Layout
from lattice.ports.nodes.agents import PmiUse
from lattice.ports.nodes.steps import NodesEndedOrder

NODES = ("n1", "n2", "n3")


def live_step(*open_nodes: str) -> LiveStep:
    layout = Layout(nodes=NODES, counts=(1, 1, 1))
    plan = StepPlan(number=7, run=1, step=0, launch_id="l", name="work", layout=layout, started_at=1)
    return LiveStep(
        number=7,
        run=1,
        step=0,
        launch_id="l",
        name="work",
        tasks=3,
        started_at=1,
        plan=plan,
        open_nodes=set(open_nodes),
    )


def told(live: LiveStep | None, leavers: Leavers, now_s: float) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []

    def send(node: str, order: NodesEndedOrder) -> bool:
        found.append((node, order.places))
        return True

    leavers.tell(now_s, lambda _key: live, send)
    return found


def test_the_first_node_learns_of_the_others_after_a_moment() -> None:
    leavers, live = Leavers(), live_step("n1", "n3")
    assert leavers.note(live, 10.0)
    assert not leavers.note(live, 10.5), "one order says it all"
    assert leavers.next_s == 10.0 + AFTER_S
    assert told(live, leavers, 10.9) == []
    assert told(live, leavers, 11.0) == [("n1", (1,))]
    assert leavers.next_s is None


def test_all_others_learn_that_the_first_is_over() -> None:
    leavers, live = Leavers(), live_step("n2", "n3")
    leavers.note(live, 10.0)
    assert told(live, leavers, 11.0) == [("n2", (0,)), ("n3", (0,))]


def test_nothing_is_said_of_a_step_that_has_ended_or_is_ending() -> None:
    leavers, live = Leavers(), live_step("n1")
    assert not leavers.note(live_step(), 10.0)
    leavers.note(live, 10.0)
    assert told(None, leavers, 11.0) == []
    live.is_ending = True
    assert not leavers.note(live, 12.0)


def test_the_record_tells_how_ranks_found_each_other() -> None:
    live = live_step()
    assert pmi_summary(live) == ""
    live.pmi = {
        "n1": PmiUse(kind="pmix", met=2, fences=3, bytes=1500, slowest_s=0.0123),
        "n2": PmiUse(kind="pmix", met=1, fences=3, bytes=500, slowest_s=0.002),
    }
    assert record_of(live, 99).message == "pmix: 3 ranks, 3 fences, 2,000 bytes exchanged, slowest fence 12.3 ms"
