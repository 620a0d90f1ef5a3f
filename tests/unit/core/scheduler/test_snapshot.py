"""What a snapshot promises."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lattice.core.cycle import Cycle
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.model.site.tenants import Demands, Lending, Lends, Vcluster
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.snapshot import id_order
from tests.unit.core.scheduler.world import World


def test_ids_are_ordered_by_the_numbers_in_them() -> None:
    ids = ["rack10-n2", "rack2-n10", "rack2-n9", "login", "rack2-n09", "n"]
    assert sorted(ids, key=id_order) == ["login", "n", "rack2-n09", "rack2-n9", "rack2-n10", "rack10-n2"]


def test_a_row_without_a_shape_is_a_broken_promise() -> None:
    world = World()
    world.submit()
    broken = replace(world.snapshot(), shapes=(None,))
    with pytest.raises(LookupError):
        broken.shape_of(0)


def test_shapes_that_nobody_has_any_more_are_used_again() -> None:
    world = World()
    world.add_node("n1")
    for index in range(20):
        number = world.submit(walltime_s=60 + index)
        world.run_cycle()
        world.finish(number)
    assert len(world.snapshot().shapes) == 1


def test_those_who_wait_are_counted_by_vcluster_with_their_tasks() -> None:
    world = World()
    assert world.snapshot().waiting() == {}
    world.submit()
    world.submit()
    assert world.snapshot().waiting() == {"default": 2}


def test_a_node_that_is_put_without_a_moment_is_not_known_to_be_idle() -> None:
    cycle = Cycle()
    cycle.put_vcluster(Vcluster(name="home", nodes=("n1",), demands=Demands(lending=Lending(lends=Lends.IDLE))))
    cycle.put_node(Node(id="n1", hardware=Hardware(cpus=4, memory_mb=0), state=NodeState.READY))
    assert cycle.snapshot().idle_since == {}


@pytest.mark.parametrize("values", [[], [3], [2, 2, 2], [5, -1, 5, 0, -1, 7]])
def test_distinct_values_are_in_order(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert distinct(column).tolist() == sorted(set(values))
    assert column.tolist() == values


def test_the_first_cycle_of_a_server_waits_for_no_import() -> None:
    program = """
import sys
from tests.unit.core.scheduler.world import World
world = World()
world.add_node("n1")
first, second = world.submit(), world.submit()
before = {*sys.modules}
plan = world.plan()
waiting = world.snapshot().waiting()
assert len(plan.placements) == 1 and plan.explain(second) and waiting == {"default": 2}, (plan, waiting)
print(*sorted({*sys.modules} - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
