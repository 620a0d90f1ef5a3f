"""Entries of administrative changes say what was changed, from what to what."""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.rules.site.changes import described
from lattice.core.model.site.audit import MAX_DETAIL, AuditKey, key_id
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.tenants import Tenant, Vcluster
from tests.unit.core.machine.world import World

PUBLIC = "ab" * 32


def recorded(level: int = 2) -> World:
    world = World(level=level)
    world.must(cmd.AddAuditKey(key=AuditKey(id=key_id(PUBLIC), public=PUBLIC, server="s1")))
    return world


def last(world: World) -> tuple[str, str]:
    entry = world.state.audit.entries[world.state.audit.head.last].entry
    return entry.kind, entry.detail


def test_every_changed_field_is_told_with_its_value_before_and_after() -> None:
    world = recorded()
    physics = world.state.tenants["physics"]
    world.must(cmd.SetTenant(tenant=replace(physics, admins=("mallory",), members=("ann", "eve"), max_nodes=4)))
    kind, detail = last(world)
    assert kind == "tenant.update"
    assert set(detail.split("; ")) == {"max_nodes: none -> 4", "members: none -> ann, eve", "admins: none -> mallory"}
    world.must(cmd.SetTenant(tenant=replace(physics, admins=("mallory",), max_nodes=8, members=("ann",))))
    assert set(last(world)[1].split("; ")) == {"max_nodes: 4 -> 8", "members: ann, eve -> ann"}


def test_a_new_record_tells_what_differs_from_the_defaults() -> None:
    world = recorded()
    world.must(cmd.SetTenant(tenant=Tenant(name="ml", max_nodes=3), create=True))
    assert last(world) == ("tenant.create", "name: none -> ml; max_nodes: none -> 3")
    world.must(cmd.SetVcluster(vcluster=replace(world.state.vclusters["batch"], weights=(("priority", 0.5),))))
    assert last(world) == ("vcluster.update", "weights: none -> priority=0.5")


def test_a_deleted_record_tells_what_it_was() -> None:
    world = recorded()
    world.must(cmd.SetTenant(tenant=Tenant(name="ml", max_nodes=3), create=True))
    world.must(cmd.DeleteRecord(what=Deletable.TENANT, name="ml"))
    assert last(world) == ("tenant.delete", "name: ml -> none; max_nodes: 3 -> none")
    world.must(cmd.DeleteRecord(what=Deletable.VCLUSTER, name="batch"))
    assert last(world)[1].startswith("name: batch -> none")


def test_settings_tell_the_former_value() -> None:
    world = recorded()
    world.must(cmd.SetSetting(key="archive.after_s", value="60"))
    world.must(cmd.SetSetting(key="archive.after_s", value="90"))
    assert last(world) == ("setting.set", "value: 60 -> 90")


def test_long_changes_are_cut_and_still_name_every_field() -> None:
    world = recorded()
    names = tuple(f"user{n}" for n in range(500))
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", members=names, admins=names, max_nodes=1, max_class=3)))
    _, detail = last(world)
    assert len(detail) <= MAX_DETAIL
    assert all(field in detail for field in ("members", "admins", "max_nodes", "max_class"))


def test_logs_of_older_servers_give_the_chain_that_they_gave() -> None:
    world = recorded(level=1)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", default_walltime_s=60)))
    assert last(world) == ("vcluster.update", "scheduler hpc-backfill")
    world.must(cmd.SetSetting(key="archive.after_s", value="60"))
    assert last(world) == ("setting.set", "60")


def test_more_changes_than_fit_are_told_by_their_fields_alone() -> None:
    changes = tuple((f"field_{number}", "before", "after") for number in range(20))
    told = described(changes, 100)
    assert told.startswith("field_0, field_1, ")
    assert len(told) == 100
