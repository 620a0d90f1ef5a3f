"""Who becomes a node: known names join, others wait; revoked ones stay out; a token is used once."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.rules import admission
from lattice.core.model.nodes.admission import AdmissionStatus, Enrolment
from lattice.core.model.nodes.nodes import DownCause, Hardware, NodeState
from lattice.core.model.site.audit import AuditKey, key_id
from lattice.core.model.work.allocations import AllocationState
from tests.unit.core.machine.world import World

HARDWARE = Hardware(cpus=4, memory_mb=4096)
PUBLIC = "ab" * 32


def strict() -> World:
    """A cluster where new nodes wait; n1 to n3 were there before."""
    world = World()
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id(PUBLIC), public=PUBLIC, server="s1")))
    world.must(cmd.SetSetting(key="node.admission", value="approve"))
    return world


def joins(world: World, name: str, boot_id: str = "b1") -> NodeState:
    world.must(cmd.RegisterNode(node=name, hardware=HARDWARE, boot_id=boot_id))
    world.must(cmd.ConfirmNode(node=name))
    return world.node(name).state


def recorded(world: World, kind: str) -> list[tuple[str, str]]:
    entries = (chained.entry for chained in world.state.audit.entries.values())
    return [(entry.subject, entry.detail) for entry in entries if entry.kind == kind]


def test_an_unknown_node_waits_in_quarantine_until_it_is_admitted() -> None:
    world = strict()
    assert joins(world, "stranger") is NodeState.QUARANTINE
    assert "lattice admin node admit stranger" in world.node("stranger").reason
    assert joins(world, "stranger", "b2") is NodeState.QUARANTINE
    world.must(cmd.AdmitNode(node="stranger", reason="new rack"), actor="root")
    assert world.node("stranger").state is NodeState.BOOTING
    assert joins(world, "stranger") is NodeState.READY
    assert world.must(cmd.AdmitNode(node="stranger")) == ()
    assert recorded(world, "node.join") == [("stranger", "waits for admission")]
    assert recorded(world, "node.admit") == [("stranger", "new rack")]


@pytest.mark.parametrize(
    "order",
    [
        cmd.WipeNode(node="stranger", force=True),
        cmd.RebootNode(node="stranger"),
        cmd.EnableNode(node="stranger"),
    ],
)
def test_no_other_order_lets_a_waiting_node_in(order: cmd.AnyCommand) -> None:
    world = strict()
    joins(world, "stranger")
    assert "waits for admission" in world.refused(order).message
    world.must(cmd.DisableNode(node="stranger"))
    assert "waits for admission" in world.refused(cmd.EnableNode(node="stranger")).message
    assert joins(world, "stranger") is NodeState.DOWN
    world.must(cmd.AdmitNode(node="stranger"))
    assert joins(world, "stranger") is NodeState.DOWN, "it is still disabled"
    world.must(cmd.EnableNode(node="stranger"))
    assert joins(world, "stranger") is NodeState.READY


def test_open_clusters_take_everybody_and_record_who_joined() -> None:
    world = strict()
    world.must(cmd.SetSetting(key="node.admission", value="open"))
    assert joins(world, "n9") is NodeState.READY
    assert recorded(world, "node.join") == [("n9", "admitted")]
    joins(world, "n9", "b2")
    assert len(recorded(world, "node.join")) == 1


def test_names_may_be_admitted_before_their_nodes_come() -> None:
    world = strict()
    world.must(cmd.AdmitNode(node="n9"))
    assert joins(world, "n9") is NodeState.READY
    assert "cannot be the name" in world.refused(cmd.AdmitNode(node="a/b")).message


def test_nodes_that_were_there_before_stay_nodes() -> None:
    world = strict()
    assert joins(world, "n1", "b2") is NodeState.READY


def test_a_revoked_node_loses_its_work_and_stays_out_until_it_is_admitted() -> None:
    world = strict()
    number = world.running("n1")
    world.must(cmd.RevokeNode(node="n1", reason="key was copied"), actor="root")
    node = world.node("n1")
    assert (node.state, node.down_cause) == (NodeState.DOWN, DownCause.OPERATOR)
    assert world.state.allocations[number].state is AllocationState.PENDING
    assert "revoked" in world.refused(cmd.RegisterNode(node="n1", hardware=HARDWARE)).message
    assert "revoked" in world.refused(cmd.EnableNode(node="n1")).message
    assert recorded(world, "node.revoke") == [("n1", "key was copied")]
    revoked_at = world.state.admission.names["n1"].valid_from
    world.must(cmd.AdmitNode(node="n1"))
    assert joins(world, "n1") is NodeState.READY
    assert world.state.admission.names["n1"].valid_from == revoked_at > 0


def enrolment(**more: object) -> Enrolment:
    fields = {"token": "t1", "node": "n9", "key": "k1", "expires_at": 1_000_000}
    return Enrolment(**{**fields, **more})  # type: ignore[arg-type]


def test_a_token_is_good_for_one_key_of_one_node() -> None:
    world = strict()
    world.must(cmd.EnrolNode(enrolment=enrolment(), is_named=True))
    assert world.must(cmd.EnrolNode(enrolment=enrolment(), is_named=True)) == ()
    for other in (enrolment(key="k2"), enrolment(node="n8")):
        assert "used already" in world.refused(cmd.EnrolNode(enrolment=other, is_named=True)).message
    assert joins(world, "n9") is NodeState.READY, "an administrator named it in the token"
    assert recorded(world, "node.enrol") == [("n9", "key k1")]


def test_a_token_that_names_no_node_admits_none() -> None:
    world = strict()
    world.must(cmd.EnrolNode(enrolment=enrolment()))
    assert joins(world, "n9") is NodeState.QUARANTINE


def test_tokens_are_forgotten_when_they_have_expired() -> None:
    world = strict()
    world.must(cmd.EnrolNode(enrolment=enrolment(expires_at=world.at + 10)))
    world.at += 100
    assert "expired" in world.refused(cmd.EnrolNode(enrolment=enrolment(expires_at=world.at - 50))).message
    world.must(cmd.EnrolNode(enrolment=enrolment(token="t2")))
    assert list(world.state.admission.enrolments) == ["t2"]


def test_a_revoked_node_does_not_enrol() -> None:
    world = strict()
    world.must(cmd.RevokeNode(node="n9"))
    assert "revoked" in world.refused(cmd.EnrolNode(enrolment=enrolment(), is_named=True)).message


def test_a_snapshot_keeps_who_was_judged() -> None:
    world = strict()
    joins(world, "stranger")
    world.must(cmd.EnrolNode(enrolment=enrolment()))
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.digest() == world.state.digest()
    assert loaded.admission.standing("stranger") is AdmissionStatus.WAITING
    assert loaded.admission.enrolments == world.state.admission.enrolments


def used(node: str = "n9", shown: str = "t1", expires_at: int = 1 << 50) -> cmd.EnrolNode:
    return cmd.EnrolNode(enrolment=Enrolment(token=shown, node=node, key="k", expires_at=expires_at), is_named=True)


@pytest.mark.parametrize("name", ["", "-n1", "a b", "n1\n", "x" * 64, "../n1"])
def test_what_cannot_be_the_name_of_a_node_is_refused(name: str) -> None:
    world = strict()
    for command in (cmd.AdmitNode(node=name), cmd.RevokeNode(node=name), used(name)):
        assert "cannot be the name of a node" in world.refused(command).message


def test_a_token_that_has_expired_is_refused() -> None:
    assert "has expired" in strict().refused(used(expires_at=0)).message


def test_those_who_wait_names_and_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = strict()
    joins(world, "stranger")
    monkeypatch.setattr(admission, "MAX_WAITING", 1)
    another = cmd.RegisterNode(node="another", hardware=HARDWARE, boot_id="b1")
    assert world.refused(another).message == "too many nodes wait for admission"
    world.must(used())
    monkeypatch.setattr(admission, "MAX_ENROLMENTS", 1)
    assert world.refused(used("n9", "t2")).message == "too many enrolment tokens at once"
    monkeypatch.setattr(admission, "MAX_NAMES", len(world.state.admission.names))
    assert world.refused(cmd.AdmitNode(node="third")).message == "too many names of nodes"
    world.must(cmd.AdmitNode(node="stranger"))
    assert world.must(cmd.AdmitNode(node="n1")) == ()  # it was there before anyone was asked


def test_a_waiting_node_that_takes_work_is_noticed() -> None:
    world = strict()
    joins(world, "stranger")
    assert list(check(world.state)) == []
    world.state.put_node(replace(world.node("stranger"), state=NodeState.READY, reason=""))
    assert "node stranger is Ready and waits for admission" in list(check(world.state))
