"""Sensitive work leaves a node only through a wipe, and comes back only by an operator's word; urgent drains; the history of it all."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.parts.node_history import KEPT, NodeHistoryEntry
from lattice.core.model.nodes.nodes import DegradeCause, Hardware, Node, NodeState, Share, Wipe
from lattice.core.model.site.audit import AuditKey, key_id
from lattice.core.model.site.tenants import SENSITIVE, NodeSharing
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, Request, RequeuePolicy
from lattice.wire.text.waiting import waiting_reason
from tests.unit.core.machine.world import World

HARDWARE = Hardware(cpus=4, memory_mb=4096)


def sensitive_world(node_sharing: NodeSharing = NodeSharing.EXCLUSIVE) -> World:
    world = World(scheduler=SENSITIVE, node_sharing=node_sharing)
    world.must(cmd.SetSetting(key="sensitive.require_wipe", value="true"))
    return world


def finish(world: World, *, is_wiped: bool, reason: str = "") -> None:
    wipe = world.node("n1").wipe
    assert wipe is not None
    world.must(cmd.FinishWipe(node="n1", since=wipe.since, is_wiped=is_wiped, reason=reason), actor="wiping")


def back(world: World) -> NodeState:
    world.must(cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b2"))
    world.must(cmd.ConfirmNode(node="n1"))
    return world.node("n1").state


def test_a_node_is_wiped_before_anybody_else_gets_it() -> None:
    world = sensitive_world()
    number = world.running("n1")
    world.ended(number, "n1")
    node = world.node("n1")
    assert (node.state, node.reason) == (NodeState.DRAINED, f"to be wiped: sensitive work a{number} has left it")
    assert "wait" in world.refused(cmd.UndrainNode(node="n1", is_heard=True)).message
    finish(world, is_wiped=True)
    assert (world.node("n1").state, world.node("n1").wipe) == (NodeState.BOOTING, None)
    assert back(world) is NodeState.READY
    assert world.refused(cmd.FinishWipe(node="n1", since=1, is_wiped=True)).code == "stale"
    assert world.refused(cmd.FinishWipe(node="n9", since=1, is_wiped=True)).code == "stale"


def test_a_wipe_that_fails_quarantines_the_node_until_an_operator_has_it_wiped() -> None:
    world = sensitive_world()
    world.ended(world.running("n1"), "n1")
    finish(world, is_wiped=False, reason="the disk does not answer")
    node = world.node("n1")
    assert (node.state, node.reason) == (NodeState.QUARANTINE, "the wipe failed: the disk does not answer")
    assert back(world) is NodeState.QUARANTINE
    world.must(cmd.WipeNode(node="n1", force=True), actor="op")
    wipe = world.node("n1").wipe
    assert wipe is not None
    assert (wipe.tries, wipe.is_forced, wipe.by) == (2, True, "op")
    finish(world, is_wiped=False)
    assert world.node("n1").reason == "the wipe failed: no reason given"
    world.must(cmd.WipeNode(node="n1"), actor="op")
    finish(world, is_wiped=True)
    assert back(world) is NodeState.READY


def test_without_the_setting_nothing_is_wiped() -> None:
    world = World(scheduler=SENSITIVE)
    world.ended(world.running("n1"), "n1")
    assert world.node("n1").state is NodeState.READY


def test_a_node_that_goes_down_with_sensitive_work_is_wiped_when_it_is_back() -> None:
    world = sensitive_world()
    number = world.running("n1")
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.DownNode(node="n1", reason="silent"))
    assert back(world) is NodeState.DRAINED
    assert world.node("n1").reason == f"to be wiped: sensitive work was lost: a{number}"
    world.must(cmd.DisableNode(node="n1"))
    world.must(cmd.EnableNode(node="n1"))
    assert back(world) is NodeState.DRAINED
    finish(world, is_wiped=True)
    assert back(world) is NodeState.READY


def test_a_drain_outlives_the_wipe() -> None:
    world = sensitive_world()
    number = world.running("n1")
    world.must(cmd.DrainNode(node="n1", reason="fan"), actor="op")
    world.ended(number, "n1")
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DRAINED, "fan")
    finish(world, is_wiped=True)
    assert back(world) is NodeState.DRAINED
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.READY


def test_a_shared_node_drains_until_the_last_sensitive_work_has_left() -> None:
    world = sensitive_world(node_sharing=NodeSharing.SHARED)
    numbers = [world.submit(request=Request(nodes=1, cpus=1, memory_mb=64)) for _ in range(2)]
    for number in numbers:
        share = Share(node="n1", whole=False, cpus=1, memory_mb=64)
        world.must(cmd.PlaceAllocation(number=number, run=1, shares=(share,)))
        world.started(number, "n1")
    world.ended(numbers[0], "n1")
    assert world.node("n1").state is NodeState.DRAINING
    world.ended(numbers[1], "n1")
    assert world.node("n1").state is NodeState.DRAINED
    finish(world, is_wiped=True)
    assert back(world) is NodeState.READY


def test_an_operator_may_have_any_idle_node_wiped_and_some_not() -> None:
    world = World()
    world.must(cmd.WipeNode(node="n1", reason="before the audit"), actor="op")
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DRAINED, "to be wiped: before the audit")
    world.must(cmd.DisableNode(node="n2"))
    assert "cannot be wiped" in world.refused(cmd.WipeNode(node="n2")).message
    assert world.refused(cmd.WipeNode(node="n9")).code == "not_found"
    assert world.refused(cmd.FinishWipe(node="n3", since=1, is_wiped=True)).code == "stale"


def test_sensitive_work_that_lost_its_node_waits_for_an_operator() -> None:
    world = World(scheduler=SENSITIVE)
    number = world.running("n1")
    world.must(cmd.DegradeNode(node="n1"))
    world.must(cmd.DownNode(node="n1", reason="silent"))
    record = world[number]
    assert (record.state, record.hold) == (AllocationState.PENDING, Hold.OPERATOR)
    assert record.message.endswith("; sensitive work waits for an operator to release it")
    assert waiting_reason(record, "") == record.message
    world.must(cmd.ReleaseAllocation(number=number, as_operator=True))
    world.place(number, "n2")
    assert world[number].state is AllocationState.STARTING


@pytest.mark.parametrize("scheduler", ["hpc-backfill", SENSITIVE])
def test_an_urgent_drain_ends_the_work_and_queues_it_again(scheduler: str) -> None:
    world = World(scheduler=scheduler)
    number = world.running("n1", "n2")
    world.must(cmd.DrainNode(node="n2", reason="smoke", urgent=True), actor="op")
    assert world[number].state is AllocationState.STOPPING
    assert world.must(cmd.DrainNode(node="n2", urgent=True)) == ()
    world.ended(number, "n1", cause=Cause.SIGNAL, signal=15, stopped=True)
    record = world[number]
    assert (record.state, record.requeue_count) == (AllocationState.PENDING, 0)
    assert record.message.startswith("requeued: node n2 was drained urgently: smoke")
    assert record.hold is (Hold.OPERATOR if scheduler == SENSITIVE else Hold.NONE)
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.READY, NodeState.DRAINED)
    assert world.state.node_history("n2")[-2].allocations == (number,)


def test_work_that_may_not_run_again_fails_by_an_urgent_drain_and_what_ends_well_has_ended_well() -> None:
    world = World()
    once = world.running("n1", requeue=RequeuePolicy.NEVER)
    lucky = world.running("n2")
    for name in ("n1", "n2"):
        world.must(cmd.DrainNode(node=name, urgent=True))
    world.ended(once, "n1", cause=Cause.SIGNAL, signal=15, stopped=True)
    assert (world[once].state, world[once].cause) == (AllocationState.FAILED, Cause.NODE)
    assert world[once].message == "node n1 was drained urgently"
    world.ended(lucky, "n2")
    assert world[lucky].state is AllocationState.COMPLETED


def with_chain(world: World) -> World:
    public = "ab" * 32
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id(public), public=public, server="s1")))
    return world


def test_the_audit_chain_tells_of_wipes_and_of_sensitive_nodes_that_went_silent() -> None:
    world = with_chain(sensitive_world())
    world.ended(world.running("n1"), "n1")
    finish(world, is_wiped=False, reason="disk")
    world.must(cmd.WipeNode(node="n1", force=True, reason="by hand"), actor="op")
    finish(world, is_wiped=True, reason="wiped by hand, says op")
    world.running("n2")
    world.must(cmd.DegradeNode(node="n2", reason="no heartbeat"))
    world.must(cmd.DownNode(node="n2"))
    world.must(cmd.DegradeNode(node="n3"))
    world.must(cmd.DownNode(node="n3"))
    entries = [added.entry for added in world.state.audit.entries.values()]
    told = [(note.kind, note.subject, note.actor) for note in entries if note.kind.startswith("node.")]
    assert told == [
        ("node.wipe", "n1", ""),
        ("node.wipe_failed", "n1", "wiping"),
        ("node.wipe", "n1", "op"),
        ("node.wiped", "n1", "wiping"),
        ("node.silent", "n2", "ada"),
        ("node.lost", "n2", "ada"),
    ]
    failed = next(note for note in entries if note.kind == "node.wipe_failed")
    assert failed.detail == "the wipe failed: disk; begun at 1970-01-01T00:00:01+00:00, try 1"


def test_a_node_tells_its_story_and_the_story_survives_a_snapshot() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.DrainNode(node="n1", reason="fan"), actor="op")
    world.must(cmd.DownNode(node="n1", reason="silent"), actor="node_watch")
    world.must(cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b2", agent_version="2"))
    world.must(cmd.ConfirmNode(node="n1"))
    world.must(cmd.RegisterNode(node="n1", hardware=HARDWARE, boot_id="b2", agent_version="3"))
    history = world.state.node_history("n1")
    assert [(entry.trigger, entry.from_state.value, entry.to_state.value) for entry in history] == [
        ("registered", "Unknown", "Booting"),
        ("confirmed", "Booting", "Ready"),
        ("drain", "Ready", "Draining"),
        ("given_up", "Draining", "Down"),
        ("rebooted", "Down", "Down"),
        ("registered", "Down", "Booting"),
        ("confirmed_draining", "Booting", "Draining"),
        ("emptied", "Draining", "Drained"),
        ("agent_changed", "Drained", "Drained"),
    ]
    assert (history[2].by, history[2].why) == ("op", "fan")
    assert (history[3].by, history[3].why, history[3].allocations) == ("node_watch", "silent", (number,))
    assert history[-1].why == "agent 2 became 3"
    assert world.state.node_history("n9") == ()
    again = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert again.node_history("n1") == history


def test_only_the_last_part_of_a_long_story_is_kept() -> None:
    world = World()
    for _ in range(KEPT):
        world.must(cmd.DegradeNode(node="n1", cause=DegradeCause.CHECK, reason="disk"))
        world.must(cmd.RecoverNode(node="n1", cause=DegradeCause.CHECK))
    history = world.state.node_history("n1")
    assert len(history) == KEPT
    assert history[-1].trigger == "check_passed"


def test_broken_states_of_nodes_are_found() -> None:
    world = World()
    state = world.state
    state.put_node(Node(id="n1", hardware=HARDWARE, state=NodeState.QUARANTINE))
    state.put_node(Node(id="n2", hardware=HARDWARE, state=NodeState.DEGRADED, wipe=Wipe(since=1)))
    entry = NodeHistoryEntry(at=1, trigger="silent", from_state=NodeState.READY, to_state=NodeState.DEGRADED)
    state.histories.histories["n3"] = (entry,) * (KEPT + 1)
    found = "; ".join(check(state))
    for sentence in ("n1 is in Quarantine, owes no wipe", "n2 is Degraded though", "n3 has too long a history"):
        assert sentence in found
