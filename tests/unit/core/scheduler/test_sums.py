"""Power and storage bandwidth are limited for the machine as a whole."""

from lattice.core.machine.commands import ConfirmNode, RegisterNode, SetSetting
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import HOUR, FirstCome, nodes_of, reason


def powered_world(budget_w: int) -> FirstCome:
    """Four nodes of 500 W."""
    world = FirstCome()
    for index in range(4):
        world.do(RegisterNode(node=f"n{index}", hardware=Hardware(cpus=4, memory_mb=4000, power_w=500)))
        world.do(ConfirmNode(node=f"n{index}"))
    world.do(SetSetting(key="scheduler.power_budget_w", value=str(budget_w)))
    return world


def test_no_more_nodes_are_busy_than_the_power_allows() -> None:
    world = powered_world(1200)
    numbers = [world.submit() for _ in range(3)]
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == numbers[:2]
    assert reason(plan, numbers[2]) == "waiting for power: busy nodes draw 1000 of 1200 W, 500 W more needed"
    assert {kept.number: kept.start_at for kept in plan.reservations} == {numbers[2]: world.now + HOUR}
    world.finish(numbers[0])
    assert list(nodes_of(world.run_cycle())) == numbers[2:]


def test_a_range_takes_fewer_nodes_when_power_is_short() -> None:
    world = powered_world(1200)
    number = world.submit(Request(nodes=1, max_nodes=4))
    assert len(nodes_of(world.plan())[number]) == 1


def test_power_that_is_kept_is_not_given_away() -> None:
    world = powered_world(1500)
    first = world.submit(Request(nodes=2), walltime_s=3600)
    world.run_cycle()
    world.report_running(first)
    wide = world.submit(Request(nodes=3))
    long, short = world.submit(walltime_s=7200), world.submit(walltime_s=3600)
    plan = world.plan()
    assert list(nodes_of(plan)) == [short]
    starts = {kept.number: kept.start_at - world.now for kept in plan.reservations}
    assert starts == {wide: HOUR, long: 2 * HOUR}


def test_storage_bandwidth_is_shared_out() -> None:
    world = powered_world(0)
    world.do(SetSetting(key="scheduler.storage_bandwidth_gbps", value="10"))
    first, second = (world.submit(Request(storage_gbps=6)) for _ in range(2))
    modest = world.submit(Request(storage_gbps=4))
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [first, modest]
    text = reason(plan, second)
    assert text == "waiting for storage bandwidth: 6 of 10 GB/s in use, 6 requested"
    assert {kept.number: kept.start_at for kept in world.plan().reservations} == {second: world.now + HOUR}


def test_storage_that_running_work_was_seen_to_use_is_not_given_away() -> None:
    world = powered_world(0)
    world.do(SetSetting(key="scheduler.storage_bandwidth_gbps", value="10"))
    quiet, modest = world.submit(), world.submit(Request(storage_gbps=2))
    world.run_cycle()
    for number in (quiet, modest):
        world.report_running(number)
    world.cycle.signals = Signals(storage_gbps={quiet: 5.0, modest: 1.0, 999: 50.0})
    large = world.submit(Request(storage_gbps=4))
    assert reason(world.plan(), large) == "waiting for storage bandwidth: 7 of 10 GB/s in use, 4 requested"
    world.cycle.signals = Signals(storage_gbps={quiet: 3.0})
    assert list(nodes_of(world.run_cycle())) == [large]


def test_a_promise_is_not_lost_to_work_that_takes_the_last_of_the_power() -> None:
    """The next plan looks for the power of the thirstiest nodes: that much has to be kept, whatever the nodes of today draw."""
    world = FirstCome()
    for name, power_w in (("a", 300), ("b", 200), ("c", 200), ("d", 200)):
        world.add_node(name, power_w=power_w)
    world.do(SetSetting(key="scheduler.power_budget_w", value="900"))
    endless = world.submit(Request(node_list=("c",)), walltime_s=0)
    world.submit(Request(node_list=("a",)))
    world.run_cycle()
    promised = world.submit(Request(nodes=2, node_list=("a", "b")))
    late = world.submit(Request(node_list=("d",)), walltime_s=0)
    first = world.run_cycle()
    assert "waiting for power" in reason(first, late)
    starts = {kept.number: kept.start_at for kept in world.plan().reservations}
    assert starts[promised] == world.now + HOUR
    world.finish(endless)
    assert list(nodes_of(world.run_cycle())) == [late]
