"""What the bounds pass over could not have started, and they pass over most of a long queue."""

from lattice.core.machine.commands import DrainNode
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import FirstCome, nodes_of


def test_too_many_nodes_of_one_sort_are_not_asked_for_again_and_again() -> None:
    world = FirstCome()
    world.set_vcluster("default", backfill_depth=0)
    world.add_nodes(["n1", "n2", "n3"])
    world.add_node("g1", gpus=1, gpu_type="H100")
    world.add_node("g2", gpus=1, gpu_type="H100")
    world.do(DrainNode(node="g2"))
    for hours in range(1, 30):
        world.submit(Request(nodes=2, gpus=1, gpu_type="H100"), walltime_s=hours * 3600, user=f"u{hours}")
    plain = world.submit(Request(nodes=3))
    single = world.submit(Request(gpus=1))
    plan = world.plan()
    assert nodes_of(plan) == {plain: ("n1", "n2", "n3"), single: ("g1",)}


def test_exclusive_and_shared_vclusters_are_bounded_each_in_its_way() -> None:
    world = FirstCome()
    world.set_vcluster("default", backfill_depth=0)
    world.set_vcluster("shared", backfill_depth=0, node_sharing=NodeSharing.SHARED)
    world.add_nodes(["n1", "n2"])
    world.do(DrainNode(node="n2"))
    blocker = world.submit(Request(cpus=2), vcluster="shared")
    wide = [world.submit(Request(nodes=2)), world.submit(Request(cpus=3), vcluster="shared")]
    small = world.submit(Request(cpus=2), vcluster="shared")
    plan = world.plan()
    assert sorted(nodes_of(plan)) == [blocker, small]
    assert all(plan.explain(number) for number in wide)


def test_many_kept_nodes_of_a_shared_vcluster_still_take_short_work() -> None:
    world = FirstCome(NodeSharing.SHARED)
    names = [f"n{index}" for index in range(10)]
    world.set_vcluster("default", node_sharing=NodeSharing.SHARED, backfill_depth=1)
    world.add_nodes(names)
    for _ in names:
        world.submit(Request(cpus=3), walltime_s=7200)
    world.run_cycle()
    world.submit(Request(nodes=10, cpus=4))
    long = [world.submit(walltime_s=9000 + index) for index in range(20)]
    short = world.submit(walltime_s=7200)
    plan = world.plan()
    assert list(nodes_of(plan)) == [short]
    assert all(plan.explain(number) for number in long)


def test_without_reservations_the_first_row_still_gets_its_reason() -> None:
    world = FirstCome()
    world.set_vcluster("default", backfill_depth=0)
    world.add_node("n1")
    world.submit()
    world.run_cycle()
    number = world.submit()
    explanation = world.plan().explain(number)
    assert explanation is not None
    assert explanation.reason.startswith("all suitable nodes occupied: 0 of 1 node free, 1 busy")
    assert explanation.predicted_start is None
