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
from lattice.core.machine.rules import lending, sensitive
from lattice.core.machine.rules.checkpoints.asking import before_stop, let_go
from lattice.core.machine.rules.instances import leaving
from lattice.core.machine.rules.kept_nodes import fits_beside, without
from lattice.core.machine.rules.work import placement, quotas, reservations
from lattice.core.machine.rules.work.tasks import materialise
from lattice.core.machine.state import State
from lattice.core.model.capacity.lending import lending_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState, Share
from lattice.core.model.work.allocations import Allocation, AllocationState, PartPhase, StopIntent
from lattice.core.model.work.checkpoints import CheckpointReason
from lattice.core.model.work.evictions import (
    KEEP_MS,
    Eviction,
    EvictionReason,
    Victim,
    VictimPhase,
    cost_of,
    limits_of,
    protection,
    units_of,
    value_of,
)

Events = tuple[ev.AnyEvent, ...]
MAX_SHARERS = 64  # allocations that one reclaimed node may be shared by
_MOVING = (ev.AllocationStopping, ev.AllocationEnded, ev.AllocationRequeued)  # what takes a victim on
_STAYING = (PartPhase.ASSIGNED, PartPhase.RUNNING, PartPhase.RESTARTING)
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
        or _check_set(state, victims, command)
        or _check_victims(state, preemptor, victims, command, at)
        or _check_nodes(state, preemptor, victims, command.shares)
        or reservations.check_placement(state, preemptor, command.shares, at)
        or quotas.check_placement(state, preemptor, command.shares)
        or sensitive.check_placement(state, preemptor, command.shares)
    )
    if refusal is not None:
        return refusal
    grace_s = lending_of(state.vclusters[preemptor.vcluster]).return_grace_s
    grace_ms = int(grace_s * 1000) if command.reason is EvictionReason.RECLAIM else 0
    wanted = frozenset(share.node for share in command.shares)
    taken = [_taken(state, victim, at, grace_ms, wanted) for victim in victims]
    eviction = Eviction(
        number=command.number,
        run=command.run,
        victims=tuple(victim for victim, _ in taken),
        shares=command.shares,
        at=at,
        reason=command.reason,
    )
    begun = (event for _, event in taken if event is not None)
    return (*released, ev.EvictionBegan(eviction=eviction), *begun)


def _taken(
    state: State, record: Allocation, at: int, grace_ms: int, wanted: frozenset[str]
) -> tuple[Victim, ev.AnyEvent | None]:
    """How far the victim is to begin with: it writes a checkpoint first if it can; one that is warned has until its time is over."""
    asked = before_stop(state, record, CheckpointReason.PREEMPTION, at, within_ms=grace_ms)
    if asked is not None and grace_ms and _gives_back(record, wanted):
        # The others keep running, so this checkpoint is followed by no stop.
        is_new = isinstance(asked, ev.CheckpointRequested)
        asked = replace(asked, checkpoint=replace(asked.checkpoint, stops=False)) if is_new else None
    victim = Victim(number=record.number, run=record.run)
    if grace_ms:
        return replace(victim, phase=VictimPhase.WARNED, due_at=at + grace_ms), asked
    if asked is not None:
        return replace(victim, phase=VictimPhase.CHECKPOINTING), asked
    return victim, _stopping(victim)


def _stopping(victim: Victim) -> ev.AllocationStopping:
    return ev.AllocationStopping(number=victim.number, intent=StopIntent.PREEMPT)


def stop_victims(state: State, command: cmd.StopVictims, at: int) -> Events | Rejected:
    """Ends the victims whose warning is over; one that is ending for another reason is left to that."""
    eviction = state.evictions.records.get(command.number)
    victims = eviction.victims if eviction is not None else ()
    due = [each for each in victims if each.phase is VictimPhase.WARNED and each.due_at <= at]
    if eviction is None or not due:
        return _stale(f"no warning of {allocation_id(command.number)} is over")
    ending = [each for each in due if state.allocations[each.number].is_running]
    changed = replace(
        eviction, victims=tuple(replace(v, phase=VictimPhase.STOPPING) if v in due else v for v in victims)
    )
    ended = (event for each in ending for event in _ended(state.allocations[each.number], eviction))
    return (ev.EvictionChanged(eviction=changed), *ended)


def _ended(record: Allocation, eviction: Eviction) -> Events:
    """Work on lent nodes that are wanted back is stopped; a service gives them back and keeps its others."""
    wanted = frozenset(eviction.nodes)
    if not _gives_back(record, wanted):
        return (ev.AllocationStopping(number=record.number, intent=StopIntent.PREEMPT),)
    going = [part for part in record.parts if part.node in wanted and part.phase is not PartPhase.LEAVING]
    gone = [event for part in going for event in leaving(record, part, "its node is wanted back by its home")]
    # A service that follows its load is scaled down, any other one is given another node.
    size = max(record.scaling.min_nodes, record.size - len(going)) if record.scaling is not None else record.size
    fewer = (ev.InstancesWanted(number=record.number, wanted=size),) if size < record.size else ()
    return (*fewer, *gone)


def _gives_back(record: Allocation, wanted: frozenset[str]) -> bool:
    """Whether it can do without these nodes."""
    staying = (part for part in record.parts if part.node not in wanted)
    return record.has_instances and any(part.phase in _STAYING for part in staying)


def _victims(state: State, command: cmd.EvictAllocations) -> list[Allocation] | Rejected:
    """The records of the runs that are to be taken, as they are now."""
    found: list[Allocation] = []
    for number, run in command.victims:
        record = state.allocations.get(number)
        if record is None or record.run != run:
            return _stale(f"{allocation_id(number)} is not at run {run}")
        found.append(record)
    return found


def _check_set(state: State, victims: list[Allocation], command: cmd.EvictAllocations) -> Rejected | None:
    """Some, but not too many, none of them twice, and each holds something of what is wanted. For a reclaim, as many as there are nodes."""
    most = limits_of(state.settings).max_victims
    if command.reason is EvictionReason.RECLAIM:
        most = max(most, len(command.shares) * MAX_SHARERS)
    if not 0 < len({victim.number for victim in victims}) == len(victims) <= most:
        return _stale(f"{len(victims)} victims proposed, preemption.max_victims is {most}")
    wanted = {share.node for share in command.shares}
    for victim in victims:
        if wanted.isdisjoint(victim.nodes):
            return _stale(f"{allocation_id(victim.number)} holds none of the nodes")
        if victim.number in state.evictions.takers:
            return _stale(f"{allocation_id(victim.number)} is taken already")
    return None


def _check_victims(
    state: State, preemptor: Allocation, victims: list[Allocation], command: cmd.EvictAllocations, at: int
) -> Rejected | None:
    if command.reason is EvictionReason.RECLAIM:
        return _check_reclaim(state, preemptor, victims)
    limits = limits_of(state.settings)
    for victim in victims:
        if victim.preemption_class >= preemptor.preemption_class:
            return _stale(f"{allocation_id(victim.number)} is of class {victim.preemption_class}")
        vcluster = state.vclusters[victim.vcluster]
        is_borrowing = bool(lending.foreign_nodes(vcluster, victim.shares))
        why = protection(victim, vcluster, limits, at, is_borrowing=is_borrowing)
        if why is not None:
            return _stale(f"{allocation_id(victim.number)} {why}")
    classes = preemptor.preemption_class - max(victim.preemption_class for victim in victims)
    value = value_of(units_of(command.shares, state.nodes), preemptor.walltime_s, classes)
    if sum(cost_of(victim, state.nodes, at) for victim in victims) >= value:
        return _stale(f"taking this work costs more than an early start of {allocation_id(preemptor.number)} is worth")
    return None


def _check_reclaim(state: State, preemptor: Allocation, victims: list[Allocation]) -> Rejected | None:
    """Whatever its class and however long it ran: work on a node that its vCluster borrowed gives way to work of the node's home."""
    home = frozenset(state.vclusters[preemptor.vcluster].nodes)
    for victim in victims:
        label = allocation_id(victim.number)
        if victim.state is not AllocationState.RUNNING:
            return _stale(f"{label} is {victim.state}")
        if home.isdisjoint(lending.foreign_nodes(state.vclusters[victim.vcluster], victim.shares)):
            return _stale(f'{label} has borrowed no node of vCluster "{preemptor.vcluster}"')
    return None


def _check_nodes(
    state: State, preemptor: Allocation, victims: list[Allocation], shares: tuple[Share, ...]
) -> Rejected | None:
    vcluster = state.vclusters[preemptor.vcluster]
    if lending.foreign_nodes(vcluster, shares):
        return _stale(f'some of the nodes are not of vCluster "{vcluster.name}"')
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
    moved: dict[int, dict[int, VictimPhase]] = {}
    for event in events:
        for number, why in _ends(state, event):
            ended.setdefault(number, why)
        if isinstance(event, ev.NodeLeft) and event.number in registry.takers:
            taker = registry.takers[event.number]
            if set(registry.records[taker].nodes).isdisjoint(state.allocations[event.number].nodes):
                moved.setdefault(taker, {})[event.number] = VictimPhase.GONE
        if isinstance(event, _MOVING) and event.number in registry.takers:
            phase = VictimPhase.STOPPING if isinstance(event, ev.AllocationStopping) else VictimPhase.GONE
            moved.setdefault(registry.takers[event.number], {})[event.number] = phase
    changed = [
        (registry.records[number], _with_phases(registry.records[number], phases, at))
        for number, phases in moved.items()
        if number not in ended
    ]
    return (
        *(ev.EvictionEnded(number=number, why=why) for number, why in ended.items()),
        *(event for number in ended for event in _let_go(state, registry.records[number])),
        *(ev.EvictionChanged(eviction=new) for old, new in changed if new != old),
    )


def _let_go(state: State, eviction: Eviction) -> Iterator[ev.AnyEvent]:
    """Victims that only write a checkpoint so far continue after it."""
    for victim in eviction.victims:
        if victim.phase in (VictimPhase.WARNED, VictimPhase.CHECKPOINTING):
            yield from let_go(state.allocations[victim.number])


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


def _with_phases(eviction: Eviction, phases: dict[int, VictimPhase], at: int) -> Eviction:
    victims = tuple(replace(victim, phase=phases.get(victim.number, victim.phase)) for victim in eviction.victims)
    is_free = all(victim.phase is VictimPhase.GONE for victim in victims)
    changed: Eviction = replace(eviction, victims=victims, freed_at=at if is_free else 0)
    return changed


def _stale(message: str) -> Rejected:
    return Rejected(code="stale", message=message)
