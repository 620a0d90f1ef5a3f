"""What a server remembers of its own metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from lattice.observe.figures.ring import COMPONENTS, FigureRing
from lattice.observe.metrics import Metrics


class Rig:
    def __init__(self, *, kept_s: float = 1e9, max_bytes: int = 1 << 20, max_series: int = 1000) -> None:
        self.registry = CollectorRegistry()
        self.depth = Gauge("lattice_scheduling_queue_depth", "d", ["vcluster"], registry=self.registry)
        self.requests = Counter("lattice_api_requests", "r", registry=self.registry)
        self.ring = FigureRing(kept_s=kept_s, max_bytes=max_bytes, max_series=max_series)

    def take(self, at: float) -> None:
        self.ring.take(self.registry, at)


def test_samples_are_told_with_their_moments_and_labels() -> None:
    rig = Rig()
    rig.depth.labels("hpc").set(3)
    rig.take(60.0)
    rig.take(120.0)  # nothing changed
    rig.depth.labels("hpc").set(1)
    rig.take(180.0)
    found = rig.ring.since(0.0, COMPONENTS["scheduler"])
    (series,) = found
    assert (series.name, series.labels) == ("lattice_scheduling_queue_depth", {"vcluster": "hpc"})
    assert series.samples == [(60.0, 3.0), (120.0, 3.0), (180.0, 1.0)]
    assert [each.name for each in rig.ring.since(0.0)] == ["lattice_api_requests_total", series.name]


def test_what_was_before_is_known_behind_samples_that_left() -> None:
    rig = Rig(kept_s=100.0)
    rig.depth.labels("hpc").set(3)
    for at in (0.0, 60.0, 120.0, 180.0):
        rig.take(at)
    assert rig.ring.began_at == 120.0
    (series,) = rig.ring.since(0.0, COMPONENTS["scheduler"])
    assert series.samples == [(120.0, 3.0), (180.0, 3.0)]


def test_memory_is_bounded_by_bytes_and_by_series() -> None:
    rig = Rig(max_bytes=4000, max_series=50)
    for index in range(200):
        rig.depth.labels(f"v{index}").set(index)
        rig.requests.inc()
        rig.take(float(index))
        assert rig.ring.size <= 4000
    assert len(rig.ring.since(0.0)) <= 50
    assert rig.ring.lost_series > 0


def test_a_long_answer_is_thinned_and_keeps_the_newest_sample() -> None:
    rig = Rig()
    for index in range(100):
        rig.requests.inc()
        rig.take(float(index))
    (series,) = rig.ring.since(0.0, ("lattice_api",), most_points=25)
    assert len(series.samples) <= 25
    assert series.samples[-1] == (99.0, 100.0)


def test_a_day_of_a_busy_server_fits() -> None:
    metrics, ring = Metrics("s1"), FigureRing()
    for minute in range(1440):
        for operation in range(40):
            metrics.request_done(f"operation{operation}", "GET", 200, 0.001 * (minute % 7))
        if minute % 60 == 0:
            ring.take(metrics.registry, 60.0 * minute)
    per_sample = ring.size / len(ring)
    assert per_sample * 1440 <= 16 << 20


def test_every_public_metric_belongs_to_a_component() -> None:
    metrics = Metrics("s1")
    prefixes = tuple(prefix for each in COMPONENTS.values() for prefix in each)
    shown = {family.name for family in metrics.registry.collect()}
    assert [name for name in shown if not f"{name}_total".startswith(prefixes)] == []
