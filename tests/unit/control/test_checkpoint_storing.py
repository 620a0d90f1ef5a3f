"""Copies of checkpoints in the object store: ordered of nodes until one is made, recorded, and removed when they are not kept."""

from pathlib import Path

from lattice.control.checkpoints.orders import checkpoint_setup
from lattice.control.checkpoints.storing import AGAIN_S, PAUSE_S, CheckpointStoring
from lattice.core.machine.commands import (
    RaiseLevel,
    ReportCheckpoint,
    RequestCheckpoint,
    RequeueAllocation,
    SetSetting,
)
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointWay
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.nodes.checkpoints import STORED, UNSTORED, WRITES, CheckpointOrder, CheckpointReport
from lattice.ports.nodes.run_keys import RunKey
from lattice.testing import scenario
from tests.unit.control.world import World


class Site:
    def __init__(self, world: World, number: int, folder: Path) -> None:
        self.world, self.number = world, number
        self.objects = DirectoryStore(folder)
        self.nodes = ["n1", "n2"]
        self.made = self.leader()

    def leader(self) -> CheckpointStoring:
        world = self.world
        return CheckpointStoring(
            world.replica,
            world.links,
            world.clock,
            self.objects,
            lambda prefix, node: f"{prefix} for {node}",
            lambda: self.nodes,
        )

    @property
    def above(self) -> str:
        return f"default/-/a{self.number}/checkpoints"

    async def complete(self) -> None:
        """One more checkpoint of the work."""
        await self.world.do(RequestCheckpoint(number=self.number))
        known = self.world.allocation(self.number).checkpoints
        for phase in (CheckpointPhase.DONE, CheckpointPhase.SEALED):
            await self.world.do(
                ReportCheckpoint(number=self.number, run=1, n=known.last_n, node="n1", phase=phase, elapsed_s=1.0)
            )

    async def orders(self) -> list[tuple[str, CheckpointOrder]]:
        await self.made.turn()
        taken, self.world.links.checkpoints = self.world.links.checkpoints, []
        return taken

    async def say(self, node: str, phase: str, n: int = 1) -> None:
        self.made.report(node, CheckpointReport(key=RunKey(self.number, 1), n=n, phase=phase, message="full"))
        await self.made.turn()

    def stored(self) -> list[int]:
        return [each.n for each in self.world.allocation(self.number).checkpoints.kept if each.is_stored]


async def site(folder: Path, *, is_on: bool = True) -> Site:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    if is_on:
        await world.do(SetSetting(key="checkpoint.upload", value="true"))
    number = await world.running("n1", checkpoint=CheckpointWay())
    return Site(world, number, folder)


@scenario
async def test_the_node_that_sealed_it_copies_it_and_the_log_knows(tmp_path: Path) -> None:
    place = await site(tmp_path)
    await place.complete()
    ((node, order),) = await place.orders()
    objects = f"{place.above}/1"
    assert (node, order.store, order.root, order.path) == ("n1", True, "/ck", f"/ck/{objects}")
    assert (order.objects, order.grant) == (objects, f"{WRITES}{objects} for n1")
    assert await place.orders() == []
    place.world.clock.pass_s(AGAIN_S + 1)
    assert [node for node, _ in await place.orders()] == ["n1"], "it may not have got the order"
    await place.say("n2", STORED)
    assert place.stored() == [], "nobody asked that node"
    await place.say("n1", STORED)
    assert place.stored() == [1]
    place.world.clock.pass_s(AGAIN_S + 1)
    assert await place.orders() == []


@scenario
async def test_after_a_failure_it_pauses_and_asks_another_node_that_may_see_the_directory(tmp_path: Path) -> None:
    place = await site(tmp_path)
    failed: list[None] = []
    place.made.on_failed = lambda: failed.append(None)
    await place.complete()
    assert len(await place.orders()) == 1
    await place.say("n1", UNSTORED)
    assert await place.orders() == []
    place.world.clock.pass_s(PAUSE_S + 1)
    assert [node for node, _ in await place.orders()] == ["n2"]
    await place.say("n2", STORED)
    assert place.stored() == [1]
    assert len(failed) == 1


@scenario
async def test_the_next_leader_continues_and_the_newest_one_is_enough(tmp_path: Path) -> None:
    place = await site(tmp_path)
    await place.complete()
    await place.complete()
    place.nodes = ["n2"]
    place.made = place.leader()
    assert [(node, order.n) for node, order in await place.orders()] == [("n2", 2)], "its own node is away"


@scenario
async def test_nothing_is_copied_while_the_setting_is_off_and_what_is_there_follows_it(tmp_path: Path) -> None:
    place = await site(tmp_path, is_on=False)
    await place.complete()
    assert await place.orders() == []
    await place.world.do(SetSetting(key="checkpoint.upload", value="true"))
    assert len(await place.orders()) == 1


@scenario
async def test_copies_go_with_the_checkpoints_that_are_not_kept(tmp_path: Path) -> None:
    place = await site(tmp_path)
    for n in (1, 2, 3):
        await place.complete()
        assert len(await place.orders()) == 1
        for name in ("files/state", "contents.json"):
            await place.objects.put(f"{place.above}/{n}/{name}", b"x")
        await place.say("n1", STORED, n)
    left = [name async for name in place.objects.names("default/")]
    assert sorted({name.split("/")[4] for name in left}) == ["2", "3"], "two are kept"


@scenario
async def test_the_next_run_is_told_where_the_copy_is_and_whether_to_wait_for_it(tmp_path: Path) -> None:
    place = await site(tmp_path)
    await place.complete()
    await place.world.do(RequeueAllocation(number=place.number))
    await place.world.ended(place.number, "n1")
    record = place.world.allocation(place.number)
    setup = checkpoint_setup(place.world.state, record)
    assert setup is not None
    assert (setup.objects, setup.is_awaited) == (f"{place.above}/1", True)
    assert len(await place.orders()) == 1
    await place.say("n1", STORED)
    setup = checkpoint_setup(place.world.state, place.world.allocation(place.number))
    assert setup is not None
    assert not setup.is_awaited
