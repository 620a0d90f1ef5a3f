"""Budgets over a rolling window."""

import pytest

from lattice.core.machine.commands import SetSetting, SetTenant
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.budgets import Remaining
from lattice.core.model.site.tenants import OnQuota, Tenant
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.ledger import run_amounts
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


def test_an_explanation_says_what_the_soft_quota_takes_with_figures() -> None:
    world = world_with(node_hours_budget=100.0, gpu_hours_budget=40.0)
    ran(world, 9, tenant="physics")
    world.submit(Request(nodes=2), tenant="physics", walltime_s=60)
    number = world.submit(Request(nodes=2), tenant="physics", walltime_s=60)
    other = world.submit(Request(nodes=2), walltime_s=60)
    explained = world.plan().explain(number)
    assert explained is not None
    factor, text = explained.penalty
    assert factor == pytest.approx(0.55)
    assert text == (
        "soft quota penalty: tenant physics has used 36.0 of 40 GPU-hours (90%) of its budget of the last 90 days, "
        "so its score is multiplied by 0.55"
    )
    explained = world.plan().explain(other)
    assert explained is None or explained.penalty == (1.0, "")


def test_a_budget_of_nothing_and_a_burst_allowance_are_explained() -> None:
    world = world_with()
    tenant = Tenant(
        name="physics",
        on_quota=OnQuota.QUEUE,
        node_hours_budget=0.0,
        fair_share_target=0.01,
        burst_allowance=1.0,
    )
    world.do(SetTenant(tenant=tenant))
    number = world.submit(Request(), tenant="physics")
    world.place(number, "n1")
    world.report_running(number)
    world.submit(Request(nodes=2))
    waiting = world.submit(Request(nodes=2), tenant="physics")
    explained = world.plan().explain(waiting)
    assert explained is not None
    factor, text = explained.penalty
    assert factor == pytest.approx(0.001)
    assert "has used 0.0 of 0 node-hours of its budget of the last 90 days" in text
    assert "and holds more than its fair share times its burst allowance while others wait" in text
    world.set_vcluster("default", scheduler="interactive-fifo")
    explained = world.plan().explain(waiting)
    assert explained is not None
    assert explained.penalty == (1.0, ""), "scores do not count there"


def test_the_accounting_system_beats_the_ledger() -> None:
    world = world_with(gpu_hours_budget=40.0)
    ran(world, 9, tenant="physics")
    world.submit(Request(nodes=2), tenant="physics", walltime_s=60)
    number = world.submit(Request(nodes=2), tenant="physics", walltime_s=60)
    world.cycle.signals = Signals(budgets={"physics": Remaining(gpu_hours_budget=1000.0, gpu_hours_remaining=900.0)})
    explained = world.plan().explain(number)
    assert explained is not None
    assert explained.penalty == (1.0, "")
    world.cycle.signals = Signals(budgets={"physics": Remaining(node_hours_budget=10.0, node_hours_remaining=-1.0)})
    explained = world.plan().explain(number)
    assert explained is not None
    assert explained.penalty[0] == 0.01
    assert "has used 11.0 of 10 node-hours (110%) of its budget by the accounting system, so" in explained.penalty[1]
    assert score(world.snapshot(), {}, world.now).total.max() < 0.01


def test_a_node_that_is_not_known_counts_one_gpu() -> None:
    shares = (Share(node="gone"), Share(node="gone", whole=False, cpus=2, gpus=3))
    assert run_amounts(shares, {}, 1000) == (2000, 4000)
