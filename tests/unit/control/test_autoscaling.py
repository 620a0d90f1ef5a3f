"""The loop that scales services: one node at a time, by a metric that is known, inside quotas, and slower after refusals."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from lattice.control.services.scaling import Autoscaling
from lattice.core.machine.commands import (
    AnyCommand,
    ReportCheckpoint,
    ReportPart,
    RequestCheckpoint,
    ReviseService,
    SetSetting,
    SetTenant,
)
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.services.scaling import ScalePolicy, ScaleStanding
from lattice.core.model.work.allocations import Allocation, Lifecycle, PartPhase
from lattice.core.model.work.checkpoints import (
    ROOT,
    CheckpointPhase,
    Checkpoints,
    CheckpointStrategy,
    CheckpointWay,
)
from lattice.testing import scenario
from tests.unit.control.test_service_instances import serving
from tests.unit.control.world import World

POLICY = ScalePolicy(
    min_nodes=1,
    max_nodes=3,
    metric="in_flight",
    target=2.0,
    up_window_s=10,
    down_window_s=20,
    interval_s=5,
    cooldown_s=5,
)


@dataclass
class Scaled:
    """Services of one node each that are scaled by what `values` says."""

    world: World
    numbers: list[int]
    values: dict[int, float] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    alternating_now: int = 0
    observations: Observations = field(default_factory=Observations)
    loop: Autoscaling = field(init=False)

    @classmethod
    async def prepared(cls, *nodes: str, services: int = 1) -> "Scaled":
        world = World()
        await world.prepare(*nodes)
        numbers = [await serving(world, node) for node in nodes[:services]]
        for number in numbers:
            changed = replace(world.allocation(number), scaling=POLICY, lifecycle=Lifecycle.REACTIVE)
            world.state.put_allocation(changed)
        made = cls(world, numbers)
        for node in nodes:
            made.observations.greet(node, 0.0)
            made.observations.admit(node)
        made.loop = Autoscaling(world.replica, made.observations, world.clock, made.read, made)
        world.clock.pass_s(60)
        return made

    async def read(self, records: Sequence[Allocation]) -> dict[int, float]:
        return {each.number: self.values[each.number] for each in records if each.number in self.values}

    def query_failed(self, in_a_row: int) -> None:
        self.failures.append(in_a_row)

    def scaled(self, step: int) -> None:
        self.steps.append(step)

    def alternating(self, count: int) -> None:
        self.alternating_now = count

    @property
    def number(self) -> int:
        return self.numbers[0]

    @property
    def record(self) -> Allocation:
        return self.world.allocation(self.number)

    @property
    def standing(self) -> ScaleStanding:
        found = self.observations.scaling.get(self.number)
        assert found is not None
        return found

    async def at(self, value: float | None, seconds: int = 5, times: int = 1) -> None:
        self.values = {} if value is None else dict.fromkeys(self.numbers, value)
        for _ in range(times):
            await self.loop.evaluate_due()
            await self.follow_orders()
            self.world.clock.pass_s(seconds)

    async def follow_orders(self) -> None:
        """Nodes start and end what they are told to."""
        for part in self.record.parts:
            if part.phase in (PartPhase.ASSIGNED, PartPhase.LEAVING):
                is_end = part.phase is PartPhase.LEAVING
                phase = PartPhase.ENDED if is_end else PartPhase.RUNNING
                told = ReportPart(
                    number=self.number, run=1, node=part.node, seq=part.seq + 1, phase=phase, stopped=is_end, signal=15
                )
                await self.world.do(told)


@scenario
async def test_it_grows_one_by_one_to_its_maximum_and_gives_the_newest_back_first() -> None:
    made = await Scaled.prepared("n1", "n2", "n3", "n4")
    sizes = []
    for _ in range(10):
        await made.at(9.0)
        sizes.append(len(made.record.nodes))
    assert (sizes[0], sizes[2], sizes[-1], made.steps) == (1, 2, 3, [1, 1])
    assert "its maximum of 3 nodes" in made.standing.reason
    newest = made.record.nodes[-1]
    await made.at(0.1, times=5)
    assert newest not in made.record.nodes
    await made.at(0.1, times=8)
    assert (made.record.nodes, made.steps) == (("n1",), [1, 1, -1, -1])
    assert "its minimum of 1 nodes" in made.standing.reason


@scenario
async def test_without_a_metric_nothing_is_done_and_the_window_begins_anew() -> None:
    made = await Scaled.prepared("n1", "n2")
    await made.at(9.0, times=2)
    await made.at(None, times=3)
    assert (made.failures, len(made.record.nodes)) == ([1, 2, 3], 1)
    assert (made.standing.value, made.standing.decision) == (None, "hold")
    assert "is not known" in made.standing.reason
    await made.at(9.0, times=2)
    assert len(made.record.nodes) == 1, "what was seen before does not count"
    await made.at(9.0)
    assert (len(made.record.nodes), made.failures) == (2, [1, 2, 3])


@scenario
async def test_no_node_and_a_quota_are_said_and_nothing_is_refused() -> None:
    made = await Scaled.prepared("n1")
    await made.at(9.0, times=4)
    assert "no free node suits it" in made.standing.reason
    made = await Scaled.prepared("n1", "n2")
    tenant = made.world.state.tenants[made.record.tenant]
    await made.world.do(SetTenant(tenant=replace(tenant, max_nodes=1)))
    await made.at(9.0, times=4)
    assert (len(made.record.nodes), "max_nodes" in made.standing.reason) == (1, True)
    assert made.standing.value == 9.0
    await made.world.do(SetTenant(tenant=replace(tenant, max_nodes=5)))
    await made.at(9.0, times=2)
    assert len(made.record.nodes) == 2, "it continues by itself"


@scenario
async def test_three_refusals_make_it_wait_for_two_cooldowns() -> None:
    made = await Scaled.prepared("n1", "n2")
    asked = 0
    real = made.world.replica.propose_many

    async def refusing(commands: Sequence[object], actor: str) -> list[object]:
        nonlocal asked
        asked += 1
        return [Rejected(code="stale", message="node n2 cannot be given") for _ in commands]

    made.world.replica.propose_many = refusing  # type: ignore[method-assign, assignment]
    await made.at(9.0, times=6)
    assert (asked, "refused 3 times" in made.standing.reason) == (3, True)
    made.world.replica.propose_many = real  # type: ignore[method-assign]
    await made.at(9.0, times=2)
    assert len(made.record.nodes) == 2


@scenario
async def test_it_waits_for_an_update_and_for_instances_on_their_way() -> None:
    made = await Scaled.prepared("n1", "n2", "n3")
    await made.at(9.0, times=2)
    await made.world.do(ReviseService(number=made.number, base=0, payload=b"two"))
    await made.at(9.0, times=2)
    assert (len(made.record.nodes), "is being updated" in made.standing.reason) == (1, True)


@scenario
async def test_a_service_that_ended_is_followed_no_more_and_alternating_ones_are_counted() -> None:
    made = await Scaled.prepared("n1", "n2", "n3")
    for _ in range(3):
        await made.at(9.0, times=4)
        await made.at(0.1, times=6)
    await made.at(1.5)
    assert (made.steps, made.alternating_now) == ([1, -1] * 3, 1)
    await made.world.ended(made.number, "n1")
    assert made.observations.scaling.get(made.number) is None or not made.record.is_terminal


async def at_two(way: CheckpointWay) -> Scaled:
    """A service that can write checkpoints, has two nodes and needs one."""
    made = await Scaled.prepared("n1", "n2", "n3")
    await made.world.do(SetSetting(key=ROOT, value="/scratch"))
    await made.at(9.0, times=3)
    await made.at(1.5, times=4)
    assert len(made.record.nodes) == 2
    made.world.state.put_allocation(replace(made.record, checkpoints=Checkpoints(way=way)))
    await made.at(0.1, times=5)
    return made


async def answered(made: Scaled, phase: CheckpointPhase) -> None:
    for node in made.record.nodes:
        told = ReportCheckpoint(number=made.number, run=1, n=made.record.checkpoints.last_n, node=node, phase=phase)
        await made.world.do(told)


@scenario
@pytest.mark.parametrize("phase", [CheckpointPhase.FAILED, CheckpointPhase.NOTHING])
async def test_work_that_writes_checkpoints_is_asked_for_one_before_it_gives_a_node_back(
    phase: CheckpointPhase,
) -> None:
    made = await at_two(CheckpointWay())
    asked = made.record.checkpoints.open
    assert asked is not None
    assert (asked.n, asked.stops, len(made.record.nodes)) == (1, False, 2)
    assert "it writes a checkpoint first" in made.standing.reason
    await made.at(0.1, times=3)
    assert (made.record.checkpoints.last_n, len(made.record.nodes)) == (1, 2), "one request, and no step before its end"
    await answered(made, phase)
    await made.at(0.1, times=2)
    assert (made.record.nodes, made.steps, made.record.checkpoints.open) == (("n1",), [1, -1], None)


@scenario
async def test_a_complete_checkpoint_is_followed_by_the_step_and_the_next_step_by_another() -> None:
    made = await at_two(CheckpointWay())
    await answered(made, CheckpointPhase.DONE)
    await made.at(0.1)
    assert len(made.record.nodes) == 2, "not sealed yet"
    told = ReportCheckpoint(number=made.number, run=1, n=1, node="n1", phase=CheckpointPhase.SEALED)
    await made.world.do(told)
    await made.at(0.1)
    assert (len(made.record.nodes), made.record.checkpoints.kept[-1].n) == (1, 1)
    await made.at(9.0, times=4)
    await made.at(0.1, times=7)
    assert made.record.checkpoints.last_n == 2


@scenario
async def test_work_that_is_asked_by_people_alone_or_where_there_is_no_place_just_gives_the_node_back() -> None:
    made = await at_two(CheckpointWay(strategy=CheckpointStrategy.MANUAL))
    assert (made.record.nodes, made.record.checkpoints.last_n) == (("n1",), 0)
    made = await at_two(CheckpointWay())
    await answered(made, CheckpointPhase.FAILED)
    await made.world.do(SetSetting(key=ROOT, value=""))
    await made.at(0.1)
    assert (made.record.nodes, made.record.checkpoints.last_n) == (("n1",), 1)


@scenario
async def test_a_refused_request_for_a_checkpoint_does_not_keep_the_node() -> None:
    made = await Scaled.prepared("n1", "n2", "n3")
    await made.world.do(SetSetting(key=ROOT, value="/scratch"))
    await made.at(9.0, times=3)
    made.world.state.put_allocation(replace(made.record, checkpoints=Checkpoints(way=CheckpointWay())))
    real, asked = made.world.replica.propose_many, 0

    async def refusing(commands: Sequence[AnyCommand], actor: str) -> list[object]:
        nonlocal asked
        if not isinstance(commands[0], RequestCheckpoint):
            return list(await real(commands, actor))
        asked += 1
        return [Rejected(code="conflict", message="it cannot be asked")]

    made.world.replica.propose_many = refusing  # type: ignore[method-assign, assignment]
    await made.at(0.1, times=7)
    assert (asked, made.record.nodes) == (1, ("n1",))
