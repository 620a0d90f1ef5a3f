"""Before a checkpoint was written, the broker asks a node how fast the storage is; what was written counts more."""

from lattice.control.checkpoints.broker import PROBE_EVERY_S, CheckpointBroker
from lattice.core.machine.commands import RaiseLevel, SetSetting
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.ports.nodes.checkpoints import PROBED, CheckpointReport
from lattice.ports.nodes.run_keys import RunKey
from lattice.testing import scenario
from tests.unit.control.world import World

MEMORY = 1.2e11


async def site() -> tuple[World, CheckpointBroker, int]:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    number = await world.running("n1", checkpoint=CheckpointWay())
    figures = {"memory_used": MEMORY}
    made = CheckpointBroker(world.replica, world.clock, Observations(), lambda number, run: figures, links=world.links)
    return world, made, number


def said(number: int, elapsed_s: float) -> CheckpointReport:
    return CheckpointReport(key=RunKey(number, 1), n=0, phase=PROBED, bytes=8_000_000, elapsed_s=elapsed_s)


@scenario
async def test_a_node_with_such_work_measures_and_the_estimate_follows() -> None:
    world, made, number = await site()
    await made.look()
    ((node, order),) = world.links.checkpoints
    assert (node, order.probe, order.root) == ("n1", True, "/ck")
    assert made.minutes()[number] == 2.0, "120 GB at 1 GB/s"
    made.probed("n2", said(number, 8.0))
    await made.look()
    assert made.minutes()[number] == 2.0, "that node was not asked"
    made.probed("n1", said(number, 0.04))
    await made.look()
    assert made.minutes()[number] == 10.0, "200 MB/s"
    assert len(world.links.checkpoints) == 1


@scenario
async def test_it_is_asked_again_after_an_hour_and_absurd_answers_are_bounded() -> None:
    world, made, number = await site()
    await made.look()
    made.probed("n1", said(number, 1e-12))
    await made.look()
    assert 0 < made.minutes()[number] < 1
    world.clock.pass_s(PROBE_EVERY_S + 1)
    await made.look()
    assert len(world.links.checkpoints) == 2
