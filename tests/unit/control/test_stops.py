"""A run that is to end is stopped on its nodes, whatever the reason, and its nodes are free afterwards."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.core.machine.commands import (
    CancelAllocation,
    ConfirmNode,
    DegradeNode,
    DownNode,
    DrainNode,
    EnforceDeadline,
    EvictAllocations,
    ExpireAllocation,
    PauseAllocation,
    RaiseLevel,
    RegisterNode,
    ReportPart,
    RequeueAllocation,
    RollbackRun,
)
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase, StopIntent
from lattice.core.model.work.submissions import submission_of
from lattice.ports.nodes.agents import RunKey, StopOrder
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World

SETTINGS = DispatchSettings(retry_s=2.0, grace_s=30.0, api_url="http://127.0.0.1:1")
DEADLINE_S = 100


async def _run_on_both(world: World) -> int:
    deadline_at = world.clock.now_ms() + DEADLINE_S * 1000
    return await world.running("n1", "n2", per_node=True, walltime_s=60, deadline_at=deadline_at)


async def _cancel(world: World) -> int:
    number = await _run_on_both(world)
    await world.do(CancelAllocation(number=number))
    return number


async def _requeue(world: World) -> int:
    number = await _run_on_both(world)
    await world.do(RequeueAllocation(number=number))
    return number


async def _lose_the_other_node(world: World) -> int:
    number = await _run_on_both(world)
    await world.do(DegradeNode(node="n2"))
    await world.do(DownNode(node="n2"))
    return number


async def _fail_on_the_other_node(world: World) -> int:
    number = await _run_on_both(world)
    await world.ended(number, "n2", exit_code=3)
    return number


async def _use_up_the_walltime(world: World) -> int:
    number = await _run_on_both(world)
    await world.do(ExpireAllocation(number=number, run=1))
    return number


async def _pass_the_deadline(world: World) -> int:
    number = await _run_on_both(world)
    world.clock.pass_s(DEADLINE_S + 1)
    await world.do(EnforceDeadline(number=number))
    return number


async def _drain_the_node(world: World) -> int:
    number = await _run_on_both(world)
    await world.do(DrainNode(node="n1", urgent=True))
    return number


async def _never_start_on_the_other_node(world: World) -> int:
    number = await world.submit(nodes=2, per_node=True)
    await world.place(number, "n1", "n2")
    await world.started(number, "n1")
    await world.do(RollbackRun(number=number, run=1, node="n2"))
    return number


async def _take_it_for_a_higher_class(world: World) -> int:
    await world.do(RaiseLevel(level=2))
    number = await world.running("n1", "n2", per_node=True, walltime_s=36_000)
    world.clock.pass_s(600)
    high = await world.submit(preemption_class=6, walltime_s=36_000)
    shares = (Share(node="n1"),)
    await world.do(EvictAllocations(number=high, run=1, victims=((number, 1),), shares=shares))
    return number


async def _end_on_the_other_node(world: World) -> int:
    await world.do(RaiseLevel(level=2))
    await world.do(RegisterNode(node="n1", hardware=replace(HARDWARE, features=("prologue",))))
    await world.do(ConfirmNode(node="n1"))
    number = await world.submit(nodes=2)
    await world.place(number, "n2", "n1")
    await world.started(number, "n1")
    await world.started(number, "n2")
    await world.ended(number, "n2")
    return number


WAYS: dict[StopIntent, tuple[str, Callable[[World], Awaitable[int]]]] = {
    StopIntent.CANCEL: ("cancelled", _cancel),
    StopIntent.REQUEUE: ("requeued", _requeue),
    StopIntent.NODE_LOST: ("node_lost", _lose_the_other_node),
    StopIntent.PART_FAILED: ("part_failed", _fail_on_the_other_node),
    StopIntent.WALLTIME: ("walltime", _use_up_the_walltime),
    StopIntent.DEADLINE: ("deadline", _pass_the_deadline),
    StopIntent.DRAIN: ("drained", _drain_the_node),
    StopIntent.ROLLBACK: ("rolled_back", _never_start_on_the_other_node),
    StopIntent.PREEMPT: ("preempted", _take_it_for_a_higher_class),
    StopIntent.DONE: ("done", _end_on_the_other_node),
}


@pytest.mark.parametrize("intent", list(StopIntent))
@scenario
async def test_a_run_is_stopped_for_every_reason_to_stop_it(intent: StopIntent) -> None:
    why, begin = WAYS[intent]
    world = World()
    await world.prepare("n1", "n2")
    orders = Dispatch(world.replica, world.links, world.clock, SETTINGS, lambda allocation: "token")
    number = await begin(world)
    assert world.allocation(number).intent is intent
    await orders.send_due()
    submission = submission_of(world.allocation(number))
    stop = StopOrder(key=RunKey(number, 1), grace_s=30.0, why=why, submission=submission)
    assert ("n1", stop) in world.links.take()
    for part in world.allocation(number).parts:
        if part.phase is not PartPhase.ENDED:
            ended = ReportPart(number=number, run=1, node=part.node, seq=9, phase=PartPhase.ENDED, stopped=True)
            await world.do(ended)
    assert not world.allocation(number).is_holding
    assert not world.node("n1").holders()


@scenario
async def test_a_suspended_run_past_its_deadline_ends_and_nobody_waits_behind_it() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = Dispatch(world.replica, world.links, world.clock, SETTINGS, lambda allocation: "token")
    number = await world.running("n1", walltime_s=60, deadline_at=world.clock.now_ms() + DEADLINE_S * 1000)
    await world.do(PauseAllocation(number=number, is_paused=True))
    world.clock.pass_s(DEADLINE_S + 1)
    await world.do(EnforceDeadline(number=number))
    behind = await world.submit()
    await world.place(behind, "n2")
    await orders.send_due()
    assert {node for node, _ in world.links.take()} == {"n1", "n2"}
    await world.do(ReportPart(number=number, run=1, node="n1", seq=9, phase=PartPhase.ENDED, stopped=True))
    ended = world.allocation(number)
    assert (ended.state, ended.cause) == (AllocationState.FAILED, Cause.DEADLINE)
