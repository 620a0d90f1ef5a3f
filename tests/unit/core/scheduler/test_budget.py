"""Budgets over a rolling window."""

import pytest

from lattice.core.machine.commands import SetSetting, SetTenant
from lattice.core.model.site.tenants import OnQuota, Tenant
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.budget import penalty, used_hours, used_part
from lattice.core.scheduler.score.score import score
from tests.unit.core.scheduler.test_fairshare import DAY, ran
from tests.unit.core.scheduler.world import HOUR, World


def world_with(*, node_hours_budget: float | None = None, gpu_hours_budget: float | None = None) -> World:
    world = World()
    world.add_node("n0", gpus=4)
    world.add_node("n1", gpus=4)
    tenant = Tenant(
        name="physics",
        on_quota=OnQuota.QUEUE,
        node_hours_budget=node_hours_budget,
        gpu_hours_budget=gpu_hours_budget,
    )
    world.do(SetTenant(tenant=tenant, create=True))
    return world


@pytest.mark.parametrize(
    ("used", "factor"),
    [(0.0, 1.0), (0.8, 1.0), (0.9, 0.55), (1.0, 0.1), (1.001, 0.01), (50.0, 0.01), (float("inf"), 0.01)],
)
def test_the_penalty_grows_from_four_fifths_on(used: float, factor: float) -> None:
    assert penalty(used) == pytest.approx(factor)


def test_hours_are_those_of_what_ended_and_of_what_runs() -> None:
    world = world_with(node_hours_budget=100.0)
    ran(world, 10, tenant="physics")
    number = world.submit(Request(gpus=4), tenant="physics")
    world.place(number, "n1")
    world.report_running(number)
    world.now += 5 * HOUR
    assert used_hours(world.snapshot(), "physics", world.now) == pytest.approx((15.0, 60.0))


def test_the_worse_of_both_budgets_counts() -> None:
    world = world_with(node_hours_budget=100.0, gpu_hours_budget=50.0)
    ran(world, 10, tenant="physics")
    assert used_part(world.snapshot(), "physics", world.now) == pytest.approx(40 / 50)


def test_without_a_budget_nothing_is_used_up() -> None:
    world = world_with()
    ran(world, 1000, tenant="physics")
    world.submit(tenant="physics")
    snapshot = world.snapshot()
    assert used_part(snapshot, "physics", world.now) == 0.0
    assert used_part(snapshot, "nobody", world.now) == 0.0


def test_a_budget_of_nothing_is_used_up_at_once() -> None:
    world = world_with(node_hours_budget=0.0)
    world.submit(tenant="physics")
    assert score(world.snapshot(), {}, world.now).total[0] <= 0.01


def test_what_lies_before_the_window_does_not_count() -> None:
    world = world_with(node_hours_budget=100.0)
    ran(world, 10, tenant="physics")
    later = world.now + 89 * DAY
    assert used_part(world.snapshot(), "physics", later) == pytest.approx(0.1)
    assert used_part(world.snapshot(), "physics", later + DAY) == 0.0
    world.do(SetSetting(key="scheduler.budget_period_days", value="30"))
    assert used_part(world.snapshot(), "physics", world.now + 29 * DAY) == pytest.approx(0.1)
    assert used_part(world.snapshot(), "physics", world.now + 30 * DAY) == 0.0


def test_an_exhausted_budget_puts_the_tenant_behind_everybody_but_refuses_nothing() -> None:
    world = world_with(node_hours_budget=10.0)
    ran(world, 20, tenant="physics")
    late = world.submit(tenant="physics", preemption_class=10)
    first = world.submit(preemption_class=0)
    snapshot = world.snapshot()
    assert snapshot.queue.number[score(snapshot, {}, world.now).order()].tolist() == [first, late]
    assert sorted(placement.number for placement in world.plan().placements) == sorted([first, late])


def test_a_reduced_budget_counts_at_once() -> None:
    world = world_with(node_hours_budget=1000.0)
    ran(world, 20, tenant="physics")
    world.submit(tenant="physics")
    before = score(world.snapshot(), {}, world.now).total[0]
    world.do(SetTenant(tenant=Tenant(name="physics", on_quota=OnQuota.QUEUE, node_hours_budget=10.0)))
    assert score(world.snapshot(), {}, world.now).total[0] == pytest.approx(before / 100)


def test_a_tenant_that_never_ran_anything_has_used_nothing_of_its_budget() -> None:
    world = world_with(node_hours_budget=10.0)
    assert used_part(world.snapshot(), "physics", world.now) == 0.0
