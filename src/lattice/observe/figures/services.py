"""Figures of services: how often instances were started again, and how often they moved."""

from prometheus_client import CollectorRegistry, Counter

from lattice.core.machine.events import AnyEvent, NodeJoined, NodeLeft, PartChanged
from lattice.core.model.work.allocations import PartPhase


class ServiceFigures:
    """Counted by the leader, since it started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._restarts = Counter(
            "lattice_instance_restarts",
            "Ends of instances of services that their nodes reported before starting them again, by cause",
            ["cause"],
            registry=registry,
        )
        self._left = Counter(
            "lattice_instances_left",
            "Instances of services that left their node, by reason: failed, taken",
            ["reason"],
            registry=registry,
        )
        self._joined = Counter(
            "lattice_instances_joined", "Instances of running services that got a node", registry=registry
        )

    def note(self, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, PartChanged) and event.part.phase is PartPhase.RESTARTING:
                self._restarts.labels(event.part.cause or "").inc()
            elif isinstance(event, NodeLeft) and event.message:  # without a reason: a node of bounded work
                self._left.labels("failed" if event.counted else "taken").inc()
            elif isinstance(event, NodeJoined):
                self._joined.inc()
