"""The decision of an upgrade of the servers, driven against the real state machine: order, majority, failures, a leader that forgets."""

from collections.abc import Callable
from random import Random

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.model.site.upgrades import NodeStep, Upgrade, UpgradeKind, UpgradePhase, UpgradeTrigger
from lattice.core.server_upgrades import ServersDue, ServerSeen, ServersSeen, next_server_steps
from tests.unit.core.machine.world import World

OLD, NEW = "0.2.0", "0.3.0"
NAMES = ("s1", "s2", "s3")


class Quorum:
    """Three servers, and a program that replaces the release of the one it is told of; `refuses` stay as they are."""

    def __init__(self, *, leader: str = "s1", observe_s: int = 0, refuses: tuple[str, ...] = ()) -> None:
        self.world = World()
        self.leader = leader
        self.refuses = refuses
        self.servers = {name: ServerSeen(release=OLD) for name in NAMES}
        self.told: set[tuple[str, str]] = set()
        self.calls: list[tuple[str, str]] = []
        self.leaders: list[str] = [leader]
        self.world.must(
            cmd.BeginUpgrade(
                target=NEW,
                nodes=NAMES,
                formers=(OLD, OLD, OLD),
                canaries=1,
                batch=1,
                observe_s=observe_s,
                kind=UpgradeKind.SERVERS,
            )
        )

    @property
    def upgrade(self) -> Upgrade:
        newest = self.world.state.upgrades.newest
        assert newest is not None
        return newest

    def due(self, **seen: object) -> ServersDue:
        now = seen.pop("now", self.world.at)
        look = ServersSeen(now=now, leader=self.leader, servers=dict(self.servers), told=frozenset(self.told))  # type: ignore[arg-type]
        return next_server_steps(self.upgrade, look._replace(**seen))  # type: ignore[arg-type]

    def turn(self, **seen: object) -> ServersDue:
        due = self.due(**seen)
        if due.command is not None:
            self.world.do(due.command)
        if due.tell is not None:
            name, release = due.tell
            assert name != self.leader, "the leader was told to stop itself"
            others = [server for other, server in self.servers.items() if other != name]
            assert all(not server.problem for server in others), "the majority is gone"
            self.told.add(due.tell)
            self.calls.append(due.tell)
            if name not in self.refuses or release == OLD:
                self.servers[name] = ServerSeen(release=release)
        if due.successor:
            self.take_lead(due.successor)
        return due

    def take_lead(self, name: str) -> None:
        self.leader = name
        self.leaders.append(name)
        self.told.clear()  # another process, which knows only the log

    def run(self, before_turn: Callable[[], None] = lambda: None) -> UpgradePhase:
        for _ in range(200):
            if not self.upgrade.is_open or self.upgrade.phase is UpgradePhase.PAUSED:
                break
            before_turn()
            self.turn(now=self.world.at + 1_000_000)
        return self.upgrade.phase

    def releases(self) -> set[str]:
        return {server.release for server in self.servers.values()}


@pytest.mark.parametrize("leader", NAMES)
def test_followers_go_first_and_the_leader_last_after_it_handed_over(leader: str) -> None:
    quorum = Quorum(leader=leader)
    assert quorum.run() is UpgradePhase.DONE
    assert quorum.releases() == {NEW}
    assert [name for name, _ in quorum.calls] == [*(name for name in NAMES if name != leader), leader]
    assert len(quorum.leaders) == 2


@pytest.mark.parametrize("seed", range(40))
def test_a_leader_that_changes_at_any_moment_continues_and_nobody_stops_the_leader_or_a_second_server(
    seed: int,
) -> None:
    random, quorum = Random(seed), Quorum()

    def may_move() -> None:
        if random.random() < 0.3:
            quorum.take_lead(random.choice(NAMES))

    for _ in range(6):
        if quorum.run(may_move) is UpgradePhase.DONE:
            break
    assert (quorum.upgrade.phase, quorum.releases()) == (UpgradePhase.DONE, {NEW})


def test_a_canary_that_does_not_return_is_rolled_back_and_the_others_are_not_touched() -> None:
    quorum = Quorum(refuses=("s2",))
    assert quorum.run() is UpgradePhase.ROLLED_BACK
    assert quorum.calls == [("s2", NEW), ("s2", OLD)]
    assert quorum.releases() == {OLD}


def test_a_later_server_that_does_not_return_pauses_with_the_reason() -> None:
    quorum = Quorum(refuses=("s3",))
    assert quorum.run() is UpgradePhase.PAUSED
    assert quorum.upgrade.reason == "server s3 did not return with 0.3.0 within 600 s: it runs 0.2.0"
    quorum.refuses = ()
    quorum.told.clear()
    quorum.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.RESUME))
    assert quorum.run() is UpgradePhase.DONE


def test_a_finished_upgrade_goes_back_in_the_same_order() -> None:
    quorum = Quorum()
    quorum.run()
    quorum.calls.clear()
    quorum.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.ROLL_BACK))
    leader = quorum.leader
    assert quorum.run() is UpgradePhase.ROLLED_BACK
    assert quorum.calls[-1] == (leader, OLD)
    assert quorum.releases() == {OLD}


def test_no_server_is_stopped_while_another_is_not_well() -> None:
    quorum = Quorum()
    quorum.servers["s3"] = ServerSeen(release=OLD, problem="connection refused")
    assert quorum.due() == ServersDue()
    late = quorum.due(unwell_s=600.0).command
    assert isinstance(late, cmd.TurnUpgrade)
    assert late.reason == "no server may be stopped: server s3 is not well: connection refused"
    quorum.servers["s3"] = ServerSeen(release=OLD, lag=5_000)
    assert quorum.due() == ServersDue()
    quorum.servers["s3"] = ServerSeen(release=OLD, lag=3)
    assert quorum.due().command == cmd.StepUpgrade(nodes=("s2",), step=NodeStep.CALLED)


def test_a_server_has_returned_only_when_it_has_caught_up() -> None:
    quorum = Quorum()
    quorum.turn()
    quorum.turn()
    quorum.servers["s2"] = ServerSeen(release=NEW, lag=5_000)
    assert quorum.due() == ServersDue()
    quorum.servers["s2"] = ServerSeen(release=NEW)
    assert quorum.due().command == cmd.StepUpgrade(nodes=("s2",), step=NodeStep.DONE)


def test_the_next_server_waits_for_the_observation_and_the_window() -> None:
    quorum = Quorum(observe_s=900)
    assert quorum.due(in_window=False) == ServersDue()
    for _ in range(3):
        quorum.turn()
    assert quorum.upgrade.nodes[1].step is NodeStep.DONE
    assert quorum.due() == ServersDue()
    later = quorum.upgrade.stepped_at + 900_000
    assert quorum.due(now=later).command == cmd.TurnUpgrade(trigger=UpgradeTrigger.CANARIES_PASSED)


def test_a_paused_upgrade_starts_nothing_and_a_server_that_was_removed_is_done() -> None:
    quorum = Quorum()
    quorum.turn()
    quorum.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.PAUSE))
    assert quorum.due() == ServersDue()
    quorum.world.must(cmd.TurnUpgrade(trigger=UpgradeTrigger.RESUME))
    del quorum.servers["s2"]
    quorum.turn()
    assert quorum.upgrade.nodes[1].step is NodeStep.DONE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"urgent": True}, "cannot be urgent"),
        ({"formers": (OLD,)}, "names the release that it runs now"),
        ({"formers": (OLD, OLD, "")}, "names the release that it runs now"),
        ({"nodes": ("s1", "s1", "s2")}, "each node once"),
    ],
)
def test_what_makes_no_sense_for_servers_is_refused(change: dict[str, object], says: str) -> None:
    fields: dict[str, object] = {
        "target": NEW,
        "nodes": NAMES,
        "formers": (OLD, OLD, OLD),
        "canaries": 1,
        "batch": 1,
        "observe_s": 0,
        "kind": UpgradeKind.SERVERS,
    }
    assert says in World().refused(cmd.BeginUpgrade(**(fields | change))).message  # type: ignore[arg-type]
