"""Tenants, projects, vClusters and nodes are deleted once nothing uses them."""

import pytest

from lattice.core.cycle import Cycle
from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.state import State
from lattice.core.model.nodes.admission import AdmissionStatus
from lattice.core.model.nodes.drift import Baseline
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from tests.unit.core.machine.world import World


def delete(what: Deletable, name: str, tenant: str = "") -> cmd.DeleteRecord:
    return cmd.DeleteRecord(what=what, name=name, tenant=tenant)


TENANT, VCLUSTER = delete(Deletable.TENANT, "physics"), delete(Deletable.VCLUSTER, "batch")
PROJECT, NODE = delete(Deletable.PROJECT, "lhc", "physics"), delete(Deletable.NODE, "n1")


def reload(world: World) -> State:
    return decode_state_chunks(list(encode_state_chunks(world.state.frozen_view())))


def reserve(world: World, **changes: object) -> None:
    start = world.at + 10_000
    reservation = AdvanceReservation(name="course", start_at=start, end_at=start + 10_000, **changes)  # type: ignore[arg-type]
    world.must(cmd.SetReservation(reservation=reservation, create=True))


@pytest.fixture
def world() -> World:
    world = World()
    world.must(cmd.SetProject(project=Project(tenant="physics", name="lhc"), create=True))
    return world


@pytest.mark.parametrize("command", [TENANT, PROJECT, VCLUSTER], ids=["tenant", "project", "vcluster"])
def test_what_waits_or_runs_keeps_its_tenant_project_and_vcluster(world: World, command: cmd.DeleteRecord) -> None:
    world.submit(project="lhc")
    world.submit(project="lhc", tasks=((0, 9, 1),))
    refusal = world.refused(command)
    assert (refusal.code, refusal.hint) == ("conflict", "Wait for it or cancel it first.")
    assert refusal.message.endswith("has work: a1, a2")


def test_many_users_of_a_record_are_counted_not_listed(world: World) -> None:
    for _ in range(7):
        world.submit()
    assert world.refused(VCLUSTER).message == 'vCluster "batch" has work: a1, a2, a3, a4, a5 and 2 more'


def test_ended_work_does_not_keep_a_vcluster_and_keeps_its_name(world: World) -> None:
    number = world.running("n1")
    world.ended(number, "n1", exit_code=0)
    world.must(cmd.SetBaseline(baseline=Baseline(vcluster="batch", fingerprint="f" * 64)), actor="op")
    world.must(VCLUSTER)
    assert (world.state.vclusters, world.state.drift.baselines) == ({}, {})
    assert world[number].vcluster == "batch"
    assert world.refused(world.submission()).message == 'unknown vCluster "batch"'
    assert reload(world).digest() == world.state.digest()


def test_a_tenant_is_kept_by_projects_vclusters_and_reservations(world: World) -> None:
    assert world.refused(TENANT).message == 'tenant "physics" has projects: lhc'
    world.must(PROJECT)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", tenants=("physics",))))
    assert world.refused(TENANT).message == 'tenant "physics" is named by vClusters: batch'
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch")))
    reserve(world, tenants=("physics",))
    assert world.refused(TENANT).message == 'tenant "physics" is named by reservations: course'
    world.must(cmd.DeleteReservation(name="course"))
    world.must(TENANT)
    assert (world.state.tenants, world.state.projects) == ({}, {})
    assert reload(world).digest() == world.state.digest()


def test_a_node_is_kept_while_it_works_or_is_listed(world: World) -> None:
    refusal = world.refused(NODE)
    assert (refusal.message, refusal.current) == ("node n1 is in use", "Ready")
    world.must(cmd.DrainNode(node="n1", reason="sold"))
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", nodes=("n1", "n2"))))
    assert world.refused(NODE).message == 'node "n1" is named by vClusters: batch'
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch")))
    reserve(world, nodes=("n1",))
    assert world.refused(NODE).message == 'node "n1" is named by reservations: course'


def test_nothing_is_left_of_a_deleted_node_and_no_plan_counts_on_it(world: World) -> None:
    cycle = Cycle()
    cycle.load(world.state)
    world.must(cmd.DrainNode(node="n1", reason="sold"))
    events = world.must(NODE, actor="op")
    cycle.note(world.state, events)
    assert "n1" not in world.state.nodes
    assert world.state.node_history("n1") == ()
    assert reload(world).digest() == world.state.digest()
    number = world.submit(nodes=2)
    assert world.refused(world.submission(nodes=3)).current == "2 of 2 nodes match"
    cycle.load(world.state)
    (placed,) = cycle.plan(None, world.at).placements
    assert (placed.number, sorted(share.node for share in placed.shares)) == (number, ["n2", "n3"])


def test_a_deleted_node_has_not_drifted(world: World) -> None:
    world.must(cmd.SetBaseline(baseline=Baseline(vcluster="batch", fingerprint="f" * 64)))
    world.must(cmd.NoteDrift(node="n1", vcluster="batch", expected="f" * 64, actual="e" * 64, differences=()))
    assert "n1" in world.state.drift.drifts
    world.must(cmd.DrainNode(node="n1", reason="sold"))
    world.must(NODE)
    assert "n1" not in world.state.drift.drifts
    assert reload(world).digest() == world.state.digest()


def test_a_plan_after_a_deletion_holds_to_what_it_promised(world: World) -> None:
    world.running("n1", walltime_s=600)
    world.submit(nodes=3)
    cycle = Cycle()
    cycle.load(world.state)
    promised = cycle.plan(None, world.at).reservations
    assert len(promised) == 1
    cycle.note(world.state, world.must(PROJECT))
    assert cycle.plan(None, world.at).reservations == promised


def test_a_revoked_node_stays_revoked_when_it_is_deleted(world: World) -> None:
    world.must(cmd.RevokeNode(node="n1", reason="key was copied"), actor="op")
    world.must(cmd.RevokeNode(node="n2", reason="key was copied"), actor="op")
    world.must(cmd.AdmitNode(node="n2"), actor="op")
    world.must(cmd.DrainNode(node="n2", reason="sold"))
    world.must(NODE)
    world.must(delete(Deletable.NODE, "n2"))
    assert world.state.admission.standing("n1") is AdmissionStatus.REVOKED
    assert world.state.admission.standing("n2") is None


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (delete(Deletable.TENANT, "ghosts"), "Known: physics."),
        (delete(Deletable.PROJECT, "ghosts", "physics"), "Known: lhc."),
        (delete(Deletable.VCLUSTER, "ghosts"), "Known: batch."),
        (delete(Deletable.NODE, "ghosts"), ""),
    ],
)
def test_what_does_not_exist_is_not_found(world: World, command: cmd.DeleteRecord, hint: str) -> None:
    refusal = world.refused(command)
    assert (refusal.code, refusal.hint) == ("not_found", hint)


def test_servers_of_the_release_before_cannot_delete() -> None:
    world = World(level=OLDEST)
    world.must(cmd.SetTenant(tenant=Tenant(name="other"), create=True))
    assert world.refused(delete(Deletable.TENANT, "other")).code == "conflict"
