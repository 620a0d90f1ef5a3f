"""Who was taken off the nodes is counted."""

from lattice.core.machine.events import EvictionBegan
from lattice.core.model.nodes.nodes import Share
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
