"""Placement beside nodes that differ from their baseline: avoided where others suffice, barred for sensitive work."""

import pytest

from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import World, nodes_of, reason

ALIKE = {"n1": "a", "n2": "a", "n3": "a", "n4": "a"}


def machine(drifted: frozenset[str] = frozenset({"n1"}), **changes: str) -> World:
    world = World()
    world.add_nodes(sorted(ALIKE))
    world.cycle.signals = Signals(fingerprints={**ALIKE, **changes}, drifted=drifted)
    return world


@pytest.mark.parametrize("request_", [Request(nodes=1), Request(nodes=3), Request(nodes=2, max_nodes=4)])
def test_work_avoids_a_node_that_differs(request_: Request) -> None:
    world = machine(n1="b")
    number = world.submit(request_)
    assert "n1" not in nodes_of(world.plan())[number]


def test_shares_avoid_it_too() -> None:
    world = World(sharing=NodeSharing.SHARED)
    world.add_nodes(["n1", "n2"])
    world.cycle.signals = Signals(drifted=frozenset({"n1"}))
    numbers = [world.submit(Request(nodes=1, cpus=2)) for _ in range(3)]
    placed = nodes_of(world.plan())
    assert [placed[number] for number in numbers] == [("n2",), ("n2",), ("n1",)]


def test_it_is_used_where_nothing_else_suffices() -> None:
    world = machine(n1="b")
    number = world.submit(Request(nodes=4))
    assert nodes_of(world.plan())[number] == ("n1", "n2", "n3", "n4")


def test_nodes_that_must_be_alike_may_all_differ_from_the_baseline() -> None:
    world = machine(frozenset({"n1", "n2"}), n1="b", n2="b", n3="c")
    number = world.submit(Request(nodes=2, require_conformance=True))
    assert nodes_of(world.plan())[number] == ("n1", "n2")


def test_nodes_that_must_be_alike_are_taken_from_those_that_are_right() -> None:
    world = machine(frozenset({"n1", "n2"}), n1="b", n2="b")
    number = world.submit(Request(nodes=2, require_conformance=True))
    assert nodes_of(world.plan())[number] == ("n3", "n4")


def test_a_node_that_is_not_there_yet_may_have_drifted() -> None:
    world = machine(frozenset({"n9"}))
    number = world.submit(Request(nodes=4))
    assert len(nodes_of(world.plan())[number]) == 4


def test_a_vcluster_may_not_use_what_is_excluded_and_says_so() -> None:
    world = machine()
    world.cycle.signals = Signals(fingerprints=ALIKE, excluded={"default": frozenset({"n1", "n2"})})
    few, many = world.submit(Request(nodes=2)), world.submit(Request(nodes=3))
    plan = world.plan()
    assert nodes_of(plan)[few] == ("n3", "n4")
    assert reason(plan, many).startswith(
        "all suitable nodes occupied: 0 of 4 nodes free, 2 not of the baseline, 2 busy"
    )
