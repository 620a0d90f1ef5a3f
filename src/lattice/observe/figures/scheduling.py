"""Figures of the scheduler, by vCluster. One cycle plans all vClusters together: it counts for each that had anything in the queue."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lattice.ports.scheduling import CycleReport

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ACCEPTED, _REJECTED = "accepted", "rejected"


class SchedulingFigures:
    """Counts since the server started; a server that does not lead counts nothing and shows no queue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cycles = Histogram(
            "lattice_scheduling_cycle_duration_seconds",
            "Time of one scheduling cycle, for each vCluster that had anything in the queue; a cycle over an empty queue has no vCluster",
            ["vcluster"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._scoring = Histogram(
            "lattice_scheduling_cost_function_duration_seconds",
            "Part of a cycle in which the cost function is evaluated for everything in the queue, of all vClusters together",
            ["vcluster"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._placements = Counter("lattice_scheduling_placements", "Successful placements", registry=registry)
        self._stale = Counter(
            "lattice_scheduling_stale_proposals",
            "Placements that no longer held when they were applied",
            registry=registry,
        )
        self._proposals = Counter(
            "lattice_scheduling_proposals",
            "Placements that were proposed, by what became of them: accepted, rejected (no longer held when they were applied)",
            ["vcluster", "result"],
            registry=registry,
        )
        self._backfilled = Counter(
            "lattice_scheduling_backfill_jobs",
            "Placements ahead of work of the same vCluster that ranks higher and waits for nodes kept for it",
            ["vcluster"],
            registry=registry,
        )
        self._waiting = Gauge(
            "lattice_scheduling_queue_depth",
            "Allocations and tasks that the last cycle left waiting; absent on servers that follow",
            ["vcluster"],
            registry=registry,
        )
        self._known: set[str] = set()

    def note(self, report: CycleReport) -> None:
        """A cycle ended."""
        for vcluster in report.took_part or ("",):
            self._cycles.labels(vcluster).observe(report.seconds)
            self._scoring.labels(vcluster).observe(report.scoring_s)
        for vcluster, cycle in report.vclusters.items():
            self._waiting.labels(vcluster).set(cycle.waiting)
            self._proposals.labels(vcluster, _ACCEPTED).inc(cycle.accepted)
            self._proposals.labels(vcluster, _REJECTED).inc(cycle.rejected)
            self._backfilled.labels(vcluster).inc(cycle.backfilled)
        self._placements.inc(report.placed)
        self._stale.inc(report.stale)
        for gone in self._known - report.vclusters.keys():
            self._forget(gone)
        self._known = set(report.vclusters)

    def rest(self) -> None:
        """This server plans no more: another one shows the queue."""
        self._waiting.clear()
        self._known.clear()

    def _forget(self, vcluster: str) -> None:
        """A vCluster that was deleted; sites that make one a day do not fill the page."""
        for family in (self._waiting, self._cycles, self._scoring, self._backfilled):
            family.remove_by_labels({"vcluster": vcluster})
        for result in (_ACCEPTED, _REJECTED):
            self._proposals.remove_by_labels({"vcluster": vcluster, "result": result})
