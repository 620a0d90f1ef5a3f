"""Fair share along the tree, decay, burst allowance."""

import pytest
from msgspec.structs import replace

from lattice.core.cycle import Cycle
from lattice.core.machine.commands import SetProject, SetSetting, SetTenant
from lattice.core.model.site.tenants import OnQuota, Project, Tenant
from lattice.core.scheduler.score.fairshare import beyond_burst, deficits, use_ms
from lattice.core.scheduler.score.score import score
from lattice.core.scheduler.tables.snapshot import Account
from tests.unit.core.scheduler.world import HOUR, World

DAY = 24 * HOUR
WEEK = 7 * DAY


def machine(*tenants: Tenant) -> World:
    world = World()
    world.add_nodes([f"n{index}" for index in range(10)])
    for tenant in tenants:
        world.do(SetTenant(tenant=tenant, create=True))
    return world


def tenant(name: str, target: float | None = None, burst: float | None = None) -> Tenant:
    return Tenant(name=name, on_quota=OnQuota.QUEUE, fair_share_target=target, burst_allowance=burst)


def ran(world: World, hours: float, node: str = "n0", **fields: object) -> None:
    """One allocation on one node, from start to end."""
    number = world.submit(walltime_s=100 * 24 * 3600, **fields)  # type: ignore[arg-type]
    world.place(number, node)
    world.report_running(number)
    world.now += int(hours * HOUR)
    world.finish(number)


def deficit_of(world: World, tenant: str, user: str = "ann", project: str = "") -> float:
    snapshot = world.snapshot()
    account = snapshot.ledger.accounts.index(Account(tenant, project, user))
    return float(deficits(snapshot, world.now)[account])


def test_a_tenant_that_used_nothing_lacks_all_of_its_target() -> None:
    world = machine(tenant("physics", 0.5), tenant("biology", 0.5))
    ran(world, 10, tenant="physics")
    world.submit(tenant="biology")
    assert deficit_of(world, "biology") == 1.0
    assert deficit_of(world, "physics") == 0.0


def test_the_deficit_is_what_is_missing_as_a_part_of_the_target() -> None:
    world = machine(tenant("physics", 0.4), tenant("biology", 0.6))
    ran(world, 1, tenant="physics")
    ran(world, 9, tenant="biology")
    assert deficit_of(world, "physics") == pytest.approx((0.4 - 0.1) / 0.4, abs=0.01)
    assert deficit_of(world, "biology") == 0.0


def test_tenants_without_a_target_share_what_is_left() -> None:
    world = machine(tenant("physics", 0.5), tenant("biology"), tenant("chemistry"))
    ran(world, 8, tenant="physics")
    ran(world, 1, tenant="biology")
    ran(world, 1, tenant="chemistry")
    assert deficit_of(world, "biology") == pytest.approx((0.25 - 0.1) / 0.25, abs=0.01)


def test_users_of_one_tenant_are_told_apart() -> None:
    world = machine(tenant("physics"))
    ran(world, 9, tenant="physics", user="ann")
    ran(world, 1, tenant="physics", user="ben")
    assert deficit_of(world, "physics", "ann") == 0.0
    assert deficit_of(world, "physics", "ben") == pytest.approx((0.5 - 0.1) / 0.5, abs=0.01)


def test_the_tree_counts_tenants_before_projects_before_users() -> None:
    world = machine(tenant("physics", 0.5), tenant("biology", 0.5))
    for name in ("sun", "moon"):
        world.do(SetProject(project=Project(tenant="physics", name=name), create=True))
    ran(world, 5, tenant="physics", project="sun", user="ann")
    world.submit(tenant="physics", project="moon", user="ann")
    world.submit(tenant="physics", project="sun", user="ben")
    world.submit(tenant="biology")
    used, same_project, other_project = (
        deficit_of(world, "physics", "ann", "sun"),
        deficit_of(world, "physics", "ben", "sun"),
        deficit_of(world, "physics", "ann", "moon"),
    )
    assert used == 0.0
    assert same_project == pytest.approx(1 / 7)
    assert other_project == pytest.approx(2 / 6)
    assert deficit_of(world, "biology") == 1.0


def test_use_fades_by_half_with_every_half_life() -> None:
    world = machine(tenant("physics"))
    ran(world, 24, tenant="physics")
    fresh = use_ms(world.snapshot().ledger, world.now)[0]
    assert use_ms(world.snapshot().ledger, world.now + WEEK)[0] == pytest.approx(fresh / 2)
    assert use_ms(world.snapshot().ledger, world.now + 10_000 * WEEK)[0] == pytest.approx(0.0)


def test_another_half_life_weighs_the_past_anew() -> None:
    world = machine(tenant("physics"))
    ran(world, 24, tenant="physics")
    world.do(SetSetting(key="scheduler.fairshare_half_life_s", value=str(24 * 3600)))
    fresh = use_ms(world.snapshot().ledger, world.now)[0]
    assert use_ms(world.snapshot().ledger, world.now + DAY)[0] == pytest.approx(fresh / 2)


def test_running_work_counts_from_its_start_in_every_vcluster() -> None:
    world = machine(tenant("physics", 0.5), tenant("biology", 0.5))
    world.set_vcluster("other")
    number = world.submit(tenant="physics", vcluster="other")
    world.place(number, "n1")
    world.report_running(number)
    world.now += HOUR
    world.submit(tenant="physics")
    world.submit(tenant="biology")
    assert use_ms(world.snapshot().ledger, world.now)[0] == HOUR
    assert deficit_of(world, "physics") == 0.0
    assert deficit_of(world, "biology") == 1.0


def test_a_loaded_cycle_knows_the_same_use() -> None:
    world = machine(tenant("physics"), tenant("biology"))
    for hours in (5, 30, 50):
        ran(world, hours, tenant="physics")
        ran(world, hours / 2, tenant="biology")
    number = world.submit(tenant="physics")
    world.place(number, "n1")
    world.report_running(number)
    world.now += HOUR
    loaded = Cycle()
    loaded.load(world.state)
    then, now = loaded.snapshot().ledger, world.snapshot().ledger
    by_account = dict(zip(then.accounts, use_ms(then, world.now).tolist(), strict=True))
    for account, use in zip(now.accounts, use_ms(now, world.now).tolist(), strict=True):
        assert by_account[account] == pytest.approx(use)


def test_beyond_its_burst_allowance_a_tenant_stands_back_while_others_wait() -> None:
    world = machine(tenant("physics", 0.2, burst=1.5), tenant("biology", 0.2))
    for node in ("n0", "n1", "n2"):
        world.place(world.submit(tenant="physics"), node)
    mine = world.submit(tenant="physics")
    within = score(world.snapshot(), {}, world.now).total
    assert not beyond_burst(world.snapshot()).any()
    world.place(world.submit(tenant="physics"), "n3")
    snapshot = world.snapshot()
    assert beyond_burst(snapshot).any()
    assert score(snapshot, {}, world.now).total.tolist() == pytest.approx(within.tolist(), abs=0.1)
    world.submit(tenant="biology")
    snapshot = world.snapshot()
    order = snapshot.queue.number[score(snapshot, {}, world.now).order()].tolist()
    assert order.index(mine) == 1
    assert score(snapshot, {}, world.now).total.min() < 0.1


def test_where_no_ledger_is_kept_the_end_of_a_run_enters_what_it_used() -> None:
    world = machine(tenant("physics"))
    number = world.submit(tenant="physics")
    world.place(number, "n0")
    never_ran = world.state.allocations[number]
    world.report_running(number)
    world.now += 2 * HOUR
    ran_for_two_hours = replace(world.state.allocations[number], ended_at=world.now)
    world.cycle.end_allocation(never_ran)
    assert not use_ms(world.snapshot().ledger, world.now).any()
    world.cycle.end_allocation(ran_for_two_hours)
    assert use_ms(world.snapshot().ledger, world.now).sum() == pytest.approx(2 * HOUR, rel=0.01)
