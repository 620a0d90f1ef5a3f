"""The decision of an upgrade, driven against the real state machine: order of batches, failures, a leader that forgets."""

from random import Random

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.nodes.nodes import Hardware, NodeState
from lattice.core.model.site.upgrades import NodeStep, Upgrade, UpgradePhase, UpgradeTrigger
from lattice.core.model.work.allocations import AllocationState, Cause
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointWay
from lattice.core.upgrades import Due, Seen, next_steps
from tests.unit.core.machine.world import World

OLD, NEW = "0.1.0", "0.2.0"
NAMES = tuple(f"n{number}" for number in range(1, 7))


class Site:
    """Six nodes, and a program that replaces the software of those it is told of."""

    def __init__(self, *, observe_s: int = 0, refuses: tuple[str, ...] = (), **options: object) -> None:
        self.world = World(nodes=6)
        self.refuses = refuses
        self.told: set[tuple[str, str]] = set()
        self.calls: list[tuple[str, str]] = []
        for name in NAMES:
            self.register(name, OLD)
        begin: dict[str, object] = {"target": NEW, "nodes": NAMES, "canaries": 1, "batch": 2, "observe_s": observe_s}
        self.world.must(cmd.BeginUpgrade(**{**begin, **options}))  # type: ignore[arg-type]

    @property
    def upgrade(self) -> Upgrade:
        newest = self.world.state.upgrades.newest
        assert newest is not None
        return newest

    def register(self, name: str, version: str) -> None:
        hardware = Hardware(cpus=4, memory_mb=4096)
        self.world.must(cmd.RegisterNode(node=name, hardware=hardware, boot_id="b1", agent_version=version))

    def due(self, **seen: object) -> Due:
        now = seen.pop("now", self.world.at)
        told = frozenset(self.told)
        return next_steps(
            self.upgrade,
            self.world.state.nodes,
            Seen(now=now, heard=frozenset(NAMES), told=told, **seen),  # type: ignore[arg-type]
        )

    def turn(self, stop_after: int = 99, **seen: object) -> Due:
        """One turn of a leader, which may be killed after some commands."""
        due = self.due(**seen)
        for command in due.commands[:stop_after]:
            self.world.do(command)
        if stop_after < len(due.commands):
            self.told.clear()
            return due
        for name, version in due.tell:
            self.told.add((name, version))
            self.calls.append((name, version))
            if name not in self.refuses or version == OLD:
                self.register(name, version)
        return due

    def run(self) -> UpgradePhase:
        for _ in range(200):
            if not self.upgrade.is_open:
                break
            self.turn(now=self.world.at + 1_000_000)
        return self.upgrade.phase

    def versions(self) -> list[str]:
        return [self.world.state.nodes[name].agent_version for name in NAMES]

    def states(self) -> set[NodeState]:
        return {self.world.state.nodes[name].state for name in NAMES}


def test_all_nodes_get_the_release_batch_by_batch_and_return_to_service() -> None:
    site = Site()
    assert site.run() is UpgradePhase.DONE
    assert site.calls == [(name, NEW) for name in NAMES]
    assert (set(site.versions()), site.states()) == ({NEW}, {NodeState.READY})


def test_never_more_than_one_batch_is_out_of_service() -> None:
    site = Site()
    while site.upgrade.is_open:
        site.turn()
        out = [node for node in NAMES if site.world.state.nodes[node].state is not NodeState.READY]
        assert len({each.batch for each in site.upgrade.nodes if each.node in out}) <= 1


def test_the_next_batch_waits_for_the_observation_and_the_window() -> None:
    site = Site(observe_s=900)
    assert site.due(in_window=False) == Due()
    while site.upgrade.nodes[0].step is not NodeStep.DONE:
        site.turn()
    assert site.due() == Due()
    later = site.upgrade.stepped_at + 900_000
    assert site.due(now=later - 1) == Due()
    assert site.due(now=later).commands == (cmd.TurnUpgrade(trigger=UpgradeTrigger.CANARIES_PASSED),)


def test_work_ends_before_the_program_is_called() -> None:
    site = Site()
    number = site.world.submit()
    site.world.place(number, "n1")
    for _ in range(5):
        site.turn()
    assert site.world.state.nodes["n1"].state is NodeState.DRAINING
    assert site.calls == []


def test_an_urgent_upgrade_has_work_write_a_checkpoint_before_it_is_stopped() -> None:
    site = Site(urgent=True)
    world = site.world
    world.must(cmd.SetSetting(key="checkpoint.root", value="/ck"))
    number = world.running("n1", checkpoint=CheckpointWay())
    for _ in range(3):
        site.turn()
    assert world[number].state is AllocationState.CHECKPOINTING
    assert site.calls == []
    for phase in (CheckpointPhase.DONE, CheckpointPhase.SEALED):
        world.must(cmd.ReportCheckpoint(number=number, node="n1", phase=phase, run=1, n=1))
    world.ended(number, "n1", stopped=True, cause=Cause.SIGNAL, signal=15)
    assert world[number].state is AllocationState.SUSPENDED
    for _ in range(2):
        site.turn()
    assert site.calls == [("n1", NEW)]


def test_a_canary_that_does_not_return_is_rolled_back_without_being_asked() -> None:
    site = Site(refuses=("n1",))
    assert site.run() is UpgradePhase.ROLLED_BACK
    assert site.calls == [("n1", NEW), ("n1", OLD)]
    assert "node n1 did not return" in site.upgrade.reason
    assert (set(site.versions()), site.states()) == ({OLD}, {NodeState.READY})


def test_a_later_node_that_does_not_return_pauses_the_upgrade_and_says_why() -> None:
    site = Site(refuses=("n3",))
    for _ in range(60):
        site.turn(now=site.world.at + 1_000_000)
    assert site.upgrade.phase is UpgradePhase.PAUSED
    assert "node n3 did not return with 0.2.0 within 600 s: it is Drained with 0.1.0" in site.upgrade.reason
    assert site.versions() == [NEW, NEW, OLD, OLD, OLD, OLD]


@pytest.mark.parametrize("is_rolling_back", [False, True])
def test_a_node_that_goes_down_while_it_drains_does_not_hold_its_batch_for_good(is_rolling_back: bool) -> None:
    site = Site()
    if is_rolling_back:
        assert site.run() is UpgradePhase.DONE
        site.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.ROLL_BACK))
    site.world.place(site.world.submit(), "n1")
    site.turn()
    site.world.must(cmd.DownNode(node="n1"))
    for _ in range(5):
        site.turn()
    assert site.upgrade.is_open
    assert site.upgrade.phase is not UpgradePhase.PAUSED
    site.turn(now=site.upgrade.stepped_at + 600_000)
    assert site.upgrade.phase is (UpgradePhase.FAILED if is_rolling_back else UpgradePhase.PAUSED)
    assert site.upgrade.reason == "node n1 is down and cannot be drained: repair or delete it"


def test_a_paused_upgrade_only_finishes_what_was_called() -> None:
    site = Site(canaries=0)
    while {each.step for each in site.upgrade.nodes if each.batch == 1} != {NodeStep.CALLED} or not site.calls:
        site.turn()
    site.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.PAUSE))
    for _ in range(5):
        site.turn()
    assert site.versions() == [NEW, NEW, OLD, OLD, OLD, OLD]
    assert site.states() == {NodeState.READY}
    site.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.RESUME))
    assert site.run() is UpgradePhase.DONE


def test_a_node_that_was_drained_before_stays_drained() -> None:
    site = Site()
    site.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.FINISH))
    site.world.must(cmd.DrainNode(node="n1"))
    site.world.must(cmd.BeginUpgrade(target=NEW, nodes=NAMES, canaries=1, batch=5, observe_s=0))
    assert site.run() is UpgradePhase.DONE
    assert site.world.state.nodes["n1"].state is NodeState.DRAINED


@pytest.mark.parametrize("seed", range(60))
def test_leaders_that_are_killed_anywhere_reach_the_same_end(seed: int) -> None:
    random, site = Random(seed), Site()
    for _ in range(300):
        if random.random() < 0.2:
            site.told.clear()
        if random.random() < 0.02 and site.upgrade.phase in (UpgradePhase.ROLLING, UpgradePhase.PAUSED):
            assert isinstance(site.world.do(cmd.TurnUpgrade(trigger=UpgradeTrigger.ROLL_BACK)), Accepted)
        site.turn(stop_after=random.choice((0, 1, 2, 99, 99)))
    wanted = {UpgradePhase.DONE: NEW, UpgradePhase.ROLLED_BACK: OLD}[site.upgrade.phase]
    assert (set(site.versions()), site.states()) == ({wanted}, {NodeState.READY})
