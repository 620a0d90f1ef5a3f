"""The first start makes what a cluster cannot do without, and later ones touch nothing."""

from lattice.control.bootstrap import Defaults, begin_at_newest_level, make_defaults
from lattice.core.machine.commands import SetTenant
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.model.site.tenants import NodeSharing, Tenant
from lattice.testing import scenario
from tests.unit.control.world import World


@scenario
async def test_an_empty_state_gets_a_tenant_and_a_vcluster_over_all_nodes() -> None:
    world = World()
    await make_defaults(world.replica, Defaults())
    assert list(world.state.tenants) == ["default"]
    vcluster = world.state.vclusters["default"]
    assert (vcluster.nodes, vcluster.default_walltime_s) == ((), 3600)
    assert vcluster.node_sharing is NodeSharing.EXCLUSIVE


@scenario
async def test_a_second_start_proposes_nothing() -> None:
    world = World()
    await make_defaults(world.replica, Defaults())
    world.replica.proposed.clear()
    await make_defaults(world.replica, Defaults(tenant="other"))
    assert world.replica.proposed == []


@scenario
async def test_a_site_that_has_tenants_of_its_own_gets_no_default_one() -> None:
    world = World()
    await world.do(SetTenant(tenant=Tenant(name="physics"), create=True))
    await make_defaults(world.replica, Defaults())
    assert list(world.state.tenants) == ["physics"]
    assert list(world.state.vclusters) == ["default"]


@scenario
async def test_a_new_cluster_begins_at_the_newest_level_and_an_old_one_stays_where_it_is() -> None:
    world = World()
    await begin_at_newest_level(world.replica)
    assert world.state.level == NEWEST
    old = World()
    await make_defaults(old.replica, Defaults())
    await begin_at_newest_level(old.replica)
    assert old.state.level == OLDEST
