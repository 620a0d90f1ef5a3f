"""What names tenants is on a page of its own."""

from lattice.core.machine.commands import SetTenant
from lattice.core.model.site.tenants import Tenant
from lattice.observe.metrics import Metrics
from tests.unit.core.scheduler.world import World


def test_quota_and_use_are_shown_per_tenant_and_nowhere_else() -> None:
    world = World()
    world.do(SetTenant(tenant=Tenant(name="physics", max_nodes=12), create=True))
    world.add_node("n1")
    world.submit()
    world.submit()
    world.run_cycle()
    metrics = Metrics("s1")
    metrics.show_state(lambda: world.state)
    page = metrics.render_tenants().decode()
    assert 'lattice_quota_max_nodes{tenant="physics"} 12.0' in page
    assert 'lattice_quota_max_nodes{tenant="default"}' not in page, "no limit is not 0"
    assert 'lattice_quota_used_nodes{tenant="default"} 1.0' in page
    assert 'lattice_tenant_allocations_active{tenant="default"} 1.0' in page
    assert 'lattice_tenant_allocations_pending{tenant="default"} 1.0' in page
    assert "physics" not in metrics.render().decode()


def test_hours_are_summed_again_only_where_a_run_ended() -> None:
    world = World()
    world.add_node("n1")
    number = world.submit()
    world.run_cycle()
    world.report_running(number)
    world.now += 3_600_000
    world.finish(number)
    metrics = Metrics("s1")
    metrics.show_state(lambda: world.state)
    for _ in range(2):
        page = metrics.render_tenants().decode()
        assert 'lattice_tenant_node_hours{tenant="default"} 1.0' in page
