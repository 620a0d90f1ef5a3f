"""Who was taken off the nodes is counted."""

from lattice.core.machine.events import AllocationEnded, AllocationRequeued, CheckpointEnded, EvictionBegan
from lattice.core.machine.transitions import AllocationTrigger
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import AllocationState, Cause
from lattice.core.model.work.checkpoints import Checkpoint, CheckpointReason
from lattice.core.model.work.evictions import Eviction, EvictionReason, Victim
from lattice.observe.metrics import Metrics
from tests.unit.core.scheduler.world import World


def test_victims_are_counted_by_their_vcluster_and_the_reason() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    metrics = Metrics("s1")
    eviction = Eviction(
        number=second,
        run=1,
        victims=(Victim(number=first, run=1), Victim(number=999, run=1)),
        shares=(Share(node="n1"),),
        at=world.now,
        reason=EvictionReason.RECLAIM,
    )
    metrics.preemption.note(world.state, (EvictionBegan(eviction=eviction),))
    page = metrics.render().decode()
    assert 'lattice_preemptions_total{reason="reclaim",vcluster="default"} 1.0' in page
    assert 'lattice_preemptions_total{reason="reclaim",vcluster=""} 1.0' in page, "one that is gone counts, too"
    assert "lattice_preemption_victim_requeue_total 0.0" in page


def test_checkpoints_are_counted_by_result_and_by_what_they_were_for() -> None:
    metrics = Metrics("s1")

    def ended(reason: CheckpointReason, *, is_complete: bool) -> CheckpointEnded:
        done = Checkpoint(n=1, run=1, path="/c", asked_at=1000, ended_at=3000, is_complete=is_complete, reason=reason)
        return CheckpointEnded(number=7, checkpoint=done, state=AllocationState.RUNNING)

    out_of_time = AllocationEnded(
        number=7, trigger=AllocationTrigger.FAIL, state=AllocationState.FAILED, cause=Cause.WALLTIME
    )
    metrics.checkpoints.note((ended(CheckpointReason.USER, is_complete=True),))
    metrics.checkpoints.note((ended(CheckpointReason.PREEMPTION, is_complete=False),))
    metrics.checkpoints.note((ended(CheckpointReason.WALLTIME, is_complete=False), out_of_time))
    again = AllocationRequeued(
        number=7, counted=True, eligible_at=0, message="requeued after walltime: it ran too long"
    )
    metrics.checkpoints.note((ended(CheckpointReason.USER, is_complete=True), again))
    metrics.checkpoints.note((ended(CheckpointReason.USER, is_complete=False), again))
    page = metrics.render().decode()
    assert 'lattice_checkpoint_duration_seconds_count{result="complete"} 2.0' in page
    assert 'lattice_checkpoint_duration_seconds_sum{result="failed"} 6.0' in page
    assert "lattice_preemption_checkpoint_duration_seconds_count 1.0" in page
    assert "lattice_preemption_failed_checkpoint_total 1.0" in page
    assert "lattice_checkpoint_walltime_conflict_total 2.0" in page
