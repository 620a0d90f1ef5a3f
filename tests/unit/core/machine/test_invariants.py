"""The invariant check finds what is wrong: each planted fault is named, a sound state has none."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.parts.folded_tasks import FoldedTasks, base_of
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import DownCause, NodeState, Share, Tenure
from lattice.core.model.services.rollouts import Rollout, RolloutPhase
from lattice.core.model.site.tenants import NodeSharing, TenantUse, Vcluster
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase, Request, StopIntent
from tests.unit.core.machine.world import World


def sound_state() -> State:
    """1 runs whole on n1; 2 shares n2; 3 waits; 4 is a group of three with task 5 on n3; 8 has ended; n4 drains idle."""
    world = World(nodes=4)
    shared = Vcluster(name="shared", node_sharing=NodeSharing.SHARED)
    world.must(cmd.SetVcluster(vcluster=shared, create=True))
    world.running("n1")
    two = world.submit(vcluster="shared", request=Request(cpus=2, memory_mb=1024))
    share = Share(node="n2", whole=False, cpus=2, memory_mb=1024)
    world.must(cmd.PlaceAllocation(number=two, run=1, shares=(share,)))
    world.submit()
    group = world.submit(tasks=((0, 2, 1),), concurrency=1)
    world.place(group + 1, "n3")
    world.must(cmd.CancelAllocation(number=world.submit()))
    world.must(cmd.DrainNode(node="n4"))
    return world.state


def node(name: str, /, **changes: object) -> Callable[[State], None]:
    return lambda state: state.put_node(replace(state.nodes[name], **changes))


def record(number: int, /, **changes: object) -> Callable[[State], None]:
    return lambda state: state.put_allocation(replace(state.allocations[number], **changes))


def group(**changes: object) -> Callable[[State], None]:
    return lambda state: state.put_group(replace(state.groups[4], **changes))


def ended_parts(state: State) -> None:
    parts = tuple(replace(part, phase=PartPhase.ENDED) for part in state.allocations[1].parts)
    state.put_allocation(replace(state.allocations[1], parts=parts))


def parts(**changes: object) -> Callable[[State], None]:
    def change(state: State) -> None:
        changed = tuple(replace(part, **changes) for part in state.allocations[1].parts)
        state.put_allocation(replace(state.allocations[1], parts=changed))

    return change


def rollout(**changes: object) -> Callable[[State], None]:
    return record(1, rollout=Rollout(target=2, former=1, began_at=1, **changes))  # type: ignore[arg-type]


TENURE = Tenure(number=2, tenant="physics", cpus=9, memory_mb=1, gpus=0)

FAULTS = [
    (parts(phase=PartPhase.LEAVING), "has no instances, and nodes leave it"),
    (record(1, wanted=1), "wants 1 instances"),
    (parts(seq=3 << 20), "has instances [3] and counted 0"),
    (rollout(), "its update leads to 2"),
    (rollout(renewing=("n1",)), "renews instances that do not end"),
    (rollout(updated=("n9",)), "updated instances on nodes that it does not have"),
    (rollout(updated=("n1",), phase=RolloutPhase.DONE), "is not being updated"),
    (record(3, paused_at=5), "Pending and paused"),
    (node("n1", claimant="eve"), "held in 2 ways"),
    (node("n2", tenures=(TENURE,)), "exceed its capacity"),
    (node("n1", vcluster=""), "names vCluster"),
    (node("n1", vcluster="shared"), "across vClusters"),
    (node("n1", state=NodeState.DOWN), "with down cause None"),
    (node("n1", state=NodeState.DRAINED, drain_wanted=True), "Drained and held"),
    (node("n4", state=NodeState.DRAINING), "Draining and free"),
    (node("n4", drain_wanted=False), "without a reason"),
    (node("n1", drain_wanted=True), "Ready though"),
    (node("n1", down_cause=DownCause.OPERATOR), "disabled and Ready"),
    (node("n1", holder=0, vcluster=""), "one side only"),
    (node("n4", holder=1, vcluster="batch"), "one side only"),
    (record(3, number=70), "wrong number"),
    (record(3, cause=Cause.EXIT), "Pending with cause exit"),
    (record(8, ended_at=0), "ended without an end"),
    (record(3, requeue_count=1), "requeued too often"),
    (lambda state: state.drop_payload(3), "lost what it runs"),
    (record(3, started_at=5), "traces of a run"),
    (ended_parts, "all its parts have ended"),
    (record(2, state=AllocationState.RUNNING), "Running before"),
    (record(1, intent=StopIntent.CANCEL), "with intent cancel"),
    (record(1, parts=()), "parts on other nodes"),
    (record(1, request=Request(nodes=2)), "holds 1 nodes"),
    (group(live=2), "counts 2 live"),
    (group(completed=1), "lost tasks"),
    (group(pending=((0, 3),)), "both pending and released"),
    (lambda state: state.count_tenant("physics", nodes=1), "counts TenantUse"),
    (lambda state: state.uses.update(ghosts=TenantUse(nodes=1)), "tenant ghosts"),
    (lambda state: state.state_counts.clear(), "states are counted"),
    (lambda state: state.user_uses.clear(), "users are counted"),
    (lambda state: state.hardware_counts.clear(), "hardware is counted"),
]


def test_a_sound_state_has_no_findings() -> None:
    assert check(sound_state()) == []


@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_each_planted_fault_is_named(fault: Callable[[State], None], words: str) -> None:
    state = sound_state()
    fault(state)
    assert any(words in finding for finding in check(state)), check(state)


def test_a_group_with_more_rows_than_tasks_is_named() -> None:
    state = sound_state()
    group = state.groups[4]
    rows = state.folded[4] = FoldedTasks(4, group.size, base_of(group))
    for position in range(group.size):
        rows.fold(group, replace(state.allocations[5], number=5 + position, cause=Cause.EXIT))
    assert any("rows beside" in finding for finding in check(state)), check(state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"held": ((90, 91),)}, "are held and do not wait"),
        ({"held_by_operator": ((90, 91),)}, "are held_by_operator and do not wait"),
        ({"blocked": ((90, 91),)}, "are blocked and do not wait"),
        ({"pending": ((1, 9),), "held": ((2, 3),), "held_by_operator": ((2, 4),)}, "are held twice"),
    ],
)
def test_tasks_that_are_held_wrongly_are_named(changes: dict[str, object], words: str) -> None:
    state = sound_state()
    state.put_group(replace(state.groups[4], **changes))
    assert any(words in finding for finding in check(state)), check(state)
