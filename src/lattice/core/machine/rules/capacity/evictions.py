"""Judges evictions: whom the scheduler may take, for whom, and when that ends.

Nothing is taken on trust from the plan: class, protections, cost and nodes are checked again on the state of this moment. A refusal
is normal operation (code `stale`). An eviction stands until the allocation that it is for starts, ends or cannot use the nodes any
more; `settle` sees to that in the command in which it happens. See docs/architecture/preemption.md.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import sensitive
from lattice.core.machine.rules.kept_nodes import fits_beside, without
from lattice.core.machine.rules.work import placement, quotas, reservations
from lattice.core.machine.rules.work.tasks import materialise
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState, Share
from lattice.core.model.work.allocations import Allocation, StopIntent
from lattice.core.model.work.evictions import (
    KEEP_MS,
    Eviction,
    Victim,
    VictimPhase,
    cost_of,
    limits_of,
    protection,
    units_of,
    value_of,
)

Events = tuple[ev.AnyEvent, ...]
# A node in another state takes no work soon; one that is Degraded may be Ready again in a moment.
_HOPEFUL = (NodeState.READY, NodeState.DEGRADED)


def evict(state: State, command: cmd.EvictAllocations, at: int) -> Events | Rejected:
    found = materialise(state, command.number)
    if found is None:
        return _stale(f"{allocation_id(command.number)} does not exist any more")
    preemptor, released = found
    if command.number in state.evictions.records:
        return _stale(f"nodes are kept for {allocation_id(command.number)} already")
    victims = _victims(state, command)
    if isinstance(victims, Rejected):
        return victims
    refusal = (
        placement.check_allocation(state, preemptor, command, at)
        or placement.check_count(preemptor.request, command.shares)
        or _check_victims(state, preemptor, victims, command, at)
        or _check_nodes(state, preemptor, victims, command.shares)
        or reservations.check_placement(state, preemptor, command.shares, at)
        or quotas.check_placement(state, preemptor, command.shares)
        or sensitive.check_placement(state, preemptor, command.shares)
    )
    if refusal is not None:
        return refusal
    eviction = Eviction(
        number=command.number,
        run=command.run,
        victims=tuple(Victim(number=victim.number, run=victim.run) for victim in victims),
        shares=command.shares,
        at=at,
        reason=command.reason,
    )
    stops = tuple(ev.AllocationStopping(number=victim.number, intent=StopIntent.PREEMPT) for victim in victims)
    return (*released, ev.EvictionBegan(eviction=eviction), *stops)


def _victims(state: State, command: cmd.EvictAllocations) -> list[Allocation] | Rejected:
    """The records of the runs that are to be taken, as they are now."""
    found: list[Allocation] = []
    for number, run in command.victims:
        record = state.allocations.get(number)
        if record is None or record.run != run:
            return _stale(f"{allocation_id(number)} is not at run {run}")
        found.append(record)
    return found


def _check_victims(
    state: State, preemptor: Allocation, victims: list[Allocation], command: cmd.EvictAllocations, at: int
) -> Rejected | None:
    limits = limits_of(state.settings)
    if not 0 < len({victim.number for victim in victims}) == len(victims) <= limits.max_victims:
        return _stale(f"{len(victims)} victims proposed, preemption.max_victims is {limits.max_victims}")
    wanted = {share.node for share in command.shares}
    for victim in victims:
        if victim.preemption_class >= preemptor.preemption_class:
            return _stale(f"{allocation_id(victim.number)} is of class {victim.preemption_class}")
        why = protection(victim, state.vclusters[victim.vcluster], limits, at)
        if why is not None:
            return _stale(f"{allocation_id(victim.number)} {why}")
        if wanted.isdisjoint(victim.nodes):
            return _stale(f"{allocation_id(victim.number)} holds none of the nodes")
    classes = preemptor.preemption_class - max(victim.preemption_class for victim in victims)
    value = value_of(units_of(command.shares, state.nodes), preemptor.walltime_s, classes)
    if sum(cost_of(victim, state.nodes, at) for victim in victims) >= value:
        return _stale(f"taking this work costs more than an early start of {allocation_id(preemptor.number)} is worth")
    return None


def _check_nodes(
    state: State, preemptor: Allocation, victims: list[Allocation], shares: tuple[Share, ...]
) -> Rejected | None:
    vcluster = state.vclusters[preemptor.vcluster]
    if not vcluster.is_up:
        return _stale(f'vCluster "{vcluster.name}" is down')
    leaving = frozenset(victim.number for victim in victims)
    for share in shares:
        node = state.nodes.get(share.node)
        if node is None or not placement.may_have(preemptor, vcluster, node, share):
            return _stale(f"node {share.node} cannot be given")
        if not fits_beside(state, without(node, leaving), share, vcluster, preemptor.number):
            return _stale(f"node {share.node} has no room, even without what is to leave it")
    return None


def drop(state: State, command: cmd.DropEviction, at: int) -> Events | Rejected:
    eviction = state.evictions.records.get(command.number)
    if eviction is None or not eviction.freed_at or at < eviction.freed_at + KEEP_MS:
        return _stale(f"nothing is kept in vain for {allocation_id(command.number)}")
    return (ev.EvictionEnded(number=command.number, why="it did not start on the nodes in time"),)


# what follows from other events


def settle(state: State, events: Events, at: int) -> Events:
    """What becomes of evictions by events that were just folded. Empty when nothing does."""
    registry = state.evictions
    if not registry.records:
        return ()
    ended: dict[int, str] = {}
    gone: dict[int, set[int]] = {}
    for event in events:
        for number, why in _ends(state, event):
            ended.setdefault(number, why)
        if isinstance(event, ev.AllocationEnded | ev.AllocationRequeued) and event.number in registry.takers:
            gone.setdefault(registry.takers[event.number], set()).add(event.number)
    changed = (_with_gone(registry.records[number], left, at) for number, left in gone.items() if number not in ended)
    return (
        *(ev.EvictionEnded(number=number, why=why) for number, why in ended.items()),
        *(ev.EvictionChanged(eviction=eviction) for eviction in changed),
    )


def _ends(state: State, event: ev.AnyEvent) -> Iterator[tuple[int, str]]:
    """The evictions that the event makes pointless."""
    records = state.evictions.records
    match event:
        case ev.AllocationPlaced() if event.number in records:
            yield event.number, "it starts"
        case ev.AllocationEnded() if event.number in records:
            yield event.number, "it has ended"
        case ev.AllocationHeld() | ev.WaitChanged() if event.number in records:
            yield event.number, "it may not start now"
        case ev.AllocationUpdated() if event.number in records:
            yield event.number, "it was changed"
        case ev.NodeMoved() if event.state not in _HOPEFUL:
            for number in state.evictions.keepers.get(event.node, ()):
                yield number, f"node {event.node} is {event.state}"
        case _:
            return


def _with_gone(eviction: Eviction, left: set[int], at: int) -> Eviction:
    victims = tuple(
        replace(victim, phase=VictimPhase.GONE) if victim.number in left else victim for victim in eviction.victims
    )
    is_free = all(victim.phase is VictimPhase.GONE for victim in victims)
    changed: Eviction = replace(eviction, victims=victims, freed_at=at if is_free else 0)
    return changed


def _stale(message: str) -> Rejected:
    return Rejected(code="stale", message=message)
