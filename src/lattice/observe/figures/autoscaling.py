"""Figures of services that follow their load."""

from prometheus_client import CollectorRegistry, Counter, Gauge

ALERT_AFTER = 3


class AutoscalingFigures:
    """Implements `ScalingCounts`; counted by the leader, since it started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "lattice_autoscaling_metric_query_failures",
            "Evaluations of reactive services whose metric was not known, so that nothing was done",
            registry=registry,
        )
        self._repeated = Counter(
            "lattice_autoscaling_metric_query_repeated_failures",
            "Those of them that were at least the third in a row for their service",
            registry=registry,
        )
        self._steps = Counter(
            "lattice_autoscaling_steps",
            "Nodes that reactive services got or gave back, by direction: up, down",
            ["direction"],
            registry=registry,
        )
        self._alternating = Gauge(
            "lattice_autoscaling_alternating",
            "Reactive services whose last steps went up and down in turn",
            registry=registry,
        )

    def query_failed(self, in_a_row: int) -> None:
        self._failures.inc()
        if in_a_row >= ALERT_AFTER:
            self._repeated.inc()

    def scaled(self, step: int) -> None:
        self._steps.labels("up" if step > 0 else "down").inc()

    def alternating(self, count: int) -> None:
        self._alternating.set(count)
