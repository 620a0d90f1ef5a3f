"""The figures of a server by which an upgrade is judged, taken from its metrics."""

from collections.abc import Iterator

from lattice.core.upgrade_criteria import Buckets, Readings
from lattice.observe.metrics import Metrics


def readings_of(metrics: Metrics) -> Readings:
    """Counted since this server started."""
    return Readings(
        cycles=_buckets(metrics, "lattice_scheduling_cycle_duration_seconds"),
        commits=_buckets(metrics, "lattice_raft_commit_latency_seconds"),
        accepted=_total(metrics, "lattice_scheduling_proposals_total", "result", "accepted"),
        rejected=_total(metrics, "lattice_scheduling_proposals_total", "result", "rejected"),
        requests=_total(metrics, "lattice_api_requests_total", "status", ""),
        errors=_total(metrics, "lattice_api_requests_total", "status", "5"),
    )


def _samples(metrics: Metrics, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for family in metrics.registry.restricted_registry([name]).collect():
        for sample in family.samples:
            if sample.name == name:
                yield sample.labels, sample.value


def _buckets(metrics: Metrics, name: str) -> Buckets:
    """Of all label sets together."""
    counts: dict[float, float] = {}
    for labels, value in _samples(metrics, f"{name}_bucket"):
        bound = float(labels["le"])
        counts[bound] = counts.get(bound, 0.0) + value
    return tuple(sorted(counts.items()))


def _total(metrics: Metrics, name: str, label: str, beginning: str) -> float:
    return sum(value for labels, value in _samples(metrics, name) if labels[label].startswith(beginning))
