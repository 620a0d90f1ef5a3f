"""Random DAGs against a simple oracle: every member ends in the state that the graph and the drawn exit codes say."""

from random import Random

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.dependencies import Condition
from tests.conftest import sized
from tests.unit.core.machine.world import World

SEEDS = range(sized(150, 5_000))
CONDITIONS = (Condition.SUCCESS, Condition.SUCCESS, Condition.FAILURE, Condition.ANY)
Clauses = list[list[tuple[str, Condition]]]


def draw(dice: Random) -> tuple[dict[str, Clauses], dict[str, int]]:
    """Needs by name, each naming only earlier ones, and the code with which each would exit."""
    names = [f"m{place}" for place in range(dice.randrange(1, 12))]
    needs: dict[str, Clauses] = {}
    for place, name in enumerate(names):
        count = dice.randrange(min(place, 3) + 1)
        needs[name] = [
            [(dice.choice(names[:place]), dice.choice(CONDITIONS)) for _ in range(dice.choice((1, 1, 2)))]
            for _ in range(count)
        ]
    return needs, {name: dice.choice((0, 0, 1)) for name in names}


def expected(needs: dict[str, Clauses], codes: dict[str, int]) -> dict[str, str]:
    """In order of the names, which is an order of the graph."""
    ends: dict[str, str] = {}
    for name, clauses in needs.items():
        met = all(any(_holds(ends[other], condition) for other, condition in clause) for clause in clauses)
        ends[name] = ("Failed" if codes[name] else "Completed") if met else "skipped"
    return ends


def _holds(end: str, condition: Condition) -> bool:
    wanted = {Condition.SUCCESS: ("Completed",), Condition.FAILURE: ("Failed",)}
    return end in wanted.get(condition, (end,))


def submit(world: World, dice: Random, needs: dict[str, Clauses]) -> tuple[int, dict[str, int]]:
    members = [
        cmd.DagMember(
            ref=name,
            submission=world.submission(),
            needs=tuple(tuple(cmd.Edge(ref=other, condition=c) for other, c in clause) for clause in clauses),
        )
        for name, clauses in needs.items()
    ]
    dice.shuffle(members)
    outcome = world.do(cmd.SubmitDag(name="d", user="ada", tenant="physics", members=tuple(members)))
    assert isinstance(outcome, Accepted), outcome
    dag = world.state.dependencies.dags[outcome.number]
    return outcome.number, {world[number].dag_ref: number for number in dag.members}


def run_all(world: World, dice: Random, numbers: dict[str, int], codes: dict[str, int]) -> None:
    """Starts and ends what may start, in random order, with a requeue now and then, until nothing is left."""
    names = {number: name for name, number in numbers.items()}
    while True:
        ready = [n for n in names if world[n].state is AllocationState.PENDING and not world[n].waits_for]
        if not ready:
            return
        number = dice.choice(ready)
        world.place(number, "n1")
        world.started(number, "n1")
        if dice.random() < 0.2:
            world.must(cmd.RequeueAllocation(number=number))
            world.ended(number, "n1", stopped=True)
        else:
            world.ended(number, "n1", exit_code=codes[names[number]])


@pytest.mark.parametrize("seed", SEEDS)
def test_every_member_ends_as_the_oracle_says(seed: int) -> None:
    dice = Random(seed)
    world = World(nodes=1)
    needs, codes = draw(dice)
    dag, numbers = submit(world, dice, needs)
    run_all(world, dice, numbers, codes)
    ends = expected(needs, codes)
    seen = {name: world[number] for name, number in numbers.items()}
    assert {name: record.state.value for name, record in seen.items()} == {
        name: "Cancelled" if end == "skipped" else end for name, end in ends.items()
    }
    caught = {
        other
        for clauses in needs.values()
        for clause in clauses
        for other, condition in clause
        if condition in (Condition.FAILURE, Condition.ANY)
    }
    has_failed = any(end == "Failed" and name not in caught for name, end in ends.items())
    assert world.state.dependencies.dags[dag].state == ("Failed" if has_failed else "Completed")
