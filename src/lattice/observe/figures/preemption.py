"""Figures of preemption: who was taken off the nodes for what, and how many of them wait again."""

from prometheus_client import CollectorRegistry, Counter

from lattice.core.machine.events import AllocationRequeued, AnyEvent, EvictionBegan
from lattice.core.machine.state import State


class PreemptionFigures:
    """Counted by the leader, since it started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._taken = Counter(
            "lattice_preemptions",
            "Allocations that were taken off their nodes, by their vCluster and by reason: priority, reclaim",
            ["vcluster", "reason"],
            registry=registry,
        )
        self._again = Counter(
            "lattice_preemption_victim_requeue", "Preempted allocations that wait again", registry=registry
        )

    def note(self, state: State, events: tuple[AnyEvent, ...]) -> None:
        """`state` is the state after the events."""
        for event in events:
            if isinstance(event, EvictionBegan):
                for victim in event.eviction.victims:
                    record = state.find(victim.number)
                    self._taken.labels("" if record is None else record.vcluster, event.eviction.reason).inc()
            elif isinstance(event, AllocationRequeued) and event.preempted:
                self._again.inc()
