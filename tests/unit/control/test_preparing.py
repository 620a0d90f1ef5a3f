"""The entrypoint's node is prepared with the others, and starts its process when the last of them is ready."""

import pytest
from msgspec.structs import replace

from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.core.machine.commands import ConfirmNode, RaiseLevel, RegisterNode
from lattice.core.model.work.asked import Asked
from lattice.ports.nodes.agents import RunKey, StartOrder, StopOrder, UpdateOrder
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World


async def _placed(asked: Asked | None = None, *, stages_out: bool = False) -> tuple[World, Dispatch, int]:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(RaiseLevel(level=2))
    for node in ("n1", "n2"):
        await world.do(RegisterNode(node=node, hardware=replace(HARDWARE, features=("prologue",))))
        await world.do(ConfirmNode(node=node))
    orders = Dispatch(world.replica, world.links, world.clock, DispatchSettings(), lambda allocation: "token")
    number = await world.submit(nodes=2, walltime_s=60, stages_out=stages_out, asked=asked)
    await world.place(number, "n1", "n2")
    await orders.send_due()
    return world, orders, number


def _starts(world: World) -> dict[str, StartOrder]:
    return {node: order for node, order in world.links.take() if isinstance(order, StartOrder)}


@scenario
async def test_both_are_prepared_at_once_and_the_entrypoint_waits() -> None:
    world, orders, number = await _placed()
    first = _starts(world)
    assert (first["n1"].awaits, first["n1"].holds, first["n1"].argv) == (True, False, ("true",))
    assert (first["n2"].awaits, first["n2"].holds, first["n2"].walltime_s) == (False, True, 0.0)
    await world.started(number, "n2")
    await orders.send_due()
    again = _starts(world)
    assert (list(again), again["n1"].awaits) == (["n1"], False)


@scenario
async def test_a_node_that_is_only_prepared_has_no_limit_of_time() -> None:
    world, orders, number = await _placed()
    await world.started(number, "n2")
    await world.started(number, "n1")
    world.links.take()
    for node in ("n1", "n2"):
        orders.node_opened(node)
    await orders.send_due()
    limits = {node: order.walltime_s for node, order in world.links.take() if isinstance(order, UpdateOrder)}
    assert limits == {"n1": 60.0, "n2": 0.0}


@scenario
async def test_a_node_that_was_only_prepared_is_cleared_while_the_first_one_copies_results() -> None:
    world, orders, number = await _placed(stages_out=True)
    await world.started(number, "n2")
    await world.started(number, "n1")
    await orders.send_due()
    world.links.take()
    orders.results_are_copied("n2", RunKey(number, 1))
    await orders.send_due()
    assert not [order for _, order in world.links.take() if isinstance(order, StopOrder)]
    orders.results_are_copied("n1", RunKey(number, 1))
    for _ in range(2):  # the verdict, and what follows from it
        await orders.send_due()
    stops = [(node, order.why) for node, order in world.links.take() if isinstance(order, StopOrder)]
    assert stops == [("n2", "its work has ended, and its results are being copied")]


@pytest.mark.parametrize("program", ["srun", "salloc"])
def test_what_only_holds_nodes_has_no_process_and_keeps_its_limit_on_the_first(program: str) -> None:
    @scenario
    async def placed() -> None:
        world, _, _ = await _placed(Asked(program=program))
        first = _starts(world)
        assert (first["n1"].awaits, first["n1"].holds, first["n1"].walltime_s) == (True, True, 60.0)
        assert (first["n2"].holds, first["n2"].walltime_s) == (True, 0.0)

    placed()
