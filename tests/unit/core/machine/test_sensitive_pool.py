"""The pool of sensitive nodes is a hard limit: at submission, at placement, and for whoever changes it."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.rules.sensitive import nodes_in_use
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import Request
from tests.unit.core.machine.world import World


def pool(size: int) -> World:
    world = World(scheduler=SENSITIVE)
    world.must(cmd.SetSetting(key="sensitive.pool_size", value=str(size)))
    return world


def test_work_beyond_the_pool_is_refused_with_figures() -> None:
    world = pool(1)
    world.running("n1")
    refused = world.refused(world.submission())
    assert (refused.code, refused.current, refused.limit) == ("quota", "1 nodes in use", "1 nodes")
    assert world.refused(world.submission(request=Request(nodes=2))).code == "quota"
    assert nodes_in_use(world.state) == 1


def test_two_that_were_submitted_at_once_do_not_both_get_nodes() -> None:
    world = pool(1)
    first, second = world.submit(), world.submit()
    world.place(first, "n1")
    refused = world.refused(cmd.PlaceAllocation(number=second, run=1, shares=(Share(node="n2"),)))
    assert refused.code == "quota"
    assert nodes_in_use(world.state) == 1


def test_the_pool_is_not_made_smaller_than_what_is_in_use() -> None:
    world = pool(2)
    world.running("n1")
    world.running("n2")
    assert "2 nodes" in world.refused(cmd.SetSetting(key="sensitive.pool_size", value="1")).message
    world.must(cmd.SetSetting(key="sensitive.pool_size", value="0"))
    world.running("n3")


@pytest.mark.parametrize(("before", "after"), [(SENSITIVE, "hpc-backfill"), ("hpc-backfill", SENSITIVE)])
def test_a_vcluster_does_not_change_its_nature_under_running_work(before: str, after: str) -> None:
    world = World(scheduler=before)
    number = world.running("n1")
    change = cmd.SetVcluster(vcluster=Vcluster(name="batch", scheduler=after))
    assert "while work runs in it" in world.refused(change).message
    world.ended(number, "n1")
    world.must(change)


def test_other_work_is_not_concerned() -> None:
    world = World()
    world.must(cmd.SetSetting(key="sensitive.pool_size", value="1"))
    world.running("n1")
    world.running("n2")
