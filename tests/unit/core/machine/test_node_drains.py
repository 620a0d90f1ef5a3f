"""Whose drain it is, what it is for, and what is said to an operator whose order is refused."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.model.nodes.drift import ACTOR
from lattice.core.model.nodes.nodes import Node, NodeState
from tests.unit.core.machine.test_node_lifecycle import COMMANDS, HARDWARE, REBOOTED, command_of, world_in
from tests.unit.core.machine.world import World


def drain(world: World, reason: str = "", actor: str = "ada", *, urgent: bool = False) -> Node:
    world.must(cmd.DrainNode(node="n1", reason=reason, urgent=urgent), actor=actor)
    return world.node("n1")


def shown(node: Node) -> tuple[str, str, str]:
    return str(node.state), node.reason, node.reason_by


def test_another_reason_for_a_drain_is_kept_with_the_node_and_in_its_story() -> None:
    world = World()
    drain(world, "fan 3")
    assert shown(drain(world, "fan 3 and 4", "bob")) == ("Drained", "fan 3 and 4", "bob")
    entry = world.state.node_history("n1")[-1]
    assert (entry.trigger, entry.by, entry.why) == ("drain", "bob", "fan 3 and 4")


def test_another_reason_for_a_disabling_is_kept_too() -> None:
    world, _ = world_in("Down/operator")
    assert world.must(cmd.DisableNode(node="n1")) == ()
    world.must(cmd.DisableNode(node="n1", reason="sold"), actor="bob")
    assert shown(world.node("n1")) == ("Down", "sold", "bob")


def test_the_same_drain_again_is_no_news() -> None:
    world = World()
    drain(world, "fan 3")
    for again in (cmd.DrainNode(node="n1"), cmd.DrainNode(node="n1", reason="fan 3")):
        assert world.must(again, actor="bob") == ()
    assert shown(world.node("n1")) == ("Drained", "fan 3", "ada")


@pytest.mark.parametrize("program", ["check/disk", ACTOR])
@pytest.mark.parametrize("reason", ["", "new disks"])
def test_a_person_takes_over_the_drain_of_a_program(program: str, reason: str) -> None:
    world = World()
    drain(world, "disk full", program)
    assert shown(drain(world, reason)) == ("Drained", reason or "disk full", "ada")


@pytest.mark.parametrize("state", ["Ready", "Down/silence"])
def test_a_program_never_takes_over_the_drain_of_a_person(state: str) -> None:
    world, _ = world_in(state)
    drain(world, "fan 3")
    assert world.must(cmd.DrainNode(node="n1", reason="drifted"), actor=ACTOR) == ()
    assert world.node("n1").reason_by == "ada"


def test_an_urgent_drain_without_words_leaves_those_of_the_drain() -> None:
    world = World()
    world.running("n1")
    drain(world, "fan 3")
    assert shown(drain(world, "", "bob", urgent=True)) == ("Draining", "fan 3", "ada")


def test_a_node_that_is_to_come_back_drained_and_boots_is_drained_at_once() -> None:
    world, _ = world_in("Down/silence")
    drain(world, "fan 3")
    world.must(COMMANDS["registered"])
    assert shown(drain(world)) == ("Drained", "fan 3", "ada")


@pytest.mark.parametrize(
    "trouble",
    [
        ("wipe", "wipe_failed", "wipe", "wiped", "confirmed"),
        ("reboot", "boot_failed", "reboot", "boot_failed", "reboot", "boot_failed", "enable", "confirmed"),
        ("disable", "enable", "confirmed"),
    ],
)
def test_the_words_of_a_drain_outlive_whatever_else_happens_to_the_node(trouble: tuple[str, ...]) -> None:
    world = World()
    drain(world, "fan 3")
    for trigger in trouble:
        world.must(command_of(world, trigger), actor="bob")
    assert shown(world.node("n1")) == ("Drained", "fan 3", "ada")
    world.must(COMMANDS["undrain"])
    assert (world.node("n1").drained_for, world.node("n1").drained_by) == ("", "")


def test_a_good_boot_of_a_drained_node_ends_the_row_of_failures() -> None:
    world, _ = world_in("Drained")
    for trigger in ("reboot", "boot_failed", "registered"):
        world.must(COMMANDS[trigger])
    assert world.node("n1").boot_failures == 1
    world.must(REBOOTED)
    world.must(COMMANDS["confirmed"])
    assert (world.node("n1").state, world.node("n1").boot_failures) == (NodeState.DRAINED, 0)


def test_a_failed_node_that_fails_again_counts_on() -> None:
    world, _ = world_in("Failed")
    for trigger in ("reboot", "boot_failed"):
        world.must(COMMANDS[trigger])
    assert world.node("n1").reason == "boot number 4 in a row failed: not ready in time"


@pytest.mark.parametrize(
    ("start", "order", "hint"),
    [
        ("Quarantine", "enable", "wipe n1 --force"),
        ("Quarantine", "undrain", "wipe n1 --force"),
        ("Quarantine", "reboot", "wipe n1 --force"),
        ("Down/operator", "undrain", "Use enable."),
        ("Down/hardware", "undrain", "Use enable."),
        ("Down/silence", "undrain", "returns by itself"),
        ("Down/drift", "enable", "undrain it"),
        ("Degraded/silence", "enable", "returns by itself"),
        ("Failed", "undrain", "enable or reboot"),
        ("Drained", "enable", "Use undrain"),
        ("Draining", "reboot", "Wait until it is Drained."),
        ("Drained/wipe", "reboot", "wiped"),
        ("Ready", "reboot", "Drain it first."),
    ],
)
def test_a_refused_order_says_what_to_do_instead(start: str, order: str, hint: str) -> None:
    world, _ = world_in(start)
    assert hint in world.refused(command_of(world, order)).hint


def test_a_node_that_was_drained_while_it_was_down_says_that_it_comes_back_drained() -> None:
    world, _ = world_in("Down/operator")
    drain(world, "fan 3")
    assert world.refused(COMMANDS["undrain"]).hint == "Use enable. It comes back drained: undrain it then."


@pytest.mark.parametrize("urgent", [False, True])
def test_a_node_that_is_to_be_rebooted_is_not_given_back_before(urgent: bool) -> None:
    world = World()
    world.must(cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b1"))
    drain(world)
    world.must(cmd.RebootNode(node="n1"))
    assert drain(world, "fan 3", urgent=urgent).awaits_reboot
    refused = world.refused(cmd.UndrainNode(node="n1", is_heard=True))
    assert "was ordered to reboot" in refused.message
    world.must(REBOOTED)
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.READY


def test_a_reboot_that_nobody_waits_for_any_more_is_forgotten() -> None:
    world = World()
    world.must(cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b1"))
    drain(world)
    world.must(cmd.RebootNode(node="n1"))
    drain(world, "fan 3")
    for order in (cmd.DisableNode(node="n1"), cmd.EnableNode(node="n1"), cmd.ConfirmNode(node="n1")):
        world.must(order)
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.READY
