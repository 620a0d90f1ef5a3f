"""The loop of a rolling upgrade: whom it tells, what stops it, and a leader that takes over in any step."""

import msgspec
import pytest

from lattice.control.nodes.upgrading import UpgradeDocument, Upgrading, UpgradingSettings
from lattice.core.machine.commands import (
    BeginUpgrade,
    ConfirmNode,
    DisableNode,
    DrainNode,
    RaiseLevel,
    RegisterNode,
    SetReservation,
    TurnUpgrade,
)
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.upgrades import NodeStep, Upgrade, UpgradePhase, UpgradeTrigger
from lattice.core.upgrade_criteria import Readings
from lattice.ports.site.site_program import ProgramFailed
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World

OLD, NEW = "0.2.0", "0.2.1"
NAMES = ("n1", "n2", "n3", "n4")


class Site:
    """Nodes and a program that replaces their software; `stays_away` do not come back, `failure` is what the program says."""

    def __init__(self) -> None:
        self.world = World()
        self.observations = Observations()
        self.orders: list[UpgradeDocument] = []
        self.stays_away: set[str] = set()
        self.failure = ""
        self.unfit: dict[str, str] = {}
        self.readings = Readings()
        self.loop = self.leader()

    def leader(self) -> Upgrading:
        return Upgrading(
            self.world.replica,
            self.world.clock,
            self.observations,
            self,
            UpgradingSettings(return_within_s=60),
            lambda: self.readings,
            lambda node: self.unfit.get(node, ""),
        )

    async def open(self) -> None:
        await self.world.do(RaiseLevel(level=2))
        await self.world.prepare()
        for name in NAMES:
            await self.register(name, OLD)
            await self.world.do(ConfirmNode(node=name))

    async def prepare(self, **options: object) -> None:
        await self.open()
        await self.begin(**options)

    async def begin(self, **options: object) -> None:
        begin: dict[str, object] = {"target": NEW, "nodes": NAMES, "canaries": 1, "batch": 2, "observe_s": 0}
        await self.world.do(BeginUpgrade(**{**begin, **options}))  # type: ignore[arg-type]

    async def register(self, name: str, release: str) -> None:
        await self.world.do(RegisterNode(node=name, hardware=HARDWARE, agent_version=release))
        self.observations.greet(name, self.world.clock.monotonic_s())
        self.observations.admit(name)

    async def tell(self, document: bytes) -> None:
        order = msgspec.json.decode(document, type=UpgradeDocument)
        self.orders.append(order)
        if self.failure:
            raise ProgramFailed(self.failure)
        for each in order.nodes:
            if each.node not in self.stays_away or each.release == OLD:
                await self.register(each.node, each.release)

    @property
    def upgrade(self) -> Upgrade:
        newest = self.world.state.upgrades.newest
        assert newest is not None
        return newest

    def releases(self) -> dict[str, str]:
        return {name: self.world.node(name).agent_version for name in NAMES}

    async def run(self, turns: int = 60) -> UpgradePhase:
        for _ in range(turns):
            if not self.upgrade.is_open or self.upgrade.phase is UpgradePhase.PAUSED:
                break
            await self.loop.step_due()
            self.world.clock.pass_s(1)
            for name in NAMES:
                self.observations.greet(name, self.world.clock.monotonic_s())
                self.observations.admit(name)
        return self.upgrade.phase


@scenario
async def test_canaries_go_first_and_every_node_returns_to_service() -> None:
    site = Site()
    await site.prepare()
    assert await site.run() is UpgradePhase.DONE
    assert [[each.node for each in order.nodes] for order in site.orders] == [["n1"], ["n2", "n3"], ["n4"]]
    assert all((each.release, each.former) == (NEW, OLD) for order in site.orders for each in order.nodes)
    assert all(site.world.node(name).state is NodeState.READY for name in NAMES)


@scenario
async def test_a_leader_that_takes_over_after_any_turn_completes_the_upgrade() -> None:
    site = Site()
    await site.prepare()
    for _ in range(80):
        if not site.upgrade.is_open:
            break
        site.loop = site.leader()
        await site.loop.step_due()
        site.world.clock.pass_s(1)
    assert site.upgrade.phase is UpgradePhase.DONE
    assert set(site.releases().values()) == {NEW}


@scenario
async def test_a_program_that_fails_for_a_canary_rolls_back_and_says_why() -> None:
    site = Site()
    await site.prepare()
    site.failure = "no such package"
    while site.upgrade.phase is UpgradePhase.CANARY:
        await site.loop.step_due()
    assert site.upgrade.phase is UpgradePhase.ROLLING_BACK
    assert site.upgrade.reason == "upgrade.program failed for n1: no such package"
    site.failure = ""
    assert await site.run() is UpgradePhase.ROLLED_BACK
    assert set(site.releases().values()) == {OLD}
    assert site.world.node("n1").state is NodeState.READY


@scenario
async def test_a_later_node_that_does_not_return_pauses_and_is_tried_again_after_resume() -> None:
    site = Site()
    await site.prepare()
    site.stays_away = {"n3"}
    assert await site.run(200) is UpgradePhase.PAUSED
    assert "node n3 did not return with 0.2.1 within 60 s" in site.upgrade.reason
    await site.loop.step_due()
    site.stays_away = set()
    await site.world.do(TurnUpgrade(trigger=UpgradeTrigger.RESUME))
    assert await site.run() is UpgradePhase.DONE
    assert set(site.releases().values()) == {NEW}


@pytest.mark.parametrize("is_critical", [True, False])
def test_figures_roll_canaries_back_when_critical_and_pause_otherwise(is_critical: bool) -> None:
    @scenario
    async def judged() -> None:
        site = Site()
        await site.prepare(observe_s=100)
        while site.upgrade.nodes[0].step is not NodeStep.DONE:
            await site.loop.step_due()
        await site.loop.step_due()
        slow = ((5.0, 0.0), (30.0, 0.0), (float("inf"), 50.0))
        site.readings = Readings(commits=slow) if is_critical else Readings(cycles=slow)
        await site.loop.step_due()
        wanted = UpgradePhase.ROLLING_BACK if is_critical else UpgradePhase.PAUSED
        assert site.upgrade.phase is wanted
        assert site.upgrade.reason.startswith("critical: p99" if is_critical else "warning: p99")

    judged()


@scenario
async def test_an_upgraded_node_that_falls_ill_is_rolled_back_with_its_name() -> None:
    site = Site()
    await site.prepare(observe_s=100)
    while site.upgrade.nodes[0].step is not NodeStep.DONE:
        await site.loop.step_due()
    await site.world.do(DisableNode(node="n1", reason="smoke"))
    await site.loop.step_due()
    assert site.upgrade.phase is UpgradePhase.ROLLING_BACK
    assert site.upgrade.reason == "node n1 is Down after its upgrade"


@scenario
async def test_a_node_that_fails_its_checks_has_not_returned() -> None:
    site = Site()
    await site.prepare()
    site.unfit = {"n1": "gpu: none answers"}
    for _ in range(10):
        await site.loop.step_due()
    assert site.upgrade.nodes[0].step is NodeStep.CALLED
    site.unfit = {}
    assert await site.run() is UpgradePhase.DONE


@scenario
async def test_batches_start_only_in_the_window_of_the_reservation() -> None:
    site = Site()
    now = site.world.clock.now_ms()
    window = AdvanceReservation(name="night", start_at=now + 1_000_000, end_at=now + 9_000_000, nodes=("n4",))
    await site.open()
    await site.world.do(SetReservation(reservation=window, create=True))
    await site.begin(within="night")
    await site.run(20)
    assert site.orders == []
    site.world.clock.pass_s(2000)
    assert await site.run() is UpgradePhase.DONE


@scenario
async def test_a_node_that_was_drained_before_stays_drained() -> None:
    site = Site()
    await site.open()
    await site.world.do(DrainNode(node="n2", reason="fan"))
    await site.begin()
    assert await site.run() is UpgradePhase.DONE
    assert site.world.node("n2").state is NodeState.DRAINED
    assert site.world.node("n2").agent_version == NEW


@scenario
async def test_the_loop_wakes_for_nodes_and_work_only_while_an_upgrade_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    await site.open()
    rung: list[bool] = []
    monkeypatch.setattr(site.loop._alarm, "ring", lambda: rung.append(True))
    number = await site.world.running("n1")
    await site.world.ended(number, "n1")
    await site.world.do(DrainNode(node="n2", reason="fan"))
    assert rung == []
    await site.begin()
    assert rung == [True]
    await site.world.do(DrainNode(node="n3", reason="fan"))
    assert len(rung) > 1
