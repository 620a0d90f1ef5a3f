"""Random dependencies and DAGs for the generator of commands, most of them possible."""

from random import Random

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.state import State
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency, EndedWork, Ending

CONDITIONS = tuple(condition for condition in Condition if condition is not Condition.MUTEX)
REFS = "abcdef"


def draw_clauses(rnd: Random, state: State) -> Clauses:
    numbers = [*state.allocations, *state.groups, *(group.number + 1 for group in state.groups.values())]
    numbers += state.dependencies.dags
    if not numbers or rnd.random() < 0.7:
        return ()
    return tuple(
        tuple(_draw(rnd, state, numbers) for _ in range(rnd.choice((1, 1, 1, 2)))) for _ in range(rnd.choice((1, 1, 2)))
    )


def _draw(rnd: Random, state: State, numbers: list[int]) -> Dependency:
    condition = rnd.choice(CONDITIONS)
    delay_s = rnd.choice((0, 1)) if condition is Condition.AFTER else 0
    number = rnd.choice([*numbers, 999_999])
    is_dag = (number in state.dependencies.dags) != (rnd.random() < 0.02)
    return Dependency(number=number, condition=condition, delay_s=delay_s, is_dag=is_dag)


def _draw_ended(rnd: Random) -> tuple[EndedWork, ...]:
    tasks = rnd.choice(((), ((0, 3, 1),)))
    completed = ((0, 1), (2, 3)) if tasks else ()
    return (EndedWork(number=999_999, ending=rnd.choice(tuple(Ending)), indices=tasks, completed=completed),)


def with_dependencies(rnd: Random, state: State, command: cmd.SubmitAllocation, at: int) -> cmd.SubmitAllocation:
    return replace(
        command,
        depends_on=draw_clauses(rnd, state),
        ended=rnd.choice(((), _draw_ended(rnd))),
        mutex=rnd.choice(("", "", "", "m1")),
        keep_on_invalid_dependency=rnd.random() < 0.1,
        deadline_at=rnd.choice((0, 0, 0, at + 70_000, at + 1_000)),
    )


def draw_dag(rnd: Random, submissions: list[cmd.SubmitAllocation]) -> cmd.SubmitDag:
    members = []
    refs = [*REFS[: len(submissions)]]
    for place, submission in enumerate(submissions):
        # Mostly to those before it, so that there is no cycle.
        known = refs[:place] if rnd.random() < 0.95 else refs
        needs = tuple(
            tuple(
                cmd.Edge(ref=rnd.choice(known), condition=rnd.choice(CONDITIONS)) for _ in range(rnd.choice((1, 1, 2)))
            )
            for _ in range(rnd.randrange(3))
            if known
        )
        members.append(cmd.DagMember(ref=refs[place], submission=submission, needs=needs))
    rnd.shuffle(members)
    return cmd.SubmitDag(name="dag", user="ada", tenant="physics", members=tuple(members))
