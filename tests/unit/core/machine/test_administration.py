"""Tenants, projects, vClusters and settings."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.model.site.tenants import NodeSharing, Project, Tenant, Vcluster
from lattice.core.model.site.weights import SINCE
from tests.unit.core.machine.world import World


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (cmd.SetTenant(tenant=Tenant(name="physics"), create=True), "already_exists"),
        (cmd.SetTenant(tenant=Tenant(name="no spaces"), create=True), "invalid"),
        (cmd.SetTenant(tenant=Tenant(name="ghosts")), "not_found"),
        (cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=-1)), "invalid"),
        (cmd.SetTenant(tenant=Tenant(name="physics", max_class=11)), "invalid"),
        (cmd.SetProject(project=Project(tenant="ghosts", name="p"), create=True), "not_found"),
        (cmd.SetProject(project=Project(tenant="physics", name="p")), "not_found"),
        (cmd.SetProject(project=Project(tenant="physics", name="p", max_nodes=-1), create=True), "invalid"),
        (cmd.SetVcluster(vcluster=Vcluster(name="batch"), create=True), "already_exists"),
        (cmd.SetVcluster(vcluster=Vcluster(name="gpu", scheduler="magic"), create=True), "invalid"),
        (cmd.SetVcluster(vcluster=Vcluster(name="gpu", tenants=("ghosts",)), create=True), "not_found"),
        (
            cmd.SetVcluster(vcluster=Vcluster(name="gpu", default_walltime_s=9, max_walltime_s=5), create=True),
            "invalid",
        ),
        (cmd.SetSetting(key="nonsense", value="1"), "invalid"),
        (cmd.SetSetting(key="accounting.enabled", value="maybe"), "invalid"),
        (cmd.SetSetting(key="archive.after_s", value="soon"), "invalid"),
        (cmd.SetSetting(key="archive.after_s", value="-1"), "invalid"),
    ],
)
def test_what_makes_no_sense_is_refused(command: cmd.AnyCommand, code: str) -> None:
    assert World().refused(command).code == code


def test_an_update_keeps_the_day_of_creation() -> None:
    world = World()
    created = world.state.tenants["physics"].created_at
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=7)))
    assert (world.state.tenants["physics"].max_nodes, world.state.tenants["physics"].created_at) == (7, created)


def test_a_factor_that_servers_of_the_release_before_do_not_know_waits_for_its_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SINCE, "energy", 2)
    weighed = cmd.SetVcluster(vcluster=Vcluster(name="batch", weights=(("priority", 1.0), ("energy", 0.5))))
    refused = World(level=1).refused(weighed)
    assert (refused.code, "(the factor energy)" in refused.message) == ("conflict", True)
    World(level=2).must(weighed)
    World(level=1).must(cmd.SetVcluster(vcluster=Vcluster(name="batch", weights=(("priority", 1.0),))))


def test_sharing_is_not_switched_under_running_work() -> None:
    world = World()
    number = world.running("n1")
    shared = cmd.SetVcluster(vcluster=Vcluster(name="batch", node_sharing=NodeSharing.SHARED))
    assert world.refused(shared).code == "conflict"
    world.ended(number, "n1")
    world.must(shared)
    assert world.state.vclusters["batch"].node_sharing is NodeSharing.SHARED


def test_settings_are_kept_and_setting_the_same_again_changes_nothing() -> None:
    world = World()
    world.must(cmd.SetSetting(key="archive.after_s", value="0.5"))
    assert world.state.settings == {"archive.after_s": "0.5"}
    assert world.must(cmd.SetSetting(key="archive.after_s", value="0.5")) == ()
    world.must(cmd.SetSetting(key="accounting.enabled", value="true"))


def test_the_newest_snapshot_is_remembered() -> None:
    world = World()
    world.must(cmd.RecordSnapshot(index=10, digest="d", sha256="s"))
    assert world.must(cmd.RecordSnapshot(index=9, digest="old", sha256="old")) == ()
    assert world.state.snapshot.index == 10
