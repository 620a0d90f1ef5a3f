"""Containers that steps named: only nodes that can make them get such steps, and all of them hear when the run is over."""

import pytest

from lattice.core.machine.commands import CancelAllocation
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.nodes.steps import DropContainersOrder, LaunchOrder, StepRefused
from lattice.testing import scenario
from tests.unit.control.test_steps import Book
from tests.unit.control.world import World

NAMED = ContainerOrder(image=ImageOrder(reference="a", digest="d" * 64, source="/a"), name="tools")


async def book(*features: str) -> Book:
    registry = Book(World())
    registry.features = features
    await registry.begin()
    return registry


async def end(registry: Book) -> None:
    await registry.world.do(CancelAllocation(number=registry.number))
    await registry.world.ended(registry.number, "n1")


@scenario
async def test_nodes_that_keep_a_container_hear_when_the_run_is_over() -> None:
    registry = await book("container", "step_container")
    await registry.launch(tasks=2, container=NAMED)
    launched = [order for _, order in registry.orders() if isinstance(order, LaunchOrder)]
    assert [order.container for order in launched] == [NAMED, NAMED]
    assert registry.sent(DropContainersOrder) == []
    await end(registry)
    assert registry.sent(DropContainersOrder) == ["n1", "n2"]
    dropped = [order.key for _, order in registry.orders() if isinstance(order, DropContainersOrder)]
    assert set(dropped) == {RunKey(registry.number, 1)}


@scenario
async def test_next_leader_hears_from_the_nodes_what_they_keep() -> None:
    registry = await book("container", "step_container")
    await registry.launch(tasks=2, container=NAMED)
    registry.registry = registry.make()
    registry.registry.registered("n2", (), (RunKey(registry.number, 1), RunKey(99, 1)))
    await end(registry)
    dropped = [(node, order.key.number) for node, order in registry.orders() if isinstance(order, DropContainersOrder)]
    # The registry before this one lives on in the test and speaks as well; what only the new one can have said is the last word.
    assert dropped[-1] == ("n2", registry.number)
    assert 99 not in {number for _, number in dropped}


@scenario
async def test_container_without_a_name_is_nothing_to_tell_of() -> None:
    registry = await book("container", "step_container")
    await registry.launch(tasks=2, container=ContainerOrder(image=NAMED.image))
    await end(registry)
    assert registry.sent(DropContainersOrder) == []


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ((), "nodes n1, n2: no container runtime"),
        (("container",), "nodes n1, n2: cannot give a step a container of its own yet"),
    ],
)
def test_nodes_that_cannot_make_it_are_named(features: tuple[str, ...], message: str) -> None:
    @scenario
    async def check() -> None:
        registry = await book(*features)
        with pytest.raises(StepRefused, match=message):
            await registry.launch(tasks=2, container=NAMED)
        assert registry.orders() == []

    check()
