"""Limits of tenants, users and projects: the plan never goes beyond them and says which one it met."""

from lattice.core.machine.commands import RaiseLevel, SetProject, SetSetting
from lattice.core.machine.levels import OLDEST
from lattice.core.model.site.tenants import SENSITIVE, NodeSharing, Project
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import FirstCome, World, nodes_of, reason


def four_nodes(sharing: NodeSharing = NodeSharing.EXCLUSIVE) -> World:
    world = FirstCome(sharing)
    world.add_nodes(["n1", "n2", "n3", "n4"])
    return world


def test_a_tenant_gets_no_more_nodes_than_its_quota() -> None:
    world = four_nodes()
    world.set_tenant(max_nodes=3)
    first, second = world.submit(Request(nodes=2)), world.submit(Request(nodes=2))
    third = world.submit()
    plan = world.run_cycle()
    assert nodes_of(plan) == {first: ("n1", "n2"), third: ("n3",)}
    assert reason(plan, second) == "waiting for quota headroom: tenant default uses 2 of 3 nodes, 2 requested"


def test_the_quota_of_one_tenant_does_not_stop_another() -> None:
    world = four_nodes()
    world.set_tenant(max_nodes=1)
    world.set_tenant("physics")
    first, second = world.submit(), world.submit()
    other = world.submit(tenant="physics")
    plan = world.run_cycle()
    assert nodes_of(plan) == {first: ("n1",), other: ("n2",)}
    assert reason(plan, second) == "waiting for quota headroom: tenant default uses 1 of 1 nodes, 1 requested"


def test_a_freed_node_gives_headroom_back() -> None:
    world = four_nodes()
    world.set_tenant(max_nodes=1)
    first, second = world.submit(), world.submit()
    world.run_cycle()
    world.finish(first)
    assert list(nodes_of(world.run_cycle())) == [second]


def test_a_tenant_runs_no_more_allocations_than_its_quota() -> None:
    world = four_nodes()
    world.set_tenant(max_concurrent_allocations=2)
    numbers = [world.submit() for _ in range(4)]
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == numbers[:2]
    expected = "waiting for quota headroom: tenant default runs 2 of 2 allocations"
    assert reason(plan, numbers[2]) == reason(plan, numbers[3]) == expected


def test_a_user_runs_no_more_allocations_than_the_tenant_allows() -> None:
    world = four_nodes()
    world.set_tenant(max_running_per_user=1)
    ann, more, bob = world.submit(user="ann"), world.submit(user="ann"), world.submit(user="bob")
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [ann, bob]
    assert reason(plan, more) == "waiting for quota headroom: user ann runs 1 of 1 allocations"


def test_a_project_gets_no_more_nodes_than_its_limit() -> None:
    world = four_nodes()
    world.do(SetProject(project=Project(tenant="default", name="cfd", max_nodes=2), create=True))
    first, second = world.submit(project="cfd"), world.submit(Request(nodes=2), project="cfd")
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [first]
    assert reason(plan, second) == "waiting for quota headroom: project cfd uses 1 of 2 nodes, 2 requested"


def test_a_range_stops_at_the_quota() -> None:
    world = four_nodes()
    world.set_tenant(max_nodes=3)
    number = world.submit(Request(nodes=1, max_nodes=4))
    assert nodes_of(world.run_cycle()) == {number: ("n1", "n2", "n3")}


def test_a_shared_node_counts_once_however_many_shares_a_tenant_has_on_it() -> None:
    world = four_nodes(NodeSharing.SHARED)
    world.set_tenant(max_nodes=1)
    numbers = [world.submit(Request(cpus=2)) for _ in range(3)]
    plan = world.run_cycle()
    assert nodes_of(plan) == {numbers[0]: ("n1",), numbers[1]: ("n1",)}
    world.finish(numbers[0])
    assert nodes_of(world.run_cycle()) == {numbers[2]: ("n1",)}


def test_a_quota_keeps_shares_on_nodes_the_tenant_has() -> None:
    world = four_nodes(NodeSharing.SHARED)
    world.set_tenant("physics", max_nodes=2)
    filler = world.submit(Request(cpus=3))
    wide = world.submit(Request(nodes=2, cpus=2), tenant="physics")
    world.run_cycle()
    assert world.state.allocations[filler].nodes == ("n1",)
    taken = world.state.allocations[wide].nodes
    again = world.submit(Request(nodes=2, cpus=1), tenant="physics")
    assert nodes_of(world.run_cycle()) == {again: taken}


def test_the_last_nodes_of_a_quota_may_be_new_ones() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_nodes(["n1", "n2"])
    world.set_tenant(max_nodes=2)
    world.submit()
    wide = world.submit(Request(nodes=2))
    assert nodes_of(world.run_cycle())[wide] == ("n1", "n2")


def test_shares_on_new_nodes_wait_for_the_quota() -> None:
    world = four_nodes(NodeSharing.SHARED)
    world.set_tenant(max_nodes=2)
    full = world.submit(Request(nodes=2, cpus=4))
    more = world.submit()
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [full]
    assert reason(plan, more) == "waiting for quota headroom: tenant default uses 2 of 2 nodes, 1 requested"


def test_a_lowered_quota_stops_new_work_and_leaves_the_old_alone() -> None:
    world = four_nodes()
    world.submit(Request(nodes=3))
    world.run_cycle()
    waiting = world.submit()
    world.set_tenant(max_nodes=2)
    plan = world.run_cycle()
    assert plan.placements == ()
    assert reason(plan, waiting) == "waiting for quota headroom: tenant default uses 3 of 2 nodes, 1 requested"


def sensitive_pool(nodes: int) -> World:
    world = World(scheduler=SENSITIVE)
    world.do(RaiseLevel(level=OLDEST + 1))
    world.add_nodes(["n1", "n2", "n3", "n4"])
    world.do(SetSetting(key="sensitive.pool_size", value=str(nodes)))
    return world


def test_sensitive_work_gets_no_more_nodes_than_its_pool() -> None:
    world = sensitive_pool(3)
    first, second = world.submit(Request(nodes=2)), world.submit(Request(nodes=2))
    plan = world.run_cycle()
    assert list(nodes_of(plan)) == [first]
    expected = "waiting for quota headroom: 2 of 3 nodes of the sensitive pool are in use, 2 requested"
    assert reason(plan, second) == expected
    assert reason(world.plan(), second) == expected


def test_a_range_of_sensitive_work_stops_at_the_pool() -> None:
    world = sensitive_pool(2)
    number = world.submit(Request(nodes=1, max_nodes=4))
    assert len(nodes_of(world.run_cycle())[number]) == 2


def test_the_pool_does_not_limit_other_work() -> None:
    world = sensitive_pool(1)
    world.set_vcluster("open", scheduler="interactive-fifo")
    number = world.submit(Request(nodes=3), vcluster="open")
    assert list(nodes_of(world.run_cycle())) == [number]
