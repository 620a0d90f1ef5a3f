"""Six made-up workloads through the state machine, the cycle and the plan of production, each with what must not get worse."""

import time

import pytest

from lattice.core.machine.checks.invariants import check
from lattice.replay.cluster import Cluster, Scenario, Stay, node_seconds, percentile
from lattice.replay.synthetic import (
    HOUR,
    SCENARIOS,
    STEADY_LAST_S,
    UNFAIR_LAST_S,
    burst,
    empty_to_full,
    preempting,
    preemption_heavy,
    sensitive_claim,
    steady_state,
    unfair,
)

FULL = 0.95
SLOWEST_CYCLE_S = 5.0


def replayed(scenario: Scenario) -> list[Stay]:
    """All stays; what was submitted has run, as long as it would, and holds nothing any more."""
    cluster = Cluster(scenario)
    stays = cluster.run()
    assert len(stays) == len(scenario.arrivals)
    assert sorted(stay.end_s - stay.start_s for stay in stays) == sorted(a.run_s for a in scenario.arrivals)
    assert all(node.is_free for node in cluster.state.nodes.values())
    assert check(cluster.state) == []
    return stays


def share(stays: list[Stay], tenant: str, first_s: int, last_s: int) -> float:
    own = [stay for stay in stays if stay.tenant == tenant]
    return node_seconds(own, first_s, last_s) / node_seconds(stays, first_s, last_s)


def test_a_mixed_load_keeps_the_machine_busy() -> None:
    scenario = steady_state()
    stays = replayed(scenario)
    first_s = 4 * HOUR  # an idle machine has to fill first
    used = node_seconds(stays, first_s, STEADY_LAST_S) / (len(scenario.nodes) * (STEADY_LAST_S - first_s))
    assert used > 0.85
    assert {stay.vcluster for stay in stays} == {"hpc", "ml", "services"}


def test_nobody_starves_in_a_burst() -> None:
    stays = replayed(burst())
    assert percentile((stay.wait_s for stay in stays), 99) < 4 * HOUR


def test_a_tenant_that_floods_the_queue_gets_its_share_and_so_do_the_others() -> None:
    scenario = unfair()
    stays = replayed(scenario)
    for tenant in scenario.tenants:
        assert tenant.fair_share_target is not None
        assert abs(share(stays, tenant.name, 0, UNFAIR_LAST_S) - tenant.fair_share_target) < 0.10, tenant.name


def test_sensitive_claims_are_immediate() -> None:
    claims = [stay for stay in replayed(sensitive_claim()) if stay.vcluster == "sensitive"]
    assert len(claims) > 20
    assert {stay.wait_s for stay in claims} == {0}


def test_urgent_work_overtakes_what_waits_and_the_rest_runs_all_the_same() -> None:
    """Without preemption."""
    stays = replayed(preemption_heavy())
    waits = {cls: [stay.wait_s for stay in stays if stay.preemption_class == cls] for cls in (1, 8)}
    assert percentile(waits[8], 50) < percentile(waits[1], 50)


def test_urgent_work_hardly_waits_when_it_may_preempt_work_that_writes_checkpoints() -> None:
    before = percentile([stay.wait_s for stay in replayed(preemption_heavy()) if stay.preemption_class == 8], 95)
    cluster = Cluster(preempting(preemption_heavy()))
    after = percentile([stay.wait_s for stay in cluster.run() if stay.preemption_class == 8], 95)
    assert after < 0.3 * before
    assert cluster.moves.lost_s < 0.05 * cluster.moves.used_s
    assert cluster.moves.preemptions > 20
    assert cluster.moves.checkpoints > 0


def test_an_idle_machine_is_full_as_soon_as_there_is_work_for_it() -> None:
    scenario = empty_to_full()
    cluster = Cluster(scenario, time.perf_counter)
    stays = cluster.run()
    wanted = FULL * len(scenario.nodes)
    asked_s = next(
        at_s
        for at_s in range(0, HOUR, 60)
        if sum(a.submission.request.nodes for a in scenario.arrivals if a.at_s <= at_s) >= wanted
    )
    full_s = next(
        at_s
        for at_s in range(0, HOUR, 60)
        if sum(stay.nodes for stay in stays if stay.start_s <= at_s < stay.end_s) >= wanted
    )
    assert full_s - asked_s <= 60
    assert max(cluster.cycle_s) < SLOWEST_CYCLE_S


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_makes_the_same_scenario(name: str) -> None:
    assert SCENARIOS[name]() == SCENARIOS[name]()
    assert SCENARIOS[name]().name == name


def test_the_same_scenario_has_the_same_outcome() -> None:
    assert Cluster(sensitive_claim()).run() == Cluster(sensitive_claim()).run()


def test_percentiles_are_values_that_occurred() -> None:
    assert [percentile(range(1, 101), percent) for percent in (0, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([], 99) == 0
