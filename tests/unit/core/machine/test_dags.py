"""DAGs: submitted together or not at all, refused with the culprit, ended with one state."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import AllocationState, Cause
from lattice.core.model.work.dags import Dag, DagState
from lattice.core.model.work.dependencies import Condition, Dependency, EndedWork, Ending
from tests.unit.core.machine.world import World

S, F, ANY = Condition.SUCCESS, Condition.FAILURE, Condition.ANY


def member(world: World, ref: str, *needs: tuple[str, Condition] | str, **changes: object) -> cmd.DagMember:
    """Needs all of which must hold; a bare name stands for its success."""
    edges = [(need, S) if isinstance(need, str) else need for need in needs]
    return cmd.DagMember(
        ref=ref,
        submission=world.submission(**changes),
        needs=tuple((cmd.Edge(ref=name, condition=condition),) for name, condition in edges),
    )


def dag(*members: cmd.DagMember) -> cmd.SubmitDag:
    return cmd.SubmitDag(name="flow", user="ada", tenant="physics", members=members)


def submit(world: World, *members: cmd.DagMember) -> tuple[Dag, dict[str, int]]:
    outcome = world.do(dag(*members))
    assert isinstance(outcome, Accepted), outcome
    return record(world.state, outcome.number), {
        (world.state.groups[n].template if n in world.state.groups else world[n]).dag_ref: n
        for n in record(world.state, outcome.number).members
    }


def record(state: State, number: int) -> Dag:
    return state.dependencies.dags[number]


def finish(world: World, number: int, code: int = 0) -> tuple[ev.AnyEvent, ...]:
    world.place(number, "n1")
    return world.ended(number, "n1", seq=1, exit_code=code)


def test_members_are_submitted_in_one_command_and_wait_for_one_another() -> None:
    world = World()
    made, numbers = submit(world, member(world, "b", "a"), member(world, "a"), member(world, "c", "a", ("b", ANY)))
    assert made.state is DagState.RUNNING
    assert made.members == (numbers["b"], numbers["a"], numbers["c"])  # in the order of the submission
    assert numbers["a"] < numbers["b"] < numbers["c"]  # each after what it needs
    assert world[numbers["b"]].waits_for == ((Dependency(number=numbers["a"]),),)
    assert world[numbers["b"]].dag == made.number
    assert not world[numbers["a"]].waits_for
    assert world.submit() == max(numbers.values()) + 1


@pytest.mark.parametrize(
    ("ends", "state", "others"),
    [
        ({"train": 0, "evaluate": 0}, DagState.COMPLETED, {"notify": "Cancelled"}),
        ({"train": 1, "notify": 0}, DagState.COMPLETED, {"evaluate": "Cancelled"}),
        ({"train": 1, "notify": 1}, DagState.FAILED, {"evaluate": "Cancelled"}),
        ({"train": 0, "evaluate": 1, "notify": 0}, DagState.COMPLETED, {}),
    ],
)
def test_a_failure_that_somebody_catches_does_not_fail_the_dag(
    ends: dict[str, int], state: DagState, others: dict[str, str]
) -> None:
    world = World()
    either = (cmd.Edge(ref="train", condition=F), cmd.Edge(ref="evaluate", condition=F))
    made, numbers = submit(
        world,
        member(world, "train"),
        member(world, "evaluate", "train"),
        cmd.DagMember(ref="notify", submission=world.submission(), needs=(either,)),
    )
    for ref, code in ends.items():
        assert record(world.state, made.number).state is DagState.RUNNING
        finish(world, numbers[ref], code)
    assert record(world.state, made.number).state is state
    assert record(world.state, made.number).ended_at == world.at
    assert {ref: world[numbers[ref]].state.value for ref in others} == others


def test_a_failure_that_nobody_catches_fails_the_dag_once_all_has_ended() -> None:
    world = World()
    made, numbers = submit(world, member(world, "a"), member(world, "b", "a"), member(world, "c"))
    events = finish(world, numbers["a"], 1)
    assert not any(isinstance(event, ev.DagEnded) for event in events)
    events = finish(world, numbers["c"])
    assert events[-1] == ev.DagEnded(dag=made.number, state=DagState.FAILED, counts=(1, 1, 1))


def test_a_member_that_somebody_cancels_cancels_the_dag_unless_it_is_caught() -> None:
    for condition, state in ((S, DagState.CANCELLED), (ANY, DagState.COMPLETED)):
        world = World()
        made, numbers = submit(world, member(world, "a"), member(world, "b", ("a", condition)))
        world.must(cmd.CancelAllocation(number=numbers["a"]))
        if condition is ANY:
            finish(world, numbers["b"])
        assert record(world.state, made.number).state is state


def test_cancelling_a_dag_ends_what_has_not_ended_and_releases_nobody() -> None:
    world = World()
    made, numbers = submit(
        world,
        member(world, "done"),
        member(world, "running"),
        member(world, "waiting", ("running", ANY)),
        member(world, "group", ("running", ANY), tasks=((0, 3, 1),)),
    )
    finish(world, numbers["done"])
    world.place(numbers["running"], "n1")
    events = world.must(cmd.CancelDag(number=made.number))
    assert events[0] == ev.DagCancelled(dag=made.number, by="ada")
    assert world[numbers["waiting"]].state is AllocationState.CANCELLED
    assert world.state.groups[numbers["group"]].is_done
    assert record(world.state, made.number).state is DagState.RUNNING
    world.ended(numbers["running"], "n1", seq=1, stopped=True)
    assert record(world.state, made.number).state is DagState.CANCELLED
    assert world.refused(cmd.CancelDag(number=made.number)).message == f"DAG d{made.number} is already Cancelled"
    assert world.refused(cmd.CancelDag(number=99)).code == "not_found"


def test_a_cancelled_dag_whose_last_run_failed_by_itself_is_judged_by_that() -> None:
    world = World()
    made, numbers = submit(world, member(world, "only"))
    finish(world, numbers["only"], 1)
    assert record(world.state, made.number).state is DagState.FAILED


def test_a_group_in_a_dag_is_one_member() -> None:
    world = World()
    made, numbers = submit(
        world,
        member(world, "prepare", tasks=((0, 1, 1),)),
        member(world, "train", ("prepare", Condition.CORRESPONDING), tasks=((0, 2, 1),)),
    )
    group = numbers["train"]
    assert world.state.groups[group].startable == ((2, 3),)
    for task in (numbers["prepare"] + 1, numbers["prepare"] + 2, group + 1, group + 2, group + 3):
        assert record(world.state, made.number).state is DagState.RUNNING
        finish(world, task)
    assert record(world.state, made.number).state is DagState.COMPLETED


def test_a_mutex_inside_a_dag_follows_the_order_of_the_needs() -> None:
    world = World()
    made, numbers = submit(world, member(world, "late", "early", mutex="m"), member(world, "early", mutex="m"))
    finish(world, numbers["early"])
    assert world[numbers["late"]].waits_for == ()
    finish(world, numbers["late"])
    assert record(world.state, made.number).state is DagState.COMPLETED


def test_members_may_depend_on_what_lies_outside() -> None:
    world = World()
    outside = world.submit()
    _, numbers = submit(world, member(world, "a", depends_on=((Dependency(number=outside),),)))
    finish(world, outside, 1)
    assert world[numbers["a"]].state is AllocationState.CANCELLED


def edges(*refs: str) -> tuple[tuple[cmd.Edge, ...], ...]:
    return tuple((cmd.Edge(ref=ref),) for ref in refs)


def test_a_graph_that_cannot_be_is_refused_with_its_culprit() -> None:
    world = World()
    cycle = world.refused(dag(member(world, "a", "c"), member(world, "b", "a"), member(world, "c", "b")))
    assert cycle.message == "the DAG has a cycle: a -> b -> c -> a"
    assert world.refused(dag(member(world, "a", "a"))).message == 'allocation "a" depends on itself'
    twice = world.refused(dag(member(world, "a"), member(world, "a")))
    assert twice.message == 'the DAG has two allocations called "a"'
    typo = world.refused(dag(member(world, "train"), member(world, "b", "trian")))
    assert typo.message == 'allocation "b" depends on "trian", which is not in the DAG'
    assert typo.hint == "Did you mean train?"
    strange = world.refused(dag(*(member(world, f"step-{place}") for place in range(12)), member(world, "z", "q")))
    assert strange.hint.startswith("The DAG has: step-0, ")
    assert strange.hint.endswith(", ....")
    assert world.refused(dag()).message == "the DAG has no allocations"
    mutex = world.refused(dag(member(world, "a"), member(world, "b", ("a", Condition.MUTEX))))
    assert "a mutex is not a dependency" in mutex.message


def test_a_long_cycle_is_shown_in_part() -> None:
    world = World()
    ring = [member(world, f"m{place}", f"m{(place - 1) % 50}") for place in range(50)]
    assert " -> ... -> " in world.refused(dag(*ring)).message


def test_one_member_that_is_refused_refuses_all() -> None:
    world = World()
    refused = world.refused(dag(member(world, "a"), member(world, "b", nodes=50)))
    assert refused.message.startswith('allocation "b": ')
    assert refused.code == "infeasible"
    assert world.state.dependencies.dags == {}


def test_the_limit_of_pending_allocations_counts_all_members() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_pending_per_user=3)))
    submit(world, member(world, "a"), member(world, "b", tasks=((0, 1, 1),)))
    assert world.refused(dag(member(world, "a"))).code == "quota"


def test_the_size_is_limited_by_a_setting() -> None:
    world = World()
    many = [member(world, f"m{place}") for place in range(1001)]
    refused = world.refused(dag(*many))
    assert refused.message == "DAG exceeds maximum size (1001 allocations, limit: 1000)"
    assert refused.hint == "Split the workflow into smaller DAGs or increase the limit via system configuration."
    world.must(cmd.SetSetting(key="scheduling.max_dag_size", value="2000"))
    submit(world, *many)


def test_a_repeat_gives_the_same_dag() -> None:
    world = World()
    command = dag(member(world, "a"))
    first = world.do(command, command_id="x")
    assert isinstance(first, Accepted)
    assert world.do(command, command_id="x") == Accepted(number=first.number, repeated=True)


def test_members_stay_until_their_dag_has_ended_and_leave_before_it() -> None:
    world = World()
    made, numbers = submit(world, member(world, "a"), member(world, "g", "a", tasks=((0, 0, 1),)))
    finish(world, numbers["a"])
    archive = cmd.ArchiveAllocations(numbers=(numbers["a"], made.number))
    assert world.must(archive) == ()
    finish(world, numbers["g"] + 1)
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.dependencies.dags == world.state.dependencies.dags
    assert world.must(cmd.ArchiveAllocations(numbers=(made.number,))) == ()
    world.must(cmd.FoldTasks(numbers=(numbers["g"] + 1,)))
    world.must(cmd.ArchiveAllocations(numbers=(numbers["a"], numbers["g"])))
    world.must(cmd.ArchiveAllocations(numbers=(made.number,)))
    assert world.state.dependencies.dags == {}
    assert world.state.allocations == {}


@pytest.mark.parametrize(
    ("condition", "code", "expected"),
    [(S, 0, "Pending"), (S, 1, "Cancelled"), (F, 1, "Pending"), (ANY, 1, "Pending"), (F, 0, "Cancelled")],
)
def test_a_whole_dag_can_be_waited_for(condition: Condition, code: int, expected: str) -> None:
    world = World()
    made, numbers = submit(world, member(world, "a"), member(world, "b", ("a", ANY)))
    number = world.submit(depends_on=((Dependency(number=made.number, condition=condition, is_dag=True),),))
    finish(world, numbers["a"])
    assert world[number].waits_for
    finish(world, numbers["b"], code)
    assert world[number].state == expected
    if expected == "Cancelled":
        assert world[number].message.startswith(f"d{made.number} was to end with {condition}")
    else:
        assert world[number].waits_for == ()


def test_a_dag_that_was_cancelled_or_left_is_judged_by_its_end() -> None:
    world = World()
    made, _ = submit(world, member(world, "a"))
    needed = {"depends_on": ((Dependency(number=made.number, is_dag=True),),)}
    number = world.submit(**needed)
    world.must(cmd.CancelDag(number=made.number))
    assert world[number].cause is Cause.DEPENDENCY
    gone = (EndedWork(number=900, ending=Ending.COMPLETED),)
    assert not world[world.submit(depends_on=((Dependency(number=900, is_dag=True),),), ended=gone)].waits_for


def test_a_number_is_waited_for_only_as_what_it_is() -> None:
    world = World()
    made, numbers = submit(world, member(world, "a"))
    refused = world.refused(world.submission(depends_on=((Dependency(number=made.number),),)))
    assert refused.message == f"unknown dependency: there is no allocation a{made.number}"
    refused = world.refused(world.submission(depends_on=((Dependency(number=numbers["a"], is_dag=True),),)))
    assert refused.message == f"unknown dependency: there is no DAG d{numbers['a']}"
