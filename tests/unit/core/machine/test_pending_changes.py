"""Changes of work that still waits: judged as if it were submitted now, refused once it has started."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import RequeuePolicy
from lattice.core.model.work.dependencies import Condition, Dependency
from lattice.core.model.work.revisions import Revision
from tests.unit.core.machine.test_dags import member, submit
from tests.unit.core.machine.world import World


def change(number: int, **fields: object) -> cmd.UpdateAllocation:
    walltime_s = fields.pop("walltime_s", None)
    return cmd.UpdateAllocation(number=number, walltime_s=walltime_s, revision=Revision(**fields))  # type: ignore[arg-type]


def after(*numbers: int) -> tuple[tuple[Dependency, ...], ...]:
    return tuple((Dependency(number=number, condition=Condition.SUCCESS),) for number in numbers)


def test_figures_time_and_vcluster_change_while_it_waits() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="long"), create=True))
    number = world.submit(nodes=2)
    world.must(change(number, nodes=3, cpus=2, vcluster="long", eligible_at=9_000_000, walltime_s=7200))
    record = world[number]
    assert (record.request.nodes, record.request.cpus, record.vcluster) == (3, 2, "long")
    assert (record.eligible_at, record.walltime_s) == (9_000_000, 7200)


def test_what_could_not_be_submitted_is_refused() -> None:
    world = World()
    number = world.submit()
    assert world.refused(change(number, nodes=9)).current == "3 of 3 nodes match"
    assert 'unknown vCluster "ghosts"' in world.refused(change(number, vcluster="ghosts")).message


def test_started_work_keeps_what_it_has() -> None:
    world = World()
    number = world.running("n1")
    assert "only pending allocations" in world.refused(change(number, nodes=2)).message
    group = world.submit(tasks=((0, 0, 1),))
    world.place(group + 1, "n2")
    assert "no task of" in world.refused(change(group, nodes=2)).message


def test_work_does_not_become_sensitive() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="secret", scheduler=SENSITIVE), create=True))
    number = world.submit()
    assert "sensitive work" in world.refused(change(number, vcluster="secret")).message


def test_dependencies_change_and_can_be_dropped() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    world.must(change(second, depends_on=after(first)))
    assert world[second].waits_for
    world.must(change(second, depends_on=()))
    assert (world[second].waits_for, world[second].eligible_at) == ((), world.at)


def test_nothing_comes_to_wait_for_itself() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    group = world.submit(tasks=((0, 2, 1),))
    world.must(change(second, depends_on=after(first)))
    world.must(change(group, depends_on=after(second)))
    for wrong in (change(first, depends_on=after(first)), change(first, depends_on=after(group))):
        assert "would wait for itself" in world.refused(wrong).message
    assert "would wait for itself" in world.refused(change(group, depends_on=after(group + 1))).message
    world.must(change(world.submit(), depends_on=after(first, second, group)))


def test_the_waiting_tasks_of_a_group_change_together() -> None:
    world = World()
    group = world.submit(tasks=((0, 2, 1),))
    world.must(change(group, nodes=2))
    assert world.state.groups[group].template.request.nodes == 2


def test_a_dependency_that_cannot_be_is_refused() -> None:
    world = World()
    number = world.submit()
    assert world.refused(change(number, depends_on=after(999))).code in {"not_found", "invalid"}


@pytest.mark.parametrize("walltime_s", [0, -5])
def test_a_walltime_is_positive(walltime_s: int) -> None:
    world = World()
    assert "must be positive" in world.refused(change(world.submit(), walltime_s=walltime_s)).message


def test_what_a_member_of_a_dag_waits_for_is_the_dags_to_say() -> None:
    world = World()
    _, members = submit(world, member(world, "first"), member(world, "second", "first"))
    said = world.refused(change(members["second"], depends_on=()))
    assert "belongs to a DAG" in said.message


def test_nothing_comes_to_wait_for_itself_through_a_dag_or_the_task_of_a_group() -> None:
    world = World()
    other = world.submit()
    flow, _ = submit(world, member(world, "only"))
    whole = ((Dependency(number=flow.number, condition=Condition.SUCCESS, is_dag=True),),)
    world.must(change(other, depends_on=whole))
    assert world[other].waits_for
    number = world.submit()
    group = world.submit(tasks=((0, 1, 1),))
    world.must(change(group, depends_on=after(number)))
    assert "would wait for itself" in world.refused(change(number, depends_on=after(group + 1))).message


def test_a_task_that_waits_again_does_not_come_to_wait_for_its_group() -> None:
    world = World()
    group = world.submit(tasks=((0, 1, 1),), requeue=RequeuePolicy.ALWAYS, max_requeue=3)
    world.place(group + 1, "n1")
    world.ended(group + 1, "n1", seq=1, exit_code=1)
    assert world[group + 1].is_waiting
    assert "would wait for itself" in world.refused(change(group + 1, depends_on=after(group))).message
