"""Nodes that differ from their baseline: what follows for ordinary and for sensitive ones, and how they come back."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.rules.nodes.drift import SENSITIVE_TIMEOUT, TIMEOUT
from lattice.core.model.nodes.drift import ACTOR, AcceptedFingerprint, Baseline, Difference, Drift, describe
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.core.model.site.audit import AuditEntry
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from tests.unit.core.machine.test_audit import KEY
from tests.unit.core.machine.world import World

RIGHT, WRONG, OTHER = "a" * 64, "b" * 64, "c" * 64
HOUR_MS = 3_600_000
KERNEL = Difference(component="kernel", expected="6.1", actual="6.2")


def drifted(node: str = "n1", actual: str = WRONG, vcluster: str = "batch", expected: str = RIGHT) -> cmd.NoteDrift:
    return cmd.NoteDrift(node=node, vcluster=vcluster, expected=expected, actual=actual, differences=(KERNEL,))


def sensitive_world() -> World:
    """n1 is given to a sensitive vCluster, and the audit chain is on."""
    world = World(3)
    world.must(cmd.AddAuditKey(key=KEY), actor="server")
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n1",)), create=True))
    return world


def entries(world: World, kind: str) -> list[AuditEntry]:
    return [each.entry for each in world.state.audit.entries.values() if each.entry.kind == kind]


def note(world: World, command: cmd.NoteDrift | None = None) -> tuple[ev.AnyEvent, ...]:
    return world.must(command or drifted(), actor=ACTOR)


def pass_hours(world: World, hours: int) -> None:
    world.at += hours * HOUR_MS


def test_an_ordinary_node_stays_in_service_and_its_work_goes_on() -> None:
    world = World()
    number = world.running("n1")
    note(world)
    assert (world.node("n1").state, world.node("n1").holder) == (NodeState.READY, number)
    assert world.state.drift.drifts["n1"] == Drift(
        node="n1",
        vcluster="batch",
        expected=RIGHT,
        actual=WRONG,
        since=world.at,
        differences=(KERNEL,),
        boot_id=world.node("n1").boot_id,
    )


def test_an_ordinary_node_that_is_right_again_is_as_it_was() -> None:
    world = World()
    note(world)
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    assert world.state.drift.drifts == {}
    assert world.must(cmd.ClearDrift(node="n1"), actor=ACTOR) == ()


def test_the_same_drift_is_noted_once_and_another_one_keeps_its_beginning() -> None:
    world = World()
    note(world)
    began = world.at
    assert note(world) == ()
    note(world, drifted(actual=OTHER))
    assert (world.state.drift.drifts["n1"].since, world.state.drift.drifts["n1"].actual) == (began, OTHER)
    note(world, drifted(actual=OTHER, expected="d" * 64))
    assert world.state.drift.drifts["n1"].since == world.at


def test_a_drift_that_a_reboot_did_not_end_is_persistent_until_it_ends() -> None:
    world = World()
    note(world)
    began = world.at
    world.state.put_node(replace(world.node("n1"), boot_id="next"))
    note(world)
    drift = world.state.drift.drifts["n1"]
    assert (drift.is_persistent, drift.boot_id, drift.since) == (True, "next", began)
    assert world.state.node_history("n1")[-1].why == "kernel 6.2 (expected 6.1), still so after a reboot"
    note(world, drifted(actual=OTHER))
    assert world.state.drift.drifts["n1"].is_persistent
    note(world, drifted(actual=OTHER, expected="d" * 64))
    assert not world.state.drift.drifts["n1"].is_persistent


@pytest.mark.parametrize("command", [drifted("n9"), drifted(vcluster="nowhere"), drifted(actual=RIGHT)])
def test_a_drift_that_cannot_be_is_refused(command: cmd.NoteDrift) -> None:
    assert World().refused(command, actor=ACTOR).code == "stale"


def test_a_sensitive_node_drains_in_the_same_command_and_the_audit_chain_says_so() -> None:
    world = sensitive_world()
    number = world.running("n1")
    note(world, drifted(vcluster="hospital"))
    assert world.node("n1").state is NodeState.DRAINING
    assert world[number].is_holding
    assert world.node("n1").reason == "configuration drift: kernel 6.2 (expected 6.1)"
    [entry] = entries(world, "conformance.drift")
    assert (entry.subject, entry.actor, entry.detail) == ("n1", ACTOR, "kernel 6.2 (expected 6.1)")


def test_a_claimed_node_is_sensitive_whatever_its_vcluster() -> None:
    world = World()
    world.state.put_node(replace(world.node("n1"), claimant="eve"))
    note(world)
    assert world.state.drift.drifts["n1"].is_sensitive
    assert world.node("n1").state is NodeState.DRAINING


def test_a_node_that_drifted_in_sensitive_use_returns_by_approval_alone_also_after_that_use() -> None:
    world = World()
    world.state.put_node(replace(world.node("n1"), claimant="eve"))
    note(world)
    world.state.put_node(replace(world.node("n1"), claimant="", state=NodeState.DRAINED))
    note(world)
    assert world.state.drift.drifts["n1"].is_sensitive
    assert world.refused(cmd.UndrainNode(node="n1", is_heard=True)).code == "conflict"
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    assert world.node("n1").state is NodeState.DRAINED
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.READY


@pytest.mark.parametrize(
    ("fingerprint", "detail"),
    [
        ("", f"fingerprint {RIGHT} again, waits for approval"),
        (RIGHT, f"fingerprint {RIGHT} again, waits for approval"),
        (WRONG, f"fingerprint {WRONG} is no longer against the baseline, waits for approval"),
    ],
)
def test_the_audit_chain_says_which_fingerprint_was_found_to_be_right(fingerprint: str, detail: str) -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1", fingerprint=fingerprint), actor=ACTOR)
    [entry] = entries(world, "conformance.verified")
    assert entry.detail == detail


def test_a_node_becomes_strict_when_it_is_given_to_a_sensitive_vcluster() -> None:
    world = World()
    note(world)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n1",)), create=True))
    note(world)
    assert world.node("n1").state is NodeState.DRAINED


def test_a_sensitive_node_returns_only_by_an_operators_approval_after_it_was_verified() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    refusal = world.refused(cmd.UndrainNode(node="n1", is_heard=True))
    assert refusal.message == (
        "node n1 still differs from the baseline of vCluster hospital: kernel 6.2 (expected 6.1)"
    )
    assert (refusal.current, refusal.limit) == (f"fingerprint {WRONG}", f"baseline {RIGHT}")
    assert world.refused(cmd.ApproveNode(node="n1", is_heard=True)).code == "conflict"
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    assert world.must(cmd.ClearDrift(node="n1"), actor=ACTOR) == ()
    assert world.node("n1").state is NodeState.DRAINED
    assert [entry.subject for entry in entries(world, "conformance.verified")] == ["n1"]
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.state.drift.drifts) == (NodeState.READY, {})
    assert [entry.actor for entry in entries(world, "node.approve")] == ["ada"]


def test_an_undrain_of_a_verified_node_is_its_approval() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.state.drift.drifts) == (NodeState.READY, {})


def test_a_verified_node_still_draining_cannot_be_approved_or_undrained_yet() -> None:
    world = sensitive_world()
    world.running("n1")
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    assert "still Draining" in world.refused(cmd.UndrainNode(node="n1", is_heard=True)).message
    assert "still Draining" in world.refused(cmd.ApproveNode(node="n1", is_heard=True)).message


def test_an_approval_leaves_the_drain_of_an_operator() -> None:
    world = sensitive_world()
    world.must(cmd.DrainNode(node="n1", reason="fan"))
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DRAINED, "fan")
    assert world.state.drift.drifts == {}


def test_an_approval_leaves_a_drain_that_an_operator_made_his_own() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.DrainNode(node="n1"), actor="op")
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.node("n1").reason_by) == (NodeState.DRAINED, "op")


def test_a_node_that_differs_again_while_it_waits_begins_anew() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    pass_hours(world, 3)
    note(world, drifted(vcluster="hospital"))
    drift = world.state.drift.drifts["n1"]
    assert (drift.verified_at, drift.since) == (0, world.at)


@pytest.mark.parametrize(
    ("node", "message", "hint"),
    [
        ("n2", "node n2 waits for no approval", "Waiting: n1."),
        ("n9", 'unknown node "n9"', "Known: n1, n2, n3."),
    ],
)
def test_only_a_node_that_waits_can_be_approved(node: str, message: str, hint: str) -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    refusal = world.refused(cmd.ApproveNode(node=node, is_heard=True))
    assert (refusal.message, refusal.hint) == (message, hint)


def test_an_ordinary_node_is_down_after_a_day_and_only_undrain_brings_it_back() -> None:
    world = World()
    note(world)
    pass_hours(world, 23)
    refusal = world.refused(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    assert (refusal.current, refusal.limit) == ("23:00:00", "1-00:00:00")
    pass_hours(world, 1)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    node = world.node("n1")
    assert (node.state, node.down_cause) == (NodeState.DOWN, DownCause.DRIFT)
    assert node.reason == "configuration drift for more than 1-00:00:00: kernel 6.2 (expected 6.1)"
    assert world.refused(cmd.EnableNode(node="n1")).code == "conflict"
    assert world.refused(cmd.UndrainNode(node="n1", is_heard=True)).code == "conflict"
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    assert world.node("n1").state is NodeState.DOWN
    world.must(cmd.UndrainNode(node="n1", is_heard=True))
    assert (world.node("n1").state, world.state.drift.drifts) == (NodeState.BOOTING, {})


def test_a_node_given_up_may_be_approved_as_well() -> None:
    world = World()
    note(world)
    pass_hours(world, 24)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    assert world.node("n1").state is NodeState.BOOTING


def test_an_approval_of_a_node_given_up_leaves_the_drain_of_an_operator() -> None:
    world = World()
    note(world)
    pass_hours(world, 24)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    world.must(cmd.DrainNode(node="n1", reason="fan"))
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    world.must(cmd.ConfirmNode(node="n1"))
    assert (world.node("n1").state, world.node("n1").reason) == (NodeState.DRAINED, "fan")


def test_work_on_a_node_that_is_given_up_ends_first() -> None:
    world = World()
    number = world.running("n1")
    note(world)
    pass_hours(world, 24)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    assert world.node("n1").state is NodeState.DRAINING
    assert world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR) == ()
    world.ended(number, "n1")
    assert world.node("n1").state is NodeState.DRAINED
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    assert world.node("n1").down_cause is DownCause.DRIFT
    assert world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR) == ()


def test_a_sensitive_node_has_four_hours() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    pass_hours(world, 4)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    assert world.node("n1").down_cause is DownCause.DRIFT
    assert [entry.subject for entry in entries(world, "conformance.escalated")] == ["n1"]


@pytest.mark.parametrize(("key", "vcluster"), [(TIMEOUT, "batch"), (SENSITIVE_TIMEOUT, "hospital")])
def test_no_time_limit_means_never(key: str, vcluster: str) -> None:
    world = sensitive_world() if vcluster == "hospital" else World()
    world.must(cmd.SetSetting(key=key, value="0"))
    note(world, drifted(vcluster=vcluster))
    pass_hours(world, 10_000)
    assert world.refused(cmd.EscalateDrift(node="n1"), actor=ACTOR).limit == "none"


def test_a_node_without_drift_is_not_given_up() -> None:
    assert World().refused(cmd.EscalateDrift(node="n1"), actor=ACTOR).code == "stale"


def test_a_baseline_is_declared_once_and_taken_back() -> None:
    world = World()
    world.must(cmd.AddAuditKey(key=KEY), actor="server")
    wanted = Baseline(vcluster="batch", fingerprint=RIGHT, components=(("kernel", "6.1"),), node="n1")
    world.must(cmd.SetBaseline(baseline=wanted))
    assert world.state.drift.baselines["batch"] == replace(wanted, set_by="ada", set_at=world.at)
    assert world.must(cmd.SetBaseline(baseline=wanted)) == ()
    world.must(cmd.SetBaseline(baseline=replace(wanted, fingerprint=OTHER)))
    assert world.state.drift.baselines["batch"].fingerprint == OTHER
    world.must(cmd.UnsetBaseline(vcluster="batch"))
    assert world.state.drift.baselines == {}
    assert world.refused(cmd.UnsetBaseline(vcluster="batch")).hint == "Declared for: none."
    kinds = ["baseline.set", "baseline.set", "baseline.unset"]
    assert [each.entry.kind for each in world.state.audit.entries.values()][-3:] == kinds


@pytest.mark.parametrize(
    ("vcluster", "fingerprint", "code"),
    [("nowhere", RIGHT, "not_found"), ("batch", "abc", "invalid"), ("batch", "G" * 64, "invalid")],
)
def test_a_baseline_that_cannot_be_is_refused(vcluster: str, fingerprint: str, code: str) -> None:
    baseline = Baseline(vcluster=vcluster, fingerprint=fingerprint)
    assert World().refused(cmd.SetBaseline(baseline=baseline)).code == code


def test_drifts_and_baselines_are_in_snapshots_and_in_the_digest() -> None:
    world = sensitive_world()
    before = world.state.digest()
    note(world, drifted(vcluster="hospital"))
    world.must(cmd.SetBaseline(baseline=Baseline(vcluster="batch", fingerprint=RIGHT)))
    assert world.state.digest() != before
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert (loaded.drift.drifts, loaded.drift.baselines) == (world.state.drift.drifts, world.state.drift.baselines)
    assert loaded.digest() == world.state.digest()


def test_a_drift_without_components_is_told_by_fingerprints() -> None:
    world = sensitive_world()
    note(world, replace(drifted(vcluster="hospital"), differences=()))
    assert world.node("n1").reason == f"configuration drift: expected {RIGHT[:12]}, found {WRONG[:12]}"


def test_broken_records_of_drift_are_found() -> None:
    world = World()
    good = Drift(node="n1", vcluster="batch", expected=RIGHT, actual=WRONG, since=1)
    world.state.drift.drifts = {"n9": replace(good, node="n9", actual=RIGHT, verified_at=5)}
    world.state.drift.baselines = {"x": Baseline(vcluster="x", fingerprint=RIGHT)}
    world.state.drift.accepted = {"n8": AcceptedFingerprint(node="n8", vcluster="batch", fingerprint=RIGHT)}
    assert check(world.state) == [
        "drift of n9 is that of no node",
        "node n9 waits for an approval that it does not need",
        "node n9 differs from itself",
        "the baseline of x is that of no vCluster",
        "the accepted fingerprint of n8 is that of no node of a vCluster",
    ]


def test_many_differences_are_told_in_a_line() -> None:
    many = [Difference(component=f"c{index}", expected="1") for index in range(6)]
    assert describe(many).endswith("c3 none (expected 1) and 2 more")


def test_the_story_of_a_node_tells_of_its_drift() -> None:
    world = sensitive_world()
    note(world, drifted(vcluster="hospital"))
    pass_hours(world, 4)
    world.must(cmd.EscalateDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ClearDrift(node="n1"), actor=ACTOR)
    world.must(cmd.ApproveNode(node="n1", is_heard=True))
    told = [(entry.trigger, entry.to_state) for entry in world.state.node_history("n1")][-8:]
    assert told == [
        ("drifted", NodeState.READY),
        ("drain", NodeState.DRAINING),
        ("emptied", NodeState.DRAINED),
        ("drift_escalated", NodeState.DRAINED),
        ("drift_expired", NodeState.DOWN),
        ("drift_verified", NodeState.DOWN),
        ("undrain", NodeState.BOOTING),
        ("conforms", NodeState.BOOTING),
    ]


def accepted_world() -> World:
    """As `sensitive_world`; n1 was taken in as it is."""
    world = sensitive_world()
    world.must(taken_in(), actor=ACTOR)
    return world


def taken_in(fingerprint: str = RIGHT, node: str = "n1", vcluster: str = "hospital") -> cmd.AcceptFingerprint:
    return cmd.AcceptFingerprint(
        node=node, vcluster=vcluster, fingerprint=fingerprint, components=(("kernel", "6.1"),) if fingerprint else ()
    )


def test_a_sensitive_node_has_to_stay_what_it_was_and_an_approval_accepts_what_it_became() -> None:
    world = accepted_world()
    assert world.must(taken_in(), actor=ACTOR) == ()
    assert "has to stay what it was" in world.refused(taken_in(WRONG)).message
    assert [entry.actor for entry in entries(world, "conformance.accepted")] == [ACTOR]
    note(world, drifted(vcluster="hospital"))
    assert world.node("n1").state is NodeState.DRAINED
    assert world.refused(taken_in()).code == "stale"  # not while it differs
    events = world.must(cmd.ApproveNode(node="n1", is_heard=True), actor="ada")
    assert any(isinstance(event, ev.FingerprintAccepted) for event in events)
    own = world.state.drift.accepted["n1"]
    assert (own.fingerprint, own.by, own.at) == (WRONG, "ada", world.at)
    assert (world.node("n1").state, world.state.drift.drifts) == (NodeState.READY, {})
    world.must(taken_in(WRONG), actor=ACTOR)  # its components are known now
    assert world.state.drift.accepted["n1"].by == "ada"
    assert [entry.actor for entry in entries(world, "conformance.accepted")] == [ACTOR, "ada"]


def test_an_approval_accepts_nothing_against_a_declared_baseline_or_a_majority() -> None:
    world = accepted_world()
    world.must(cmd.SetBaseline(baseline=Baseline(vcluster="hospital", fingerprint=RIGHT)), actor="ada")
    note(world, drifted(vcluster="hospital"))
    assert "still differs" in world.refused(cmd.ApproveNode(node="n1", is_heard=True)).message
    other = accepted_world()
    note(other, drifted(vcluster="hospital", expected=OTHER))
    assert "still differs" in other.refused(cmd.ApproveNode(node="n1", is_heard=True)).message


def test_what_a_node_was_is_forgotten_when_it_leaves_sensitive_use() -> None:
    world = accepted_world()
    assert taken_in("") == cmd.AcceptFingerprint(node="n1", vcluster="hospital")
    world.must(taken_in(""), actor=ACTOR)
    assert world.state.drift.accepted == {}
    assert world.must(taken_in(""), actor=ACTOR) == ()


@pytest.mark.parametrize(
    "command", [taken_in("short"), taken_in(node="nowhere"), taken_in(vcluster="batch"), taken_in(vcluster="nowhere")]
)
def test_a_fingerprint_that_cannot_be_accepted_is_refused(command: cmd.AcceptFingerprint) -> None:
    assert accepted_world().refused(command).code == "stale"


def test_accepted_fingerprints_need_level_2_and_are_in_snapshots_and_in_the_digest() -> None:
    world = sensitive_world()
    world.state.level = 1
    assert "needs level 2" in world.refused(taken_in()).message
    world = accepted_world()
    copy = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert copy.drift.accepted == world.state.drift.accepted
    before = world.state.digest()
    assert copy.digest() == before
    world.must(taken_in(""), actor=ACTOR)
    assert world.state.digest() != before
