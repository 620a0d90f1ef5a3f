"""The upgrade of the agents as a record of the log: what is accepted, refused, and remembered."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.audit import AuditKey, key_id
from lattice.core.model.site.upgrades import (
    MOVES,
    NodeStep,
    Upgrade,
    UpgradePhase,
    UpgradeTrigger,
    batch_of,
    default_sizes,
    turned,
)
from tests.unit.core.machine.world import World

BEGIN = cmd.BeginUpgrade(target="0.2.0", nodes=("n1", "n2", "n3"), canaries=1, batch=2, observe_s=900)


def world(level: int = 2) -> World:
    made = World(level=level)
    for name in ("n1", "n2", "n3"):
        hardware = Hardware(cpus=4, memory_mb=4096)
        made.must(cmd.RegisterNode(node=name, hardware=hardware, boot_id="b1", agent_version="0.1.0"))
    return made


def upgrade(made: World) -> Upgrade:
    newest = made.state.upgrades.newest
    assert newest is not None
    return newest


def turn(made: World, trigger: UpgradeTrigger, reason: str = "") -> UpgradePhase:
    made.must(cmd.TurnUpgrade(trigger=trigger, reason=reason))
    return upgrade(made).phase


def test_it_starts_with_its_canaries_and_remembers_every_release() -> None:
    made = world()
    made.must(cmd.DrainNode(node="n3"))
    made.must(BEGIN, actor="root")
    begun = upgrade(made)
    assert (begun.phase, begun.by, begun.is_open) == (UpgradePhase.CANARY, "root", True)
    assert [(each.node, each.former, each.batch) for each in begun.nodes] == [
        ("n1", "0.1.0", 0),
        ("n2", "0.1.0", 1),
        ("n3", "0.1.0", 1),
    ]
    assert [each.stays_drained for each in begun.nodes] == [False, False, True]
    assert begun.wanted(begun.nodes[0]) == "0.2.0"


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"target": "latest; rm -rf /"}, "invalid", "is not a version"),
        ({"batch": 0}, "invalid", "at least one node"),
        ({"canaries": -1}, "invalid", "negative"),
        ({"nodes": ()}, "invalid", "at least one node"),
        ({"nodes": ("n1", "n1")}, "invalid", "each node once"),
        ({"nodes": ("n9",)}, "not_found", 'unknown node "n9"'),
        ({"nodes": ("n4",)}, "conflict", "the release of node n4 is not known"),
        ({"within": "sunday"}, "not_found", 'unknown reservation "sunday"'),
    ],
)
def test_what_cannot_be_carried_out_is_refused_and_nothing_is_recorded(
    change: dict[str, object], code: str, says: str
) -> None:
    made = world()
    made.add_node("n4")
    fields: dict[str, object] = {name: getattr(BEGIN, name) for name in BEGIN.__struct_fields__} | change
    refused = made.refused(cmd.BeginUpgrade(**fields))  # type: ignore[arg-type]
    assert refused.code == code
    assert says in refused.message
    assert made.state.upgrades.newest is None


def test_there_is_one_at_a_time_and_another_after_it_ended() -> None:
    made = world()
    made.must(BEGIN)
    assert "one at a time" in made.refused(BEGIN).message
    turn(made, UpgradeTrigger.FINISH)
    assert upgrade(made).ended_at > 0
    made.must(BEGIN)


def test_resume_returns_to_the_phase_that_was_paused() -> None:
    made = world()
    made.must(BEGIN)
    assert turn(made, UpgradeTrigger.PAUSE, "lunch") is UpgradePhase.PAUSED
    assert upgrade(made).reason == "lunch"
    assert turn(made, UpgradeTrigger.RESUME) is UpgradePhase.CANARY
    assert turn(made, UpgradeTrigger.CANARIES_PASSED) is UpgradePhase.ROLLING
    turn(made, UpgradeTrigger.PAUSE)
    assert turn(made, UpgradeTrigger.RESUME) is UpgradePhase.ROLLING
    assert "resume is not possible" in made.refused(cmd.TurnUpgrade(trigger=UpgradeTrigger.RESUME)).message


def test_a_rollback_takes_up_what_was_touched_and_only_that() -> None:
    made = world()
    made.must(BEGIN)
    made.must(cmd.StepUpgrade(nodes=("n1", "n2"), step=NodeStep.DRAINING))
    made.must(cmd.StepUpgrade(nodes=("n1",), step=NodeStep.CALLED))
    made.must(cmd.StepUpgrade(nodes=("n1",), step=NodeStep.DONE))
    turn(made, UpgradeTrigger.ROLL_BACK, "n2 did not return")
    after = upgrade(made)
    assert [(each.step, each.is_replaced) for each in after.nodes] == [
        (NodeStep.WAITING, True),
        (NodeStep.WAITING, False),
        (NodeStep.DONE, False),
    ]
    assert after.wanted(after.nodes[0]) == "0.1.0"
    assert turn(made, UpgradeTrigger.FAIL) is UpgradePhase.FAILED
    assert turn(made, UpgradeTrigger.ROLL_BACK) is UpgradePhase.ROLLING_BACK
    assert upgrade(made).nodes[2].step is NodeStep.DONE, "nor does a second one touch it"


def test_a_repeated_step_does_not_extend_the_time_that_nodes_have() -> None:
    made = world()
    made.must(BEGIN)
    made.must(cmd.StepUpgrade(nodes=("n1",), step=NodeStep.DRAINING))
    before = upgrade(made)
    made.must(cmd.StepUpgrade(nodes=("n1",), step=NodeStep.DRAINING))
    assert upgrade(made) == before


def test_there_is_no_way_back_after_the_level_was_raised() -> None:
    made = world()
    made.must(BEGIN)
    turn(made, UpgradeTrigger.FINISH)
    made.state.level = 3  # as a release after this one would
    assert "was finalized" in made.refused(cmd.TurnUpgrade(trigger=UpgradeTrigger.ROLL_BACK)).message


def test_steps_and_turns_of_no_upgrade_are_refused() -> None:
    made = world()
    assert made.refused(cmd.TurnUpgrade(trigger=UpgradeTrigger.PAUSE)).code == "not_found"
    step = cmd.StepUpgrade(nodes=("n1",), step=NodeStep.DRAINING)
    assert made.refused(step).code == "stale"
    made.must(BEGIN)
    assert made.refused(cmd.StepUpgrade(nodes=("n9",), step=NodeStep.DRAINING)).code == "stale"
    turn(made, UpgradeTrigger.FINISH)
    assert made.refused(step).code == "stale"


def test_a_cluster_of_the_oldest_level_refuses_it_by_name() -> None:
    assert "level 2" in world(OLDEST).refused(BEGIN).message


def test_a_snapshot_keeps_it() -> None:
    made = world()
    made.must(BEGIN)
    made.must(cmd.StepUpgrade(nodes=("n1",), step=NodeStep.CALLED))
    loaded = decode_state_chunks(encode_state_chunks(made.state.frozen_view()))
    assert loaded.upgrades.newest == upgrade(made)
    assert loaded.digest() == made.state.digest()


def test_orders_are_in_the_audit_chain() -> None:
    made = world()
    public = "ab" * 32
    made.must(cmd.AddAuditKey(key=AuditKey(id=key_id(public), public=public, server="s1")))
    made.must(BEGIN, actor="root")
    turn(made, UpgradeTrigger.PAUSE, "too many failures")
    notes = [each.entry for each in made.state.audit.entries.values()]
    assert [note.kind for note in notes][-2:] == ["upgrade.start", "upgrade.pause"]


@pytest.mark.parametrize("phase", UpgradePhase)
@pytest.mark.parametrize("trigger", UpgradeTrigger)
def test_only_the_moves_of_the_table_exist(phase: UpgradePhase, trigger: UpgradeTrigger) -> None:
    before = Upgrade(target="0.2.0", by="root", began_at=1, level=2, observe_s=0, phase=phase)
    after = turned(before, trigger, "why", 9)
    assert (after is None) == ((phase, trigger) not in MOVES)


def test_sizes_follow_the_size_of_the_cluster() -> None:
    assert [default_sizes(nodes) for nodes in (1, 49, 50, 499, 500)] == [(1, 5), (1, 5), (2, 25), (2, 25), (5, 50)]
    assert [batch_of(place, 1, 5) for place in (0, 1, 5, 6)] == [0, 1, 1, 2]
    assert batch_of(0, 0, 5) == 1
