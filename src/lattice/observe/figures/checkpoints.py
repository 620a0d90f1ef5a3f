"""Figures of checkpoints: how long they take, how many fail, and what preemption and time limits have to do with it."""

from typing import TypeGuard

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lattice.core.machine.events import AllocationEnded, AllocationRequeued, AnyEvent, CheckpointEnded, CheckpointStored
from lattice.core.model.work.allocations import Cause
from lattice.core.model.work.checkpoints import CheckpointReason

_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_RESULTS = ("complete", "failed")


def _is_out_of_time(event: AnyEvent) -> TypeGuard[AllocationEnded | AllocationRequeued]:
    """Whether the walltime ended the run, be it to run again."""
    if isinstance(event, AllocationEnded):
        return event.cause is Cause.WALLTIME
    return isinstance(event, AllocationRequeued) and event.message.startswith(f"requeued after {Cause.WALLTIME}")


class CheckpointFigures:
    """Counted by the leader, since it started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._durations = Histogram(
            "lattice_checkpoint_duration_seconds",
            "Time from the request for a checkpoint to its end: complete, failed",
            ["result"],
            registry=registry,
            buckets=_BUCKETS,
        )
        for result in _RESULTS:
            self._durations.labels(result)  # from 0 on, so that the first one is an increase
        self._preempted = Histogram(
            "lattice_preemption_checkpoint_duration_seconds",
            "Time from the request to the end of checkpoints of work that is preempted",
            registry=registry,
            buckets=_BUCKETS,
        )
        self._failed = Counter(
            "lattice_preemption_failed_checkpoint",
            "Checkpoints of work that is preempted which failed or took too long",
            registry=registry,
        )
        self._conflicts = Counter(
            "lattice_checkpoint_walltime_conflict",
            "Checkpoints that were not complete when the time limit of their work was over",
            registry=registry,
        )

        self.storage_unavailable = Gauge(
            "lattice_checkpoint_storage_unavailable",
            "1 while a node that is to write a checkpoint does not find the directory checkpoint.root",
            registry=registry,
        )

        self._copies = Counter(
            "lattice_checkpoint_copies",
            "Copies of complete checkpoints to the object store: stored, failed",
            ["result"],
            registry=registry,
        )
        for result in ("stored", "failed"):
            self._copies.labels(result)

    def copied(self, events: tuple[AnyEvent, ...]) -> None:
        self._copies.labels("stored").inc(sum(isinstance(event, CheckpointStored) for event in events))

    def copy_failed(self) -> None:
        self._copies.labels("failed").inc()

    def note(self, events: tuple[AnyEvent, ...]) -> None:
        out_of_time = {event.number for event in events if _is_out_of_time(event)}
        for event in events:
            if not isinstance(event, CheckpointEnded):
                continue
            done = event.checkpoint
            seconds = max(0, done.ended_at - done.asked_at) / 1000
            self._durations.labels(_RESULTS[not done.is_complete]).observe(seconds)
            if done.reason is CheckpointReason.PREEMPTION:
                self._preempted.observe(seconds)
                self._failed.inc(not done.is_complete)
            if not done.is_complete and event.number in out_of_time:
                self._conflicts.inc()
