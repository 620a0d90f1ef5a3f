"""The broker: asks for what is worth it, staggered, and only those who want to be asked."""

from collections.abc import Mapping

import pytest

from lattice.control.checkpoints.broker import CheckpointBroker
from lattice.core.machine.commands import (
    EvictAllocations,
    ExpireCheckpoint,
    HoldAllocation,
    PauseAllocation,
    RaiseLevel,
    ReportCheckpoint,
    RequestCheckpoint,
    SetSetting,
)
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointReason, CheckpointStrategy, CheckpointWay
from lattice.testing import scenario
from tests.unit.control.world import World

AUTO, MANUAL = CheckpointWay(), CheckpointWay(strategy=CheckpointStrategy.MANUAL)
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
P = CheckpointPhase


class Scene:
    """A cluster with a broker and a run on n1 that uses a gigabyte."""

    def __init__(self) -> None:
        self.world = World()
        self.figures: Mapping[str, float] = {"memory_used": 1e9}
        self.observations = Observations()
        self.is_away = False
        self.broker = CheckpointBroker(
            self.world.replica,
            self.world.clock,
            self.observations,
            lambda number, run: self.figures,
            lambda: self.is_away,
        )

    async def prepare(self, **fields: object) -> int:
        await self.world.do(RaiseLevel(level=2))
        await self.world.prepare("n1", "n2", "n3")
        await self.setting("root", "/ck")
        await self.setting("timeout_s", "1000")
        return await self.running("n1", **fields)

    async def running(self, *nodes: str, **fields: object) -> int:
        usual = {"checkpoint": AUTO, "walltime_s": int(10 * DAY_S)}
        return await self.world.running(*nodes, **{**usual, **fields})  # type: ignore[arg-type]

    async def setting(self, name: str, value: str) -> None:
        await self.world.do(SetSetting(key=f"checkpoint.{name}", value=value))

    async def write(self, number: int, size: int = 10**9, elapsed_s: float = 1.0) -> None:
        record = self.world.allocation(number)
        for phase in (P.DONE, P.SEALED):
            await self.world.do(
                ReportCheckpoint(
                    number=number,
                    run=record.run,
                    n=record.checkpoints.last_n,
                    node=record.nodes[0],
                    phase=phase,
                    bytes=size,
                    elapsed_s=elapsed_s,
                )
            )


@scenario
async def test_work_is_asked_when_it_is_worth_it_and_not_again_at_once() -> None:
    scene = Scene()
    number = await scene.prepare()
    assert await scene.broker.look() == []
    scene.world.clock.pass_s(HOUR_S)
    assert await scene.broker.look() == [number]
    opened = scene.world.allocation(number).checkpoints.open
    assert opened is not None
    assert (opened.reason, opened.stops, opened.by) == (CheckpointReason.BROKER, False, "checkpoint-broker")
    assert await scene.broker.look() == []
    await scene.write(number)
    scene.world.clock.pass_s(60)
    assert await scene.broker.look() == []


@scenario
async def test_manual_paused_and_leaving_work_is_not_asked() -> None:
    scene = Scene()
    manual = await scene.prepare(checkpoint=MANUAL)
    none = await scene.running("n2", checkpoint=None)
    number = await scene.running("n3")
    scene.world.clock.pass_s(DAY_S)
    await scene.world.do(PauseAllocation(number=number, is_paused=True))
    assert await scene.broker.look() == []
    await scene.world.do(PauseAllocation(number=number, is_paused=False))
    high = await scene.world.submit(preemption_class=9, walltime_s=int(10 * DAY_S))
    share = (Share(node="n3"),)
    await scene.world.do(EvictAllocations(number=high, run=1, victims=((number, 1),), shares=share))
    assert await scene.broker.look() == []
    assert scene.world.allocation(manual).state is scene.world.allocation(none).state is AllocationState.RUNNING


@scenario
async def test_without_a_place_no_work_is_asked() -> None:
    scene = Scene()
    await scene.prepare()
    scene.world.clock.pass_s(DAY_S)
    await scene.setting("root", "")
    assert await scene.broker.look() == []
    assert scene.broker.minutes() == {}


@scenario
async def test_waiting_work_of_a_higher_class_brings_it_forward_and_held_work_does_not() -> None:
    scene = Scene()
    number = await scene.prepare()
    scene.world.clock.pass_s(90)
    assert await scene.broker.look() == []
    high = await scene.world.submit(preemption_class=9)
    await scene.world.do(HoldAllocation(number=high))
    assert await scene.broker.look() == []
    await scene.world.submit(preemption_class=2, tasks=((0, 5, 1),))
    assert await scene.broker.look() == []
    await scene.world.submit(preemption_class=9)
    assert await scene.broker.look() == [number]


@scenario
async def test_a_sick_node_brings_it_forward() -> None:
    scene = Scene()
    number = await scene.prepare()
    scene.observations.greet("n1", 0.0)
    scene.observations.hear("n1", 0.0, Beat(seq=1, memory_errors=7))
    scene.world.clock.pass_s(600)
    assert await scene.broker.look() == [], "old errors say nothing"
    scene.observations.hear("n1", 0.0, Beat(seq=2, memory_errors=8))
    assert await scene.broker.look() == [number]
    await scene.write(number)
    scene.world.clock.pass_s(3 * HOUR_S)
    scene.observations.hear("n1", 0.0, Beat(seq=3, memory_errors=8, failing_checks=1))
    assert await scene.broker.look() == [number]


@scenario
async def test_the_end_of_the_walltime_is_a_reason_of_its_own() -> None:
    scene = Scene()
    number = await scene.prepare(walltime_s=1000)
    scene.world.clock.pass_s(900)
    assert await scene.broker.look() == [number]
    assert scene.world.allocation(number).checkpoints.open.reason is CheckpointReason.WALLTIME  # type: ignore[union-attr]


@scenario
async def test_the_true_size_and_time_replace_the_guess() -> None:
    scene = Scene()
    number = await scene.prepare()
    await scene.broker.look()
    assert scene.broker.minutes()[number] == pytest.approx(1 / 60)
    scene.figures = {"gpu_memory_used": 60e9, "memory_used": 1e9}
    await scene.broker.look()
    assert scene.broker.minutes()[number] == pytest.approx(1.0)
    scene.figures = {}
    await scene.broker.look()
    assert scene.broker.minutes()[number] == pytest.approx(1.0), "not known"
    scene.world.clock.pass_s(DAY_S)
    await scene.broker.look()
    await scene.write(number, elapsed_s=120.0)
    other = await scene.running("n2")
    scene.figures = {"memory_used": 1e9}
    await scene.broker.look()
    assert scene.broker.minutes() == {number: pytest.approx(2.0), other: pytest.approx(2.0)}, "as fast as the first"
    scene.world.clock.pass_s(DAY_S)
    await scene.world.do(RequestCheckpoint(number=other))
    await scene.write(other, size=10**9, elapsed_s=1.0)
    third = await scene.running("n3")
    await scene.broker.look()
    assert 0 < scene.broker.minutes()[third] < 2.0


@scenario
async def test_requests_are_staggered_within_the_bandwidth() -> None:
    scene = Scene()
    first = await scene.prepare()
    second = await scene.running("n2")
    scene.figures = {"memory_used": 10e9}
    await scene.setting("max_bandwidth", str(10**9))
    scene.world.clock.pass_s(DAY_S)
    assert await scene.broker.look() == [first]
    assert await scene.broker.look() == []
    await scene.write(first, size=10**10, elapsed_s=10.0)
    assert await scene.broker.look() == [second]


@scenario
async def test_after_a_failure_it_waits_before_it_asks_again() -> None:
    scene = Scene()
    number = await scene.prepare()
    scene.world.clock.pass_s(DAY_S)
    await scene.broker.look()
    await scene.world.do(ExpireCheckpoint(number=number, n=1, message="full"))
    assert await scene.broker.look() == []
    scene.world.clock.pass_s(61)
    assert await scene.broker.look() == [number]


@scenario
async def test_while_the_storage_is_away_no_work_is_asked() -> None:
    scene = Scene()
    number = await scene.prepare()
    scene.world.clock.pass_s(DAY_S)
    scene.is_away = True
    assert await scene.broker.look() == []
    scene.is_away = False
    assert await scene.broker.look() == [number]


@scenario
async def test_a_broker_that_is_switched_off_has_no_estimates() -> None:
    scene = Scene()
    number = await scene.prepare()
    await scene.broker.look()
    assert number in scene.broker.minutes()
    await scene.setting("every_s", "0")
    await scene.broker._turn()
    assert scene.broker.minutes() == {}
