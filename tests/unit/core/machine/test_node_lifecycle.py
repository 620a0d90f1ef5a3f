"""Every order and every sign of life for a node in every state: where it leads, and what becomes of the work on the node."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.node_effects import EFFECTS, LOST, STATES
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.node_moves import moved
from lattice.core.machine.transitions import NODE_TABLE, NodeTrigger
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware, NodeState
from lattice.core.model.nodes.specifications import Specification
from lattice.core.model.work.allocations import AllocationState
from tests.unit.core.machine.world import World

HARDWARE = Hardware(cpus=4, memory_mb=4096)
CHECK = DegradeCause.CHECK

# The commands by the trigger that they stand for.
COMMANDS: dict[str, cmd.AnyCommand] = {
    "registered": cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b1"),
    "confirmed": cmd.ConfirmNode(node="n1"),
    "boot_failed": cmd.FailBoot(node="n1"),
    "reboot": cmd.RebootNode(node="n1", reason="hangs"),
    "silent": cmd.DegradeNode(node="n1", reason="silent"),
    "resumed": cmd.RecoverNode(node="n1"),
    "check_failed": cmd.DegradeNode(node="n1", reason="disk full", cause=CHECK),
    "check_passed": cmd.RecoverNode(node="n1", cause=CHECK),
    "given_up": cmd.DownNode(node="n1"),
    "hardware_failed": cmd.DownNode(node="n1", cause=DownCause.HARDWARE, reason="psu"),
    "drift_expired": cmd.DownNode(node="n1", cause=DownCause.DRIFT, reason="driver"),
    "drain": cmd.DrainNode(node="n1", reason="fan"),
    "drain_urgent": cmd.DrainNode(node="n1", reason="fan", urgent=True),
    "undrain": cmd.UndrainNode(node="n1", is_heard=True),
    "disable": cmd.DisableNode(node="n1", reason="broken"),
    "enable": cmd.EnableNode(node="n1"),
    "wipe": cmd.WipeNode(node="n1", reason="to be safe"),
    "wiped": cmd.FinishWipe(node="n1", since=0, is_wiped=True),
    "wipe_failed": cmd.FinishWipe(node="n1", since=0, is_wiped=False, reason="disk"),
}

REBOOTED = cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b2")

# How a node comes into each state, from Ready with work on it or without.
PATHS: dict[str, tuple[str, ...]] = {
    "Booting": ("disable", "enable"),
    "Ready": (),
    "Degraded/silence": ("silent",),
    "Degraded/check": ("check_failed",),
    "Down/silence": ("silent", "given_up"),
    "Down/hardware": ("hardware_failed",),
    "Down/operator": ("disable",),
    "Down/drift": ("drift_expired",),
    "Draining": ("drain",),
    "Drained": ("drain",),
    "Drained/wipe": ("wipe",),
    "Failed": ("silent", "given_up", *("registered", "boot_failed") * 3),
    "Quarantine": ("wipe", "wipe_failed"),
}
HOLDING = ("Ready", "Degraded/silence", "Degraded/check", "Draining")

# Where each trigger leads; what is not listed is refused or changes nothing.
EXPECTED = """
Booting:          confirmed>Ready boot_failed>Down reboot>Booting given_up>Down drain>Drained drain_urgent>Drained
Booting:          hardware_failed>Down drift_expired>Down disable>Down
Ready:            silent>Degraded check_failed>Degraded drain>Draining drain_urgent>Draining wipe>Draining
Ready:            hardware_failed>Down disable>Down
Degraded/silence: confirmed>Ready resumed>Ready check_failed>Degraded given_up>Down drain>Draining drain_urgent>Draining
Degraded/silence: wipe>Draining hardware_failed>Down disable>Down
Degraded/check:   check_passed>Ready given_up>Down drain>Draining drain_urgent>Draining
Degraded/check:   wipe>Draining hardware_failed>Down disable>Down
Down/silence:     registered>Booting reboot>Booting drain>Down drain_urgent>Down hardware_failed>Down disable>Down
Down/hardware:    reboot>Booting enable>Booting drain>Down drain_urgent>Down disable>Down
Down/operator:    enable>Booting drain>Down drain_urgent>Down
Down/drift:       undrain>Booting drain>Down drain_urgent>Down disable>Down
Draining:         given_up>Down drain_urgent>Draining wipe>Draining hardware_failed>Down disable>Down
Drained:          undrain>Ready reboot>Booting wipe>Drained hardware_failed>Down drift_expired>Down disable>Down
Drained/wipe:     drain>Drained drain_urgent>Drained wipe>Drained wiped>Booting wipe_failed>Quarantine
Drained/wipe:     hardware_failed>Down drift_expired>Down disable>Down
Failed:           reboot>Booting enable>Booting disable>Down
Quarantine:       wipe>Drained disable>Down
"""


def read() -> dict[tuple[str, str], str]:
    table = {}
    for line in EXPECTED.strip().splitlines():
        start, _, moves = line.partition(":")
        for move in moves.split():
            trigger, _, target = move.partition(">")
            table[start, trigger] = target
    return table


def command_of(world: World, trigger: str) -> cmd.AnyCommand:
    wipe = world.node("n1").wipe
    if trigger in ("wiped", "wipe_failed") and wipe is not None:
        return cmd.FinishWipe(node="n1", since=wipe.since, is_wiped=trigger == "wiped", reason="disk")
    return COMMANDS[trigger]


def world_in(start: str) -> tuple[World, int]:
    """A world with n1 in that state, and the number of the allocation that it holds where it can hold one."""
    world = World()
    number = world.running("n1") if start in HOLDING else 0
    for trigger in PATHS[start]:
        world.must(command_of(world, trigger))
    assert world.node("n1").state == start.partition("/")[0]
    return world, number


@pytest.mark.parametrize("start", PATHS)
def test_every_order_and_sign_of_life_leads_where_it_should_or_nowhere(start: str) -> None:
    expected = read()
    for trigger in COMMANDS:
        world, number = world_in(start)
        before = world.node("n1")
        outcome = world.do(command_of(world, trigger), actor="op")
        after = world.node("n1")
        wanted = expected.get((start, trigger))
        assert after.state == (wanted or before.state), (start, trigger)
        if wanted is None:
            assert after == before, (start, trigger)
        if isinstance(outcome, Rejected):
            assert wanted is None, (start, trigger, outcome)
            assert outcome.message
        if number:
            check_work(world, number, trigger if wanted else "")


def check_work(world: World, number: int, trigger: str) -> None:
    record = world[number]
    if trigger and EFFECTS[NodeTrigger(trigger)].work == LOST:
        assert (record.state, record.requeue_count) == (AllocationState.PENDING, 1), trigger
        assert world.state.node_history("n1")[-1].allocations == (number,)
    elif trigger == "drain_urgent":
        assert record.state is AllocationState.STOPPING
    else:
        assert (record.state, record.run) == (AllocationState.RUNNING, 1), trigger


def test_a_node_that_was_only_specified_boots_when_it_is_heard() -> None:
    for trigger, after in {
        "registered": NodeState.BOOTING,
        "reboot": NodeState.BOOTING,
        "drain": NodeState.UNKNOWN,
        "disable": NodeState.DOWN,
        "hardware_failed": NodeState.DOWN,
        "confirmed": NodeState.UNKNOWN,
        "undrain": NodeState.UNKNOWN,
    }.items():
        world = World(nodes=0)
        world.must(cmd.ImportNodes(nodes=(("n1", 0),), specifications=(Specification(cpus=2),)))
        assert world.node("n1").state is NodeState.UNKNOWN
        world.do(COMMANDS[trigger])
        assert world.node("n1").state is after, trigger


def test_the_tables_know_all_states_and_triggers() -> None:
    assert set(STATES) == set(NodeState)
    assert set(EFFECTS) == set(NodeTrigger)
    for state, meaning in STATES.items():
        assert meaning.takes_work == (state is NodeState.READY)
        if (state, NodeTrigger.DRAIN) in NODE_TABLE and meaning.keeps_work:
            assert NODE_TABLE[state, NodeTrigger.DRAIN] is NodeState.DRAINING
    assert all(bool(effect.alert) == bool(effect.severity) for effect in EFFECTS.values())
    told = EFFECTS[NodeTrigger.CHECK_FAILED].told("n1", "check disk: full")
    assert told == "Node n1 takes no new work: check disk: full."
    assert EFFECTS[NodeTrigger.RESUMED].told("n1", "") == ""


def test_three_failed_boots_in_a_row_make_a_failed_node_and_one_good_boot_starts_anew() -> None:
    world = World()
    world.must(COMMANDS["silent"])
    world.must(COMMANDS["given_up"])
    for _ in range(2):
        world.must(COMMANDS["registered"])
        world.must(COMMANDS["boot_failed"])
        assert world.node("n1").down_cause is DownCause.SILENCE
    world.must(COMMANDS["reboot"])
    world.must(REBOOTED)
    world.must(COMMANDS["confirmed"])
    assert (world.node("n1").state, world.node("n1").boot_failures) == (NodeState.READY, 0)
    world, _ = world_in("Failed")
    assert world.node("n1").reason == "boot 3 of 3 failed: not ready in time"
    world.must(COMMANDS["reboot"])
    world.must(COMMANDS["boot_failed"])
    assert world.node("n1").state is NodeState.FAILED
    assert world.refused(COMMANDS["boot_failed"]).code == "stale"


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        ("Ready", "Drain it first"),
        ("Down/operator", "enable it first"),
        ("Down/drift", "undrain it"),
        ("Drained/wipe", "wiped"),
        ("Quarantine", "wiped"),
    ],
)
def test_a_reboot_that_is_refused_says_what_to_do(start: str, hint: str) -> None:
    world, _ = world_in(start)
    refusal = world.refused(COMMANDS["reboot"])
    assert refusal.code == "conflict"
    assert hint in refusal.hint


def test_a_drained_node_that_is_rebooted_comes_back_drained() -> None:
    world, _ = world_in("Drained")
    world.must(COMMANDS["reboot"])
    world.must(COMMANDS["registered"])
    assert world.must(COMMANDS["confirmed"]) == ()  # its agent, but not after a reboot
    assert world.node("n1").state is NodeState.BOOTING
    world.must(REBOOTED)
    world.must(COMMANDS["confirmed"])
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DRAINED, "fan")


def test_what_a_check_began_no_heartbeat_and_no_registration_ends() -> None:
    world, number = world_in("Degraded/check")
    assert world.must(COMMANDS["check_failed"]) == ()
    for trigger in ("resumed", "registered", "confirmed"):
        world.must(COMMANDS[trigger])
        assert world.node("n1").state is NodeState.DEGRADED
    world.must(COMMANDS["check_passed"])
    assert world.node("n1").state is NodeState.READY
    assert world[number].run == 1


def test_a_check_goes_on_with_what_silence_began() -> None:
    world, _ = world_in("Degraded/silence")
    world.must(COMMANDS["check_failed"])
    world.must(COMMANDS["resumed"])
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DEGRADED, "disk full")


def test_a_node_is_never_down_by_an_operator_but_by_disable() -> None:
    refusal = World().refused(cmd.DownNode(node="n1", cause=DownCause.OPERATOR))
    assert (refusal.code, refusal.hint) == ("invalid", "Use disable.")


def test_a_hardware_failure_outweighs_silence_and_nothing_else() -> None:
    world, _ = world_in("Down/silence")
    world.must(COMMANDS["hardware_failed"])
    assert world.node("n1").down_cause is DownCause.HARDWARE
    world, _ = world_in("Down/operator")
    assert "Down already" in world.refused(COMMANDS["hardware_failed"]).message


def test_orders_for_a_node_that_nobody_knows_are_refused_and_a_move_beside_the_table_is_impossible() -> None:
    world = World()
    for command in (cmd.RebootNode(node="n9"), cmd.UndrainNode(node="n9", is_heard=True)):
        assert world.refused(command).code == "not_found"
    with pytest.raises(AssertionError, match="Ready does not know wiped"):
        moved(world.node("n1"), NodeTrigger.WIPED)
