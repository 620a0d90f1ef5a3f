"""Figures of a server as one of those that keep the log: whether it leads, how long the log is, what snapshots take, and its disk."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lattice.core.machine.events import AnyEvent, AuditRecorded

_COMMIT_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SNAPSHOT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
# Of the audit log, what is recorded of sensitive work; of other work nothing is.
_OF_WORK = "allocation."


class QuorumFigures(Collector):
    """`member` is the name of this server. What `show` gets is read at each scrape."""

    def __init__(self, registry: CollectorRegistry, member: str) -> None:
        self._member = member
        commits = Histogram(
            "lattice_raft_commit_latency_seconds",
            "Time from proposing a batch until it is durable",
            ["member_id"],
            registry=registry,
            buckets=_COMMIT_BUCKETS,
        )
        self.commits = commits.labels(member)
        snapshots = Histogram(
            "lattice_raft_snapshot_duration_seconds",
            "Time to take a snapshot of the state",
            ["member_id"],
            registry=registry,
            buckets=_SNAPSHOT_BUCKETS,
        )
        self._snapshots = snapshots.labels(member)
        audited = Counter(
            "lattice_raft_sensitive_audit_entries",
            "Entries of the audit log about sensitive work, applied since this server started",
            ["member_id"],
            registry=registry,
        )
        self._audited = audited.labels(member)
        self._snapshot_size = 0
        self._leads: Callable[[], bool] | None = None
        self._entries: Callable[[], int | None] = lambda: None
        self._folder: Path | None = None
        registry.register(self)

    def show(self, leads: Callable[[], bool], entries: Callable[[], int | None], folder: Path) -> None:
        """`entries` is None while the length of the log is not known; `folder` holds the files of this server."""
        self._leads, self._entries, self._folder = leads, entries, folder

    def snapshot_taken(self, seconds: float, size: int) -> None:
        self._snapshots.observe(seconds)
        self._snapshot_size = size

    def audited(self, events: tuple[AnyEvent, ...]) -> None:
        """Entries joined the audit chain, among whatever else happened."""
        for event in events:
            if isinstance(event, AuditRecorded) and event.added.entry.kind.startswith(_OF_WORK):
                self._audited.inc()

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        if self._leads is None or self._folder is None:
            return
        leader = GaugeMetricFamily(
            "lattice_raft_leader", "1 if this server leads, 0 if it follows", labels=["member_id"]
        )
        leader.add_metric([self._member], float(self._leads()))
        yield leader
        length = self._entries()
        if length is not None:
            entries = GaugeMetricFamily("lattice_raft_log_entries", "Entries in the log", labels=["member_id"])
            entries.add_metric([self._member], length)
            yield entries
        if self._snapshot_size:
            size = GaugeMetricFamily(
                "lattice_raft_snapshot_size_bytes", "Size of the newest snapshot", labels=["member_id"]
            )
            size.add_metric([self._member], self._snapshot_size)
            yield size
        yield from self._disk(self._folder)

    def _disk(self, folder: Path) -> Iterator[Metric]:
        try:
            found = os.statvfs(folder)
        except OSError:
            return
        used = GaugeMetricFamily(
            "lattice_raft_disk_used_bytes",
            "What is used of the disk with this server's data; what only root may still use counts as used",
            labels=["member_id"],
        )
        total = GaugeMetricFamily(
            "lattice_raft_disk_total_bytes", "Size of the disk with this server's data", labels=["member_id"]
        )
        size = found.f_blocks * found.f_frsize
        used.add_metric([self._member], size - found.f_bavail * found.f_frsize)
        total.add_metric([self._member], size)
        yield used
        yield total
