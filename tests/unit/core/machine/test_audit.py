"""The audit chain in the state: what is recorded, by which command, and how it is sealed and shortened."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.rules.site.audit import MAX_NOTES, notes_of
from lattice.core.model.nodes.nodes import DownCause
from lattice.core.model.site.audit import (
    AuditEntry,
    AuditKey,
    AuditNote,
    AuditSeal,
    ChainedEntry,
    canonical,
    key_id,
    next_link,
)
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import SENSITIVE, Project, Tenant, Vcluster
from lattice.core.model.work.steps import StepRecord
from tests.unit.core.machine.world import World

PUBLIC = "ab" * 32
KEY = AuditKey(id=key_id(PUBLIC), public=PUBLIC, server="s1")


def audited(**vcluster: object) -> World:
    world = World(3, **vcluster)  # type: ignore[arg-type]
    world.must(cmd.AddAuditKey(key=KEY), actor="server")
    return world


def recorded(events: tuple[ev.AnyEvent, ...]) -> list[AuditEntry]:
    return [event.added.entry for event in events if isinstance(event, ev.AuditRecorded)]


def seal_of(world: World, last: int = 0, **changes: object) -> AuditSeal:
    head = world.state.audit.head
    last = last or head.last
    seal = AuditSeal(
        first=head.sealed + 1,
        last=last,
        previous=head.sealed_link,
        head=world.state.audit.link_at(last) or "",
        key=KEY.id,
        sealed_at=7,
        signature="s",
    )
    return replace(seal, **changes)


def test_nothing_is_recorded_before_there_is_a_key() -> None:
    world = World()
    assert recorded(world.must(cmd.DrainNode(node="n1"))) == []
    assert world.refused(cmd.RecordAudit(notes=(AuditNote(kind="x"),))).code == "conflict"
    assert world.state.audit.head.last == 0


def test_an_entry_has_who_when_what_and_is_bound_to_those_before_it() -> None:
    world = audited()
    (entry,) = recorded(world.must(cmd.DrainNode(node="n2", reason="fan"), actor="olga"))
    assert (entry.seq, entry.at, entry.kind, entry.actor) == (2, world.at, "node.drain", "olga")
    assert (entry.subject, entry.nodes, entry.detail, entry.outcome) == ("n2", ("n2",), "fan", "done")
    registry = world.state.audit
    assert registry.head.link == next_link(registry.entries[1].link, canonical(entry))


RESERVATION = AdvanceReservation(name="upkeep", start_at=10_000, end_at=20_000, nodes=("n1",))


@pytest.mark.parametrize(
    ("command", "kind", "subject"),
    [
        (cmd.DisableNode(node="n1", reason="x"), "node.disable", "n1"),
        (cmd.DownNode(node="n1", cause=DownCause.HARDWARE, reason="ECC"), "node.fault", "n1"),
        (cmd.WipeNode(node="n1", force=True), "node.wipe", "n1"),
        (cmd.SetTenant(tenant=Tenant(name="bio"), create=True), "tenant.create", "bio"),
        (cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=3)), "tenant.update", "physics"),
        (cmd.SetProject(project=Project(tenant="physics", name="p"), create=True), "project.create", "p"),
        (cmd.SetVcluster(vcluster=Vcluster(name="v"), create=True), "vcluster.create", "v"),
        (cmd.SetReservation(reservation=RESERVATION, create=True), "reservation.create", "upkeep"),
        (cmd.SetSetting(key="agent.grace_s", value="3"), "setting.set", "agent.grace_s"),
    ],
)
def test_administration_is_recorded(command: cmd.AnyCommand, kind: str, subject: str) -> None:
    (entry,) = recorded(audited().must(command, actor="root"))
    assert (entry.kind, entry.subject, entry.actor) == (kind, subject, "root")


def test_what_is_taken_back_is_recorded_and_what_changes_nothing_is_not() -> None:
    world = audited()
    world.must(cmd.SetReservation(reservation=RESERVATION, create=True))
    assert recorded(world.must(cmd.DeleteReservation(name="upkeep")))[0].kind == "reservation.delete"
    world.must(cmd.DrainNode(node="n1"))
    assert recorded(world.must(cmd.UndrainNode(node="n1", is_heard=True)))[0].kind == "node.undrain"
    world.must(cmd.DisableNode(node="n1"))
    assert recorded(world.must(cmd.EnableNode(node="n1")))[0].kind == "node.enable"
    assert recorded(world.must(cmd.RebootNode(node="n1")))[0].kind == "node.reboot"
    before = world.state.audit.head.last
    world.must(cmd.SetSetting(key="agent.grace_s", value="3"))
    world.must(cmd.SetSetting(key="agent.grace_s", value="3"))
    world.refused(cmd.DrainNode(node="n9"))
    world.must(cmd.DegradeNode(node="n2"))
    world.must(cmd.DownNode(node="n2"))
    world.must(cmd.RegisterNode(node="n3", hardware=world.node("n3").hardware, boot_id="b2"))
    assert world.state.audit.head.last == before + 1


def test_a_repeated_command_is_recorded_once() -> None:
    world = audited()
    world.must(cmd.DrainNode(node="n1"), command_id="c")
    world.must(cmd.DrainNode(node="n1"), command_id="c")
    assert world.state.audit.head.last == 2


def test_sensitive_work_is_recorded_from_submission_to_end() -> None:
    world = audited(scheduler=SENSITIVE)
    number = world.submit(nodes=1)
    world.place(number, "n1")
    world.started(number, "n1")
    step = StepRecord(step=0, run=1, name="look", nodes=("n1",), tasks=1, started_at=1, ended_at=2)
    world.must(cmd.RecordSteps(number=number, steps=(step,)))
    world.must(cmd.CancelAllocation(number=number), actor="ada")
    world.ended(number, "n1", stopped=True)
    found = [chained.entry for chained in world.state.audit.entries.values()][1:]
    assert [entry.kind for entry in found] == [
        "allocation.submit",
        "allocation.place",
        "allocation.start",
        "allocation.steps",
        "allocation.stop",
        "allocation.end",
    ]
    assert {(entry.user, entry.tenant, entry.allocation) for entry in found} == {("ada", "physics", number)}
    assert found[1].nodes == ("n1",)
    assert found[-1].detail == "Cancelled, cause cancelled"


def test_a_node_that_is_disabled_takes_sensitive_work_with_it_and_both_are_recorded() -> None:
    world = audited(scheduler=SENSITIVE)
    number = world.running("n1")
    found = recorded(world.must(cmd.DisableNode(node="n1", reason="fire"), actor="olga"))
    assert found[0].kind == "node.disable"
    assert {entry.allocation for entry in found[1:]} == {number}


def test_task_groups_of_a_vcluster_that_became_sensitive_are_recorded_and_other_work_is_not() -> None:
    world = audited()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="open", default_walltime_s=60), create=True))
    before = world.state.audit.head.last
    world.submit(vcluster="open")
    group = world.submit(tasks=((0, 3, 1),))
    assert world.state.audit.head.last == before
    batch = Vcluster(name="batch", default_walltime_s=60)
    world.must(cmd.SetVcluster(vcluster=replace(batch, scheduler=SENSITIVE)))
    world.submit(vcluster="open")
    submitted = ev.TaskGroupSubmitted(group=world.state.groups[group])
    envelope = cmd.Envelope(at=world.at, command=cmd.CancelAllocation(number=group), actor="ada")
    (note,) = notes_of(world.state, envelope, (submitted,))
    assert (note.kind, note.allocation, note.user) == ("allocation.submit", group, "ada")
    (entry,) = recorded(world.must(cmd.CancelAllocation(number=group)))
    assert (entry.kind, entry.allocation, entry.detail) == (
        "allocation.end",
        group,
        "4 waiting tasks given up: cancelled",
    )
    world.must(cmd.SetVcluster(vcluster=batch))
    assert not world.state.audit.sensitive


def test_notes_of_the_api_become_entries_and_are_bounded() -> None:
    world = audited()
    notes = (AuditNote(kind="login.refused", count=9), AuditNote(kind="role.denied", actor="bob", detail="x" * 5000))
    first, second = recorded(world.must(cmd.RecordAudit(notes=notes)))
    assert (first.count, first.actor, second.actor) == (9, "", "bob")
    assert len(second.detail) == 1000
    assert world.refused(cmd.RecordAudit(notes=notes[:1] * (MAX_NOTES + 1))).code == "invalid"


def test_a_seal_goes_on_where_the_last_one_ended() -> None:
    world = audited()
    world.must(cmd.DrainNode(node="n1"))
    world.must(cmd.SealAudit(seal=seal_of(world, 1)))
    assert world.state.audit.head.sealed == 1
    for wrong in ({"first": 1}, {"previous": "00" * 32}, {"head": "00" * 32}, {"last": 9}, {"last": 1}):
        assert world.refused(cmd.SealAudit(seal=seal_of(world, **wrong))).code == "stale", wrong
    assert world.refused(cmd.SealAudit(seal=seal_of(world, key="other"))).code == "conflict"
    world.must(cmd.SealAudit(seal=seal_of(world)))
    assert world.state.audit.head.sealed == 2


def test_a_new_key_retires_the_old_one_of_its_server() -> None:
    world = audited()
    other = AuditKey(id=key_id("cd" * 32), public="cd" * 32, server="s2")
    world.must(cmd.AddAuditKey(key=other))
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id("ef" * 32), public="ef" * 32, server="s1")))
    keys = world.state.audit.keys
    assert keys[KEY.id].retired_at == world.at
    assert not keys[other.id].retired_at
    assert world.refused(cmd.SealAudit(seal=seal_of(world))).code == "conflict"
    assert world.refused(cmd.AddAuditKey(key=other)).code == "already_exists"
    for bad in (replace(other, id="x"), replace(other, public="zz" * 32), replace(other, public="ab")):
        assert world.refused(cmd.AddAuditKey(key=bad)).code == "invalid"


def test_only_sealed_segments_leave_and_the_rest_is_still_one_chain() -> None:
    world = audited()
    for name in ("n1", "n2", "n3"):
        world.must(cmd.DrainNode(node=name))
    assert world.refused(cmd.ArchiveAudit(last=2)).code == "stale"
    world.must(cmd.SealAudit(seal=seal_of(world, 2)))
    world.must(cmd.SealAudit(seal=seal_of(world, 3)))
    world.must(cmd.ArchiveAudit(last=2))
    registry = world.state.audit
    assert list(registry.entries) == [3, 4]
    assert (registry.head.archived, list(registry.seals)) == (2, [3])
    assert decode_state_chunks(encode_state_chunks(world.state.frozen_view())).digest() == world.state.digest()
    assert registry.link_at(1) is None
    assert registry.link_at(2) == registry.head.archived_link


def test_breaks_of_the_chain_are_found() -> None:
    world = audited()
    world.must(cmd.DrainNode(node="n1"))
    world.must(cmd.SealAudit(seal=seal_of(world)))
    registry = world.state.audit
    good = dict(registry.entries), dict(registry.seals), registry.head
    registry.entries[2] = ChainedEntry(replace(registry.entries[2].entry, actor="eve"), registry.entries[2].link)
    assert any("broken at entry 2" in finding for finding in check(world.state))
    registry.entries = dict(good[0])
    del registry.entries[2]
    assert any("gaps" in finding for finding in check(world.state))
    registry.entries = dict(good[0])
    registry.seals[2] = replace(registry.seals[2], head="00" * 32, key="no")
    findings = " ".join(check(world.state))
    assert "does not fit" in findings
    assert "no known key" in findings
    registry.seals, registry.head = dict(good[1]), replace(good[2], sealed=1, link="00" * 32)
    findings = " ".join(check(world.state))
    assert "sealed as far" in findings
    assert "not its last link" in findings
