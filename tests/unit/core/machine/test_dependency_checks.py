"""The checks of dependencies name each planted fault."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import AllocationState, Cause
from lattice.core.model.work.dags import DagState
from lattice.core.model.work.dependencies import Condition, Dependency
from tests.unit.core.machine.world import World


def sound_state() -> State:
    """1 runs under a mutex, 2 waits for it, 3 is a group that waits; 7 is a DAG of 8; 9 has ended."""
    world = World(nodes=2)
    world.running("n1", mutex="m")
    world.submit(mutex="m")
    world.submit(tasks=((0, 2, 1),), depends_on=((Dependency(number=1),),))
    world.must(
        cmd.SubmitDag(
            name="d", user="ada", tenant="physics", members=(cmd.DagMember(ref="a", submission=world.submission()),)
        )
    )
    world.must(cmd.CancelAllocation(number=world.submit()))
    return world.state


def record(number: int, **changes: object) -> Callable[[State], None]:
    return lambda state: state.put_allocation(replace(state.allocations[number], **changes))


def dag(**changes: object) -> Callable[[State], None]:
    return lambda state: state.dependencies.put_dag(replace(state.dependencies.dags[7], **changes))


def held_twice(state: State) -> None:
    running = state.allocations[1]
    state.put_allocation(replace(running, number=2))


def lost_member(state: State) -> None:
    state.drop_allocation(8)


FAULTS: dict[str, Callable[[State], None]] = {
    "the index of who waits for whom is wrong": lambda state: state.dependencies.dependents.clear(),
    "the index of mutexes is wrong": lambda state: state.dependencies.mutexes.clear(),
    "a1 is Running though it waits for others": record(1, waits_for=((Dependency(number=8),),)),
    "a2 waits for what can never be": record(2, waits_for=((),)),
    "a2 waits for a9, which has ended": record(2, waits_for=((Dependency(number=9, condition=Condition.ANY),),)),
    "a2 waits for a99, which has ended": record(2, waits_for=((Dependency(number=99),),)),
    "a2 takes d8 for something else than it is": record(2, waits_for=((Dependency(number=8, is_dag=True),),)),
    "group a3 does not know which of its tasks are blocked": lambda state: state.put_group(
        replace(state.groups[3], blocked=())
    ),
    "mutex ('physics', 'ada', 'm') is held 2 times": held_twice,
    "d7 is Completed though its members say otherwise": dag(state=DagState.COMPLETED),
    "d7 is Running though its members say otherwise": record(
        8, state=AllocationState.CANCELLED, cause=Cause.CANCELLED, ended_at=5
    ),
    "d7 has lost a member": lost_member,
    "running DAGs are counted wrongly": lambda state: setattr(state.dependencies, "running", 9),
}


def test_a_sound_state_has_no_findings() -> None:
    assert check(sound_state()) == []


@pytest.mark.parametrize("finding", FAULTS)
def test_a_planted_fault_is_found(finding: str) -> None:
    state = sound_state()
    FAULTS[finding](state)
    assert finding in check(state)
