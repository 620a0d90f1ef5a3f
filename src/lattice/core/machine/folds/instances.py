"""Folds what happens to single instances of a running allocation.

What holds: shares and parts name the same nodes, each once; an instance has a number that no other of its run ever had; and what an
instance used and how often it was restarted is added to the allocation in the fold in which its part goes, so nothing is counted
twice or lost. A node is given back here, not when its instance was ordered to leave. See docs/architecture/services.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.folds.holdings import enter_shares, give_back_share, take
from lattice.core.machine.state import State
from lattice.core.model.services.rollouts import started, without
from lattice.core.model.work.usage import total_usage

KEPT_LEFT = 8  # nodes that instances left last
InstanceEvent = ev.PartChanged | ev.NodeJoined | ev.NodeLeft | ev.InstancesWanted | ev.InstanceRenewed


def evolve_instance(state: State, event: InstanceEvent, at: int) -> None:
    match event:
        case ev.PartChanged():
            _part_changed(state, event)
        case ev.NodeJoined():
            _joined(state, event)
        case ev.NodeLeft():
            _left(state, event, at)
        case ev.InstanceRenewed():
            _renewed(state, event, at)
        case ev.InstancesWanted():
            old = state.allocations[event.number]
            scaled_at = old.scaled_at if old.scaling is None else at
            state.put_allocation(replace(old, wanted=event.wanted, scaled_at=scaled_at))
        case _:
            assert_never(event)


def _part_changed(state: State, event: ev.PartChanged) -> None:
    """A part is replaced whole. It cannot change the allocation's state: what follows from it comes as events of its own."""
    old = state.allocations[event.number]
    parts = tuple(event.part if part.node == event.part.node else part for part in old.parts)
    state.put_allocation(replace(old, parts=parts))


def _joined(state: State, event: ev.NodeJoined) -> None:
    """The size stays what it was: to grow beyond it is an event of its own, `InstancesWanted`, which comes before this one."""
    old = state.allocations[event.number]
    changed = replace(
        old,
        wanted=old.size,
        shares=(*old.shares, event.share),
        parts=(*old.parts, event.part),
        last_instance=max(old.last_instance, event.part.instance),
        rollout=old.rollout if old.rollout is None else started(old.rollout, (event.part.node,)),
    )
    state.put_allocation(changed)
    take(state, changed, event.share)


def _left(state: State, event: ev.NodeLeft, at: int) -> None:
    """What the instance used stays with the allocation; its node is free from now on."""
    old = state.allocations[event.number]
    gone = event.part
    share = next(share for share in old.shares if share.node == gone.node)
    if old.started_at:
        enter_shares(state, old, [share], at, max(0, at - max(old.started_at, gone.joined_at)))
    changed = replace(
        old,
        shares=tuple(each for each in old.shares if each.node != gone.node),
        parts=tuple(each for each in old.parts if each.node != gone.node),
        cpu_s=old.cpu_s + gone.cpu_s,
        peak_memory_mb=max(old.peak_memory_mb, gone.peak_memory_mb),
        usage=total_usage((old.usage, gone.usage)),
    )
    if (
        not old.has_instances
    ):  # its other nodes are given back while results are copied: a share remembered for the accounts
        state.put_allocation(replace(changed, released=(*old.released, share)))
        give_back_share(state, old, share)
        return
    state.put_allocation(
        replace(
            changed,
            wanted=old.size,
            rollout=old.rollout if old.rollout is None else without(old.rollout, gone.node),
            left_restarts=old.left_restarts + gone.restarts,
            left=(gone.node, *(node for node in old.left if node != gone.node))[:KEPT_LEFT],
            message=event.message,
            requeue_count=(0 if event.is_anew else old.requeue_count) + event.counted,
            restart_count=old.restart_count + event.counted,
        )
    )
    give_back_share(state, old, share)


def _renewed(state: State, event: ev.InstanceRenewed, at: int) -> None:
    """What the instance used stays with the allocation, as when its node leaves."""
    old = state.allocations[event.number]
    gone, part = event.gone, event.part
    rollout = old.rollout
    state.put_allocation(
        replace(
            old,
            parts=tuple(part if each.node == part.node else each for each in old.parts),
            last_instance=max(old.last_instance, part.instance),
            left_restarts=old.left_restarts + gone.restarts,
            cpu_s=old.cpu_s + gone.cpu_s,
            peak_memory_mb=max(old.peak_memory_mb, gone.peak_memory_mb),
            usage=total_usage((old.usage, gone.usage)),
            rollout=None if rollout is None else replace(started(rollout, (part.node,)), stepped_at=at),
        )
    )
