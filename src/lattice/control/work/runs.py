"""Which runs the state wants on a node. Pure reading; the same answer for Welcome, dispatch and reconcile."""

from collections.abc import Collection, Iterator

from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, AllocationState, Part, PartPhase
from lattice.ports.nodes.agents import Registration, RunKey

LIVE = (PartPhase.RUNNING, PartPhase.RESTARTING)  # an instance between two attempts is live


def is_ordered(part: Part) -> bool:
    """Whether its node needs an order."""
    return part.phase in (PartPhase.ASSIGNED, PartPhase.LEAVING)


def is_starting(allocation: Allocation) -> bool:
    """Whether a running service waits for an instance to start."""
    return allocation.has_instances and any(part.phase is PartPhase.ASSIGNED for part in allocation.parts)


def stopping_parts(allocation: Allocation) -> list[Part]:
    """The parts that have to end: all of an allocation that stops, else instances that leave."""
    if allocation.state is AllocationState.STOPPING:
        return [part for part in allocation.parts if part.phase is not PartPhase.ENDED]
    return [part for part in allocation.parts if part.phase is PartPhase.LEAVING]


def open_parts(state: State, node: str) -> Iterator[tuple[Allocation, Part]]:
    """Every part on the node that has not ended, with its allocation."""
    record = state.nodes.get(node)
    if record is None:
        return
    for number in record.holders():
        allocation = state.allocations.get(number)
        if allocation is None or not allocation.is_holding:
            continue
        for part in allocation.parts:
            if part.node == node and part.phase is not PartPhase.ENDED:
                yield allocation, part


def wanted_runs(state: State, node: str) -> tuple[RunKey, ...]:
    """The runs whose processes may live on the node; every other one is stale."""
    return tuple(RunKey(allocation.number, allocation.run) for allocation, _ in open_parts(state, node))


def running_runs(state: State, node: str) -> tuple[RunKey, ...]:
    """The runs that the state believes to have a live process on the node."""
    return tuple(
        RunKey(allocation.number, allocation.run)
        for allocation, part in open_parts(state, node)
        if part.phase is not PartPhase.ASSIGNED
    )


def is_wanted(state: State, node: str, key: RunKey) -> bool:
    """Whether this very run may have a process on the node."""
    allocation = state.allocations.get(key.number)
    return (
        allocation is not None
        and allocation.is_holding
        and allocation.run == key.run
        and any(part.node == node and part.phase is not PartPhase.ENDED for part in allocation.parts)
    )


def strange_runs(registration: Registration, running: Collection[RunKey], epoch: int) -> frozenset[RunKey]:
    """The node's runs that only have the same number as runs of this history: they were started in another one.

    After a restore numbers are given again. A run of another history is the one that the state means only when the state knew
    it as running, which it then did already when the backup was made.
    """
    return frozenset(
        run.key for run in registration.runs if epoch and run.epoch and run.epoch != epoch and run.key not in running
    )


def holding_runs(state: State, node: str) -> tuple[RunKey, ...]:
    """The runs that hold the node, whether they have a part there or not."""
    record = state.nodes.get(node)
    holders = (state.allocations.get(number) for number in (record.holders() if record else ()))
    return tuple(RunKey(held.number, held.run) for held in holders if held is not None and held.is_holding)


def queued_as(state: State, number: int) -> int:
    """The number under which more of the same work waits: tasks of a group wait together."""
    record = state.allocations.get(number)
    return record.group or number if record is not None else number
