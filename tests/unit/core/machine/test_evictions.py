"""Evictions as the state machine judges and keeps them, whatever the scheduler thought."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.model.nodes.nodes import DownCause, Share
from lattice.core.model.site.tenants import Demands, NodeSharing, Preemption, Tenant, Vcluster
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, PartPhase, Request, RequeuePolicy
from lattice.core.model.work.evictions import (
    KEEP_MS,
    Limits,
    Protection,
    VictimPhase,
    cost_of,
    limits_of,
    policy_of,
    preempt_mode,
    protection,
    value_of,
)
from lattice.core.model.work.notifications import Notify, Occasion
from tests.unit.core.machine.world import World

HOUR = 3_600_000


def taken(world: World, *nodes: str, **fields: object) -> int:
    """Work of class 3 that has run for an hour on these nodes."""
    number = world.running(*nodes, **{"preemption_class": 3, "walltime_s": 4 * 3600, **fields})
    world.at += HOUR
    return number


def eviction(high: int, *victims: int, nodes: tuple[str, ...] = ("n1",), run: int = 1) -> cmd.EvictAllocations:
    return cmd.EvictAllocations(
        number=high,
        run=run,
        victims=tuple((victim, 1) for victim in victims),
        shares=tuple(Share(node=node) for node in nodes),
    )


def stop(world: World, number: int, node: str = "n1", **report: object) -> tuple[ev.AnyEvent, ...]:
    return world.ended(number, node, **{"stopped": True, "cause": Cause.SIGNAL, "signal": 15, **report})


def test_an_eviction_stops_its_victims_and_keeps_the_nodes_until_the_preemptor_starts() -> None:
    world = World()
    low = taken(world, "n1", "n2")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    record = world.state.evictions.records[high]
    assert (record.nodes, [victim.phase for victim in record.victims]) == (("n1",), [VictimPhase.STOPPING])
    stop(world, low)
    victim = world[low]
    assert (victim.state, victim.preempted, victim.requeue_count, victim.restart_count) == ("Pending", 1, 0, 1)
    assert victim.message == "preempted: work of class 9 needs its nodes"
    assert world.state.evictions.records[high].freed_at == world.at
    again = world.refused(cmd.PlaceAllocation(number=low, run=2, shares=(Share(node="n1"), Share(node="n2"))))
    assert again.message == "node n1 is kept for other work"
    world.place(high, "n1")
    assert not world.state.evictions.records
    assert not world.state.evictions.takers
    assert not world.state.evictions.keepers


def test_work_that_may_never_run_again_ends_as_preempted() -> None:
    world = World()
    low = taken(world, "n1", requeue=RequeuePolicy.NEVER)
    world.must(eviction(world.submit(preemption_class=9), low))
    stop(world, low, signal=0, exit_code=0)
    record = world[low]
    assert (record.state, record.cause, record.exit_code) == (AllocationState.FAILED, Cause.PREEMPTED, None)
    assert record.message == "preempted: work of class 9 needs its nodes"


def test_a_victim_that_completes_by_itself_has_completed() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.ended(low, "n1")
    assert (world[low].state, world[low].preempted) == (AllocationState.COMPLETED, 0)
    assert world.state.evictions.records[high].freed_at


def test_a_victim_whose_preemptor_is_gone_is_told_no_more_than_that_it_was_preempted() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.CancelAllocation(number=high))
    assert not world.state.evictions.records
    stop(world, low)
    assert (world[low].message, world[low].preempted) == ("preempted", 1)


def test_a_user_may_cancel_a_victim() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.CancelAllocation(number=low))
    stop(world, low)
    assert world[low].state is AllocationState.CANCELLED
    world.place(high, "n1")


REFUSALS = [
    ({"preemption_class": 9}, {}, "is of class 9"),
    ({"preemption_class": 8}, {}, "is of class 7 or higher and has no checkpoints"),
    ({"preemption_class": 8, "no_preempt": True}, {}, "was submitted with --no-preempt"),
    ({"walltime_s": 3700}, {}, "ends within preemption.near_completion_s"),
    ({}, {"preemption.min_runtime_s": "7200"}, "has run for less than preemption.min_runtime_s"),
    ({}, {"preemption.max_per_allocation": "0"}, "was preempted as often as preemption.max_per_allocation says"),
    ({}, {"preemption.max_victims": "0"}, "1 victims proposed, preemption.max_victims is 0"),
]


@pytest.mark.parametrize(("fields", "settings", "said"), REFUSALS)
def test_the_protected_are_never_taken(fields: dict[str, object], settings: dict[str, str], said: str) -> None:
    world = World()
    low = taken(world, "n1", **fields)
    for key, value in settings.items():
        world.must(cmd.SetSetting(key=key, value=value))
    refusal = world.refused(eviction(world.submit(preemption_class=9), low))
    assert refusal.code == "stale"
    assert refusal.message.endswith(said)


def test_sensitive_work_and_class_10_are_protected_by_themselves() -> None:
    world = World()
    record = replace(world[taken(world, "n1")], preemption_class=2)
    limits, at = Limits(), world.at
    sensitive = Vcluster(name="s", scheduler="sensitive-reservation")
    plain = Vcluster(name="p")
    assert protection(record, sensitive, limits, at) is Protection.SENSITIVE
    assert protection(replace(record, preemption_class=10), plain, limits, at) is Protection.CRITICAL
    service = Vcluster(name="w", scheduler="service-bin-pack")
    assert protection(record, service, limits, at) is Protection.VCLUSTER
    assert protection(record, service, limits, at, is_borrowing=True) is None
    assert protection(replace(record, walltime_s=0), plain, limits, at) is None
    assert policy_of(replace(service, demands=Demands(preemption=Preemption.NEVER))) is Preemption.NEVER
    assert preempt_mode(plain, limits) == "REQUEUE"
    assert preempt_mode(service, limits) == "OFF"


def test_work_that_does_not_run_is_not_taken() -> None:
    world = World()
    low = world.submit(preemption_class=1)
    world.place(low, "n1")
    high = world.submit(preemption_class=9)
    assert world.refused(eviction(high, low)).message.endswith("is not Running")


def test_a_proposal_for_another_moment_is_refused() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    assert world.refused(eviction(99, low)).message.endswith("does not exist any more")
    assert world.refused(eviction(high, 99)).message.endswith("is not at run 1")
    assert world.refused(eviction(high, low, run=2)).code == "stale"
    assert world.refused(eviction(high, low, nodes=("n1", "n2"))).code == "stale"
    assert world.refused(eviction(high, low, nodes=("n2",))).message.endswith("holds none of the nodes")
    assert world.refused(eviction(high, low, low)).message.startswith("2 victims proposed")
    assert world.refused(eviction(high)).message.startswith("0 victims proposed")
    other = taken(world, "n2")
    assert world.refused(eviction(world.submit(nodes=2, preemption_class=9), low, nodes=("n1", "n2"))).message == (
        "node n2 has no room, even without what is to leave it"
    )
    world.must(eviction(high, low))
    assert world.refused(eviction(high, other, nodes=("n2",))).message.startswith("nodes are kept for")


def test_what_is_kept_for_one_is_not_kept_for_another() -> None:
    world = World()
    low = taken(world, "n1")
    first, second = world.submit(preemption_class=8), world.submit(preemption_class=9)
    world.must(eviction(first, low))
    beside = taken(world, "n2")
    wide = replace(eviction(second, beside, nodes=("n2",)), shares=(Share(node="n1"),))
    assert world.refused(wide).code == "stale"


def test_a_node_that_cannot_be_given_is_not_kept() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9, request=Request(exclude=("n1",)))
    assert world.refused(eviction(high, low)).message == "node n1 cannot be given"
    world.must(cmd.SetVcluster(vcluster=replace(world.state.vclusters["batch"], is_up=False), create=False))
    assert world.refused(eviction(world.submit(preemption_class=9), low)).message == 'vCluster "batch" is down'


def test_what_costs_more_than_it_is_worth_is_refused() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9, walltime_s=600)
    assert "costs more than an early start" in world.refused(eviction(high, low)).message


def test_cost_and_value_are_counted_in_gpus_where_there_are_any() -> None:
    world = World(nodes=0)
    world.add_node("g1", gpus=8)
    world.add_node("c1")
    gpus, nodes = taken(world, "g1", walltime_s=36_000), taken(world, "c1", walltime_s=36_000)
    at = world.at
    assert cost_of(world[nodes], world.state.nodes, at) == pytest.approx(3600, abs=1)
    assert cost_of(world[gpus], world.state.nodes, at) == pytest.approx(8 * 7200, abs=1)
    early, late = replace(world[nodes], walltime_s=360_000), replace(world[nodes], walltime_s=3900)
    assert cost_of(early, world.state.nodes, at) == pytest.approx(1800, abs=1)
    assert cost_of(late, world.state.nodes, at) == pytest.approx(4 * 3600, abs=1)
    assert cost_of(replace(world[nodes], walltime_s=0), world.state.nodes, at) == pytest.approx(3600, abs=1)
    assert value_of(2, 100, 3) == 600
    assert value_of(2, 0, 3) == float("inf")


@pytest.mark.parametrize(
    "change",
    [
        lambda high: cmd.HoldAllocation(number=high, hold=Hold.USER),
        lambda high: cmd.UpdateAllocation(number=high, preemption_class=4),
        lambda high: cmd.CancelAllocation(number=high),
        lambda high: cmd.DrainNode(node="n1", reason="fan"),
        lambda high: cmd.DownNode(node="n1", cause=DownCause.HARDWARE),
    ],
)
def test_what_makes_it_pointless_ends_it(change: object) -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    events = world.must(change(high))  # type: ignore[operator]
    assert [event.number for event in events if isinstance(event, ev.EvictionEnded)] == [high]
    assert not world.state.evictions.records


def test_a_degraded_node_and_other_nodes_change_nothing() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.DegradeNode(node="n1", reason="silence"))
    world.must(cmd.DrainNode(node="n3", reason="fan"))
    assert high in world.state.evictions.records


def test_nodes_that_are_kept_in_vain_are_given_back() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    assert world.refused(cmd.DropEviction(number=high)).code == "stale"
    world.must(eviction(high, low))
    world.at += KEEP_MS
    assert world.refused(cmd.DropEviction(number=high)).code == "stale", "its victim is still there"
    stop(world, low)
    assert world.refused(cmd.DropEviction(number=high)).code == "stale"
    world.at += KEEP_MS
    world.must(cmd.DropEviction(number=high))
    world.place(low, "n1")


def test_victims_that_end_apart_are_gone_one_by_one() -> None:
    world = World()
    first, second = taken(world, "n1"), taken(world, "n2")
    high = world.submit(nodes=2, preemption_class=9)
    world.must(eviction(high, first, second, nodes=("n1", "n2")))
    stop(world, second, "n2")
    record = world.state.evictions.records[high]
    assert [victim.phase for victim in record.victims] == [VictimPhase.STOPPING, VictimPhase.GONE]
    assert (record.freed_at, set(world.state.evictions.takers)) == (0, {first})
    refused = world.refused(cmd.PlaceAllocation(number=second, run=2, shares=(Share(node="n2"),)))
    assert refused.message == "node n2 is kept for other work"
    stop(world, first)
    world.place(high, "n1", "n2")


def test_a_task_becomes_a_record_of_its_own_when_nodes_are_kept_for_it() -> None:
    world = World()
    low = taken(world, "n1")
    group = world.submit(preemption_class=9, tasks=((0, 3, 1),))
    world.must(eviction(group + 2, low))
    assert world[group + 2].task_index == 1
    assert group + 2 in world.state.evictions.records


def shared(world: World, number: int, gpus: int, run: int = 1) -> cmd.PlaceAllocation:
    share = Share(node="g1", whole=False, cpus=1, memory_mb=10, gpus=gpus)
    return cmd.PlaceAllocation(number=number, run=run, shares=(share,))


def test_on_a_shared_node_others_get_what_is_left_beside_what_is_kept() -> None:
    world = World(nodes=0, node_sharing=NodeSharing.SHARED)
    world.add_node("g1", cpus=64, gpus=8)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="other", node_sharing=NodeSharing.SHARED), create=True))

    def wants(gpus: int, **fields: object) -> int:
        return world.submit(request=Request(cpus=1, memory_mb=10, gpus=gpus), **fields)

    low = wants(4, preemption_class=1)
    world.must(shared(world, low, 4))
    world.started(low, "g1")
    world.at += 600_000
    high = wants(6, preemption_class=9)
    kept = Share(node="g1", whole=False, cpus=1, memory_mb=10, gpus=6)
    take = cmd.EvictAllocations(number=high, run=1, victims=((low, 1),), shares=(kept,))
    world.must(take)
    assert world.refused(shared(world, wants(3), 3)).message == "node g1 is kept for other work"
    world.must(shared(world, wants(2), 2))
    assert world.refused(shared(world, wants(1), 1)).message == "node g1 is kept for other work"
    elsewhere = wants(1, vcluster="other")
    assert world.refused(shared(world, elsewhere, 1)).message == "node g1 cannot be given"
    whole = world.submit(request=Request(exclusive=True))
    placed = cmd.PlaceAllocation(number=whole, run=1, shares=(Share(node="g1"),))
    assert world.refused(placed).code == "stale"
    stop(world, low, "g1")
    world.must(shared(world, high, 6))


def test_a_shared_node_is_kept_for_one_vcluster_and_from_whole_nodes() -> None:
    world = World(nodes=0, node_sharing=NodeSharing.SHARED)
    world.add_node("g1", cpus=64, gpus=8)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="other", node_sharing=NodeSharing.SHARED), create=True))
    small = Request(cpus=1, memory_mb=10, gpus=1)
    low = world.submit(request=small, preemption_class=1)
    world.must(shared(world, low, 1))
    world.started(low, "g1")
    world.at += 600_000
    high = world.submit(request=small, preemption_class=9, vcluster="other")
    kept = Share(node="g1", whole=False, cpus=1, memory_mb=10, gpus=1)
    world.must(cmd.EvictAllocations(number=high, run=1, victims=((low, 1),), shares=(kept,)))
    assert world.refused(shared(world, world.submit(request=small), 1)).message == "node g1 is kept for other work"
    stop(world, low, "g1")
    whole = world.submit(request=Request(exclusive=True), vcluster="other")
    placed = cmd.PlaceAllocation(number=whole, run=1, shares=(Share(node="g1"),))
    assert world.refused(placed).message == "node g1 is kept for other work"


def test_evictions_are_part_of_a_snapshot_and_of_the_digest() -> None:
    world = World()
    low = taken(world, "n1", "n2")
    before = world.state.digest()
    world.must(eviction(world.submit(preemption_class=9), low))
    assert world.state.digest() != before
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.digest() == world.state.digest()
    assert loaded.evictions.records == world.state.evictions.records
    assert loaded.evictions.keepers == world.state.evictions.keepers


def test_below_the_level_nothing_is_taken_and_no_preempt_is_refused() -> None:
    world = World(level=OLDEST)
    low = taken(world, "n1")
    assert "level 2" in world.refused(eviction(world.submit(preemption_class=9), low)).message
    outcome = world.refused(world.submission(preemption_class=9, no_preempt=True))
    assert "level 2" in outcome.message


def occasions(events: tuple[ev.AnyEvent, ...]) -> list[Occasion]:
    return [event.notification.occasion for event in events if isinstance(event, ev.NotificationQueued)]


@pytest.mark.parametrize(
    ("wanted", "policy", "told"),
    [
        ((Occasion.PREEMPT,), RequeuePolicy.ON_NODE_FAILURE, [Occasion.PREEMPT]),
        ((Occasion.PREEMPT, Occasion.REQUEUE), RequeuePolicy.ON_NODE_FAILURE, [Occasion.PREEMPT]),
        ((Occasion.REQUEUE,), RequeuePolicy.ON_NODE_FAILURE, [Occasion.REQUEUE]),
        ((Occasion.PREEMPT,), RequeuePolicy.NEVER, [Occasion.PREEMPT]),
        ((Occasion.PREEMPT, Occasion.FAIL), RequeuePolicy.NEVER, [Occasion.FAIL]),
        ((Occasion.BEGIN,), RequeuePolicy.NEVER, []),
    ],
)
def test_whoever_wants_to_hear_of_it_does(
    wanted: tuple[Occasion, ...], policy: RequeuePolicy, told: list[Occasion]
) -> None:
    world = World()
    low = taken(world, "n1", requeue=policy, notify=Notify(on=wanted, to=("mail:a@example.org",)))
    world.must(eviction(world.submit(preemption_class=9), low))
    assert occasions(stop(world, low)) == told


def test_settings_are_read_as_they_are_set() -> None:
    world = World()
    assert limits_of(world.state.settings) == Limits()
    for name, value in (("patience_s", "1.5"), ("max_victims", "5")):
        world.must(cmd.SetSetting(key=f"preemption.{name}", value=value))
    assert limits_of(world.state.settings) == Limits(patience_s=1.5, max_victims=5)


def test_quotas_hold_for_what_is_kept() -> None:
    world = World()
    low = taken(world, "n1")
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=1), create=False))
    high = world.state.next_number
    world.must(world.submission(preemption_class=9, queue_on_quota=True))
    assert world.refused(eviction(high, low)).code == "quota"


def test_a_part_that_reports_running_twice_changes_nothing_of_an_eviction() -> None:
    world = World()
    low = taken(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.ReportPart(number=low, run=1, node="n1", seq=9, phase=PartPhase.RUNNING))
    assert world.state.evictions.records[high].victims[0].phase is VictimPhase.STOPPING


def test_one_node_may_be_kept_for_several_shares() -> None:
    world = World(nodes=0, node_sharing=NodeSharing.SHARED)
    world.add_node("g1", cpus=64, gpus=8)
    small = Request(cpus=1, memory_mb=10, gpus=4)
    kept = Share(node="g1", whole=False, cpus=1, memory_mb=10, gpus=4)
    numbers = []
    for _ in range(2):
        low = world.submit(request=small, preemption_class=1)
        world.must(shared(world, low, 4))
        world.started(low, "g1")
        numbers.append(low)
    world.at += 600_000
    for low in numbers:
        high = world.submit(request=small, preemption_class=9)
        world.must(cmd.EvictAllocations(number=high, run=1, victims=((low, 1),), shares=(kept,)))
    first, second = world.state.evictions.records
    assert world.state.evictions.keepers == {"g1": (first, second)}
    world.must(cmd.CancelAllocation(number=first))
    assert world.state.evictions.keepers == {"g1": (second,)}
