"""Work that still waits may be changed: what it asks for, where it runs, when, and after what."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import AllocationState, Cause, Request
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency
from lattice.core.model.work.revisions import Revision
from tests.unit.core.machine.world import World


def revise(number: int, **changes: object) -> cmd.UpdateAllocation:
    return cmd.UpdateAllocation(number=number, revision=Revision(**changes))  # type: ignore[arg-type]


def after(*numbers: int, condition: Condition = Condition.SUCCESS) -> Clauses:
    return tuple((Dependency(number=number, condition=condition),) for number in numbers)


def test_figures_change_and_the_rest_stays() -> None:
    world = World(nodes=4)
    number = world.submit(request=Request(nodes=4, max_nodes=4, topology="tight"))
    world.must(revise(number, nodes=2, cpus=1, memory_mb=512))
    assert world[number].request == Request(nodes=2, cpus=1, memory_mb=512, topology="tight")


def test_a_revision_and_a_walltime_change_together_or_not_at_all() -> None:
    world = World()
    number = world.submit(walltime_s=600)
    command = cmd.UpdateAllocation(number=number, walltime_s=60, revision=Revision(vcluster="nowhere"))
    assert world.refused(command).message == 'unknown vCluster "nowhere"'
    assert world[number].walltime_s == 600


def test_a_move_is_judged_by_the_limits_of_the_other_vcluster() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="short", max_walltime_s=60), create=True))
    number = world.submit(walltime_s=600)
    assert "longer" in world.refused(revise(number, vcluster="short")).message
    world.must(cmd.UpdateAllocation(number=number, walltime_s=60, revision=Revision(vcluster="short")))
    assert (world[number].vcluster, world[number].walltime_s) == ("short", 60)


def test_what_no_node_has_is_refused() -> None:
    world = World(nodes=2)
    number = world.submit()
    assert world.refused(revise(number, nodes=3)).code == "infeasible"


def test_running_work_keeps_what_it_has() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    assert "only pending" in world.refused(revise(number, nodes=2)).message


def test_a_dependency_is_added_and_taken_away() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    world.must(revise(second, depends_on=after(first)))
    assert world[second].waits_for == after(first)
    world.must(revise(second, depends_on=()))
    assert (world[second].waits_for, world[second].depends_on) == ((), ())
    world.must(cmd.CancelAllocation(number=first))
    assert world[second].state is AllocationState.PENDING


def test_a_dependency_that_failed_before_ends_the_work() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    world.must(cmd.CancelAllocation(number=first))
    world.must(revise(second, depends_on=after(first)))
    assert (world[second].state, world[second].cause) == (AllocationState.CANCELLED, Cause.DEPENDENCY)


@pytest.mark.parametrize("through", [0, 1])
def test_nothing_comes_to_wait_for_itself(through: int) -> None:
    world = World()
    first = world.submit()
    second = world.submit(depends_on=after(first))
    third = world.submit(depends_on=after(second))
    target = (first, third)[through]
    assert "would wait for itself" in world.refused(revise(first, depends_on=after(target))).message


def test_a_group_does_not_wait_for_its_own_task_nor_a_task_for_its_group() -> None:
    world = World()
    group = world.submit(tasks=((0, 3, 1),))
    assert "itself" in world.refused(revise(group, depends_on=after(group + 2))).message
    assert "itself" in world.refused(revise(group + 2, depends_on=after(group))).message


def test_a_group_changes_for_the_tasks_that_wait() -> None:
    world = World(nodes=4)
    group = world.submit(tasks=((0, 3, 1),))
    world.place(group + 1, "n1")
    world.must(revise(group, nodes=2))
    assert world[group + 1].request.nodes == 1
    world.place(group + 2, "n2", "n3")
    assert world[group + 2].request.nodes == 2


def test_a_group_that_waits_for_another_starts_when_that_is_taken_away() -> None:
    world = World()
    first, group = world.submit(), world.submit(tasks=((0, 3, 1),))
    world.must(revise(group, depends_on=after(first)))
    assert world.state.groups[group].startable == ()
    world.must(revise(group, depends_on=()))
    assert world.state.groups[group].startable == ((0, 4),)


def test_what_a_slurm_command_asked_for_reads_as_changed() -> None:
    world = World()
    number = world.submit(asked=Asked(comment="old"))
    world.must(revise(number, asked=Asked(comment="new")))
    assert world[number].asked == Asked(comment="new")


def test_older_servers_are_not_sent_a_revision() -> None:
    world = World(level=OLDEST)
    number = world.submit()
    assert "needs level 2" in world.refused(revise(number, nodes=1)).message


def test_a_group_without_waiting_tasks_keeps_what_it_has() -> None:
    world = World(nodes=2)
    group = world.submit(tasks=((0, 1, 1),))
    world.place(group + 1, "n1")
    world.place(group + 2, "n2")
    assert "no task of" in world.refused(revise(group, nodes=1)).message


def test_sensitive_work_is_neither_changed_nor_made() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="secret", scheduler=SENSITIVE), create=True))
    number = world.submit()
    assert "sensitive" in world.refused(revise(number, vcluster="secret")).message


def test_a_dag_says_what_its_members_depend_on_and_may_be_waited_for() -> None:
    world = World()
    submission = world.submission()
    members = (cmd.DagMember(ref="a", submission=submission),)
    outcome = world.do(cmd.SubmitDag(name="flow", user="ada", tenant="physics", members=members))
    assert isinstance(outcome, Accepted), outcome
    dag = world.state.dependencies.dags[outcome.number]
    other, member = world.submit(), dag.members[0]
    assert "belongs to a DAG" in world.refused(revise(member, depends_on=after(other))).message
    whole = ((Dependency(number=outcome.number, is_dag=True),),)
    world.must(revise(other, depends_on=whole))
    assert world[other].waits_for == whole


def test_what_two_ways_lead_to_is_looked_at_once() -> None:
    world = World()
    first = world.submit()
    left, right = world.submit(depends_on=after(first)), world.submit(depends_on=after(first))
    last = world.submit()
    world.must(revise(last, depends_on=after(left, right)))
    assert world[last].waits_for == after(left, right)


def test_an_unknown_dependency_is_refused() -> None:
    world = World()
    number = world.submit()
    assert world.refused(revise(number, depends_on=after(number + 7))).code in ("invalid", "not_found")


def test_a_group_does_not_wait_for_what_waits_for_one_of_its_tasks() -> None:
    world = World()
    group = world.submit(tasks=((0, 3, 1),))
    behind = world.submit(depends_on=after(group + 2))
    assert "itself" in world.refused(revise(group, depends_on=after(behind))).message


def test_what_the_group_of_a_task_waits_for_counts_for_the_task() -> None:
    world = World()
    first = world.submit()
    group = world.submit(tasks=((0, 3, 1),), depends_on=after(first))
    assert "itself" in world.refused(revise(first, depends_on=after(group + 2))).message
