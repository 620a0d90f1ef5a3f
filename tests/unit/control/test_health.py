"""What follows from the reports of nodes' checks."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from lattice.control.nodes import health
from lattice.control.nodes.health import HealthRegistry
from lattice.core.machine.commands import AnyCommand, DegradeNode, RecoverNode, RegisterNode, UndrainNode
from lattice.core.machine.outcomes import Outcome
from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.nodes import DegradeCause, NodeState
from lattice.ports.quorum.log import LogFull
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World


class Checks:
    """Links as the registry knows them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.answer = HealthReport()

    def is_connected(self, node: str) -> bool:
        return self.world.links.is_connected(node)

    async def run_checks(self, node: str, names: Sequence[str], *, within_s: float) -> HealthReport:
        self.asked.append((node, tuple(names)))
        return self.answer


class Book:
    def __init__(self, world: World) -> None:
        self.world = world
        self.failed: list[str] = []
        self.links = Checks(world)
        self.registry = HealthRegistry(world.replica, self.links, world.clock, self.failed.append)

    async def hear(self, *checks: CheckStanding, node: str = "n1") -> None:
        self.registry.take(node, HealthReport(checks=checks))
        await self.registry.settle()

    def state(self) -> NodeState:
        return self.world.node("n1").state


def check(
    consequence: Consequence = Consequence.WARN,
    verdict: Verdict = Verdict.FAILED,
    *,
    name: str = "disk",
    ready: bool = False,
) -> CheckStanding:
    return CheckStanding(name=name, verdict=verdict, text="no room", consequence=consequence, required_for_ready=ready)


async def ready_world() -> tuple[World, Book]:
    world = World()
    await world.prepare("n1")
    return world, Book(world)


@scenario
async def test_a_warning_is_shown_and_changes_nothing() -> None:
    world, registry = await ready_world()
    await registry.hear(check())
    assert registry.state() is NodeState.READY
    world.clock.pass_s(5)
    (shown,) = registry.registry.checks_of("n1")
    assert (shown.name, shown.text, shown.age_s) == ("disk", "no room", 5)
    assert registry.registry.checks_of("n2") == ()


@scenario
async def test_a_failed_check_degrades_its_node_until_it_passes() -> None:
    world, registry = await ready_world()
    await registry.hear(check(Consequence.DEGRADE))
    node = world.node("n1")
    assert (node.state, node.degrade_cause) == (NodeState.DEGRADED, DegradeCause.CHECK)
    assert (node.reason, node.reason_by) == ("check disk: no room", "check/disk")
    await world.do(RecoverNode(node="n1"))  # as heartbeats do
    assert registry.state() is NodeState.DEGRADED
    await registry.hear(check(Consequence.DEGRADE, Verdict.PASSED))
    assert registry.state() is NodeState.READY


@scenario
async def test_what_silence_began_no_check_ends() -> None:
    world, registry = await ready_world()
    await world.do(DegradeNode(node="n1", reason="no heartbeat"))
    await registry.hear(check(Consequence.DEGRADE, Verdict.PASSED))
    assert registry.state() is NodeState.DEGRADED
    await world.do(RecoverNode(node="n1"))
    assert registry.state() is NodeState.READY


@scenario
async def test_a_failed_check_drains_its_node_for_good() -> None:
    world, registry = await ready_world()
    number = await world.running("n1")
    await registry.hear(check(Consequence.DRAIN))
    node = world.node("n1")
    assert (node.state, node.reason, node.reason_by) == (NodeState.DRAINING, "check disk: no room", "check/disk")
    await registry.hear(check(Consequence.DRAIN, Verdict.PASSED))
    assert registry.state() is NodeState.DRAINING
    await world.ended(number, "n1")
    assert registry.state() is NodeState.DRAINED
    await world.do(UndrainNode(node="n1", is_heard=True))
    await registry.registry.settle()
    assert registry.state() is NodeState.READY


@scenario
async def test_a_node_undrained_while_its_check_fails_is_drained_again() -> None:
    world, registry = await ready_world()
    await registry.hear(check(Consequence.DRAIN))
    assert registry.state() is NodeState.DRAINED
    await world.do(UndrainNode(node="n1", is_heard=True))
    await registry.registry.settle()
    assert registry.state() is NodeState.DRAINED


@scenario
async def test_a_node_that_boots_is_confirmed_when_its_guards_pass() -> None:
    world = World()
    await world.prepare()
    registry = Book(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    registry.registry.begin("n1")
    assert registry.registry.is_fit("n1")
    await registry.hear(check(ready=True))
    assert not registry.registry.is_fit("n1")
    assert registry.registry.unfit_because("n1") == "check disk: no room"
    await registry.hear(check(verdict=Verdict.PASSED, ready=True))
    assert registry.state() is NodeState.BOOTING  # its agent has not confirmed yet
    world.links.open.add("n1")
    await registry.hear(check(verdict=Verdict.PASSED, ready=True))
    assert registry.state() is NodeState.READY


@pytest.mark.parametrize(
    ("consequence", "state"), [(Consequence.DRAIN, NodeState.DRAINED), (Consequence.DEGRADE, NodeState.DEGRADED)]
)
@scenario
async def test_a_node_that_boots_with_a_failed_check_is_never_ready_for_a_moment(
    consequence: Consequence, state: NodeState, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    await world.prepare()
    registry = Book(world)
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    registry.registry.begin("n1")
    registry.registry.opened("n1")
    await registry.hear(check(consequence))
    assert not registry.registry.is_fit("n1")
    assert registry.state() is NodeState.BOOTING
    world.links.open.add("n1")
    batches: list[int] = []
    one_by_one = world.replica.propose_many

    async def in_one(commands: Sequence[AnyCommand], actor: str) -> list[Outcome]:
        batches.append(len(commands))
        return await one_by_one(commands, actor)

    monkeypatch.setattr(world.replica, "propose_many", in_one)
    registry.registry.opened("n1")
    await registry.registry.settle()
    assert (registry.state(), world.node("n1").reason_by) == (state, "check/disk")
    assert batches == [2]


@scenario
async def test_what_an_earlier_stream_said_decides_nothing() -> None:
    world, registry = await ready_world()
    await registry.hear(check(Consequence.DEGRADE, ready=True))
    registry.registry.begin("n1")
    assert registry.registry.is_fit("n1")
    assert registry.registry.unfit_because("n1") == ""
    assert [each.name for each in registry.registry.checks_of("n1")] == ["disk"]
    await world.do(RecoverNode(node="n1", cause=DegradeCause.CHECK))
    await registry.registry.settle()
    assert registry.state() is NodeState.READY
    registry.registry.reset()
    assert registry.registry.checks_of("n1") == ()


@scenario
async def test_every_beginning_of_a_failure_is_counted_once() -> None:
    _, registry = await ready_world()
    await registry.hear(check(), check(name="fans"))
    await registry.hear(check(), check(name="fans", verdict=Verdict.PASSED))
    await registry.hear(check(), check(name="fans"))
    assert registry.failed == ["disk", "fans", "fans"]


@scenario
async def test_a_report_about_a_node_that_nobody_knows_is_no_trouble() -> None:
    _, registry = await ready_world()
    await registry.hear(check(Consequence.DRAIN), node="stranger")
    assert registry.state() is NodeState.READY


@scenario
async def test_a_proposal_that_the_log_did_not_take_is_made_again() -> None:
    world, registry = await ready_world()
    world.replica.failure = LogFull("full")
    with pytest.raises(LogFull):
        await registry.hear(check(Consequence.DEGRADE))
    assert registry.state() is NodeState.READY
    await registry.registry.settle()
    assert registry.state() is NodeState.DEGRADED


@scenario
async def test_trouble_of_many_nodes_at_once_is_settled_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "BATCH", 3)
    world = World()
    names = [f"n{number}" for number in range(1, 9)]
    await world.prepare(*names)
    registry = Book(world)
    for name in names:
        registry.registry.take(name, HealthReport(checks=(check(Consequence.DEGRADE),)))
    world.replica.failure = LogFull("full")
    with pytest.raises(LogFull):
        await registry.registry.settle()
    await registry.registry.settle()
    assert {node.state for node in world.state.nodes.values()} == {NodeState.DEGRADED}


@scenario
async def test_the_loop_settles_what_it_hears() -> None:
    _, registry = await ready_world()
    running = asyncio.create_task(registry.registry.run())
    registry.registry.take("n1", HealthReport(checks=(check(Consequence.DEGRADE),)))
    while registry.state() is not NodeState.DEGRADED:  # noqa: ASYNC110 - the loop itself has no event for its end of work
        await asyncio.sleep(0.001)
    running.cancel()


@scenario
async def test_checks_are_run_on_request() -> None:
    _, registry = await ready_world()
    registry.links.answer = HealthReport(checks=(replace(check(), verdict=Verdict.PASSED),))
    found = await registry.registry.run_now("n1", ["disk"])
    assert [each.verdict for each in found] == [Verdict.PASSED]
    assert registry.links.asked == [("n1", ("disk",))]
