"""Orders follow from the state, reach connected nodes at once, and are repeated until the state shows their effect."""

import asyncio

import pytest
from msgspec.structs import replace

from lattice.control.loop import repeats
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.orders import TOKEN_SLACK_S, token_lifetime_s
from lattice.core.machine.commands import (
    CancelAllocation,
    DegradeNode,
    PauseAllocation,
    PlaceAllocation,
    RecordSteps,
    RecoverNode,
    ReportPart,
    SetSetting,
    SetVcluster,
    UpdateAllocation,
)
from lattice.core.model.site.tenants import Fencing, NodeSharing, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, PartPhase, Request
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.shares import share_of
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.submissions import submission_of
from lattice.ports.nodes.agents import FinishOrder, PauseOrder, RunKey, StartOrder, StopOrder, UpdateOrder
from lattice.ports.quorum.log import LogFull
from lattice.testing import scenario
from tests.unit.control.world import World

SETTINGS = DispatchSettings(retry_s=2.0, grace_s=30.0, api_url="http://127.0.0.1:1")


def stop(world: World, number: int, why: str) -> StopOrder:
    submission = submission_of(world.allocation(number))
    return StopOrder(key=RunKey(number, 1), grace_s=30.0, why=why, submission=submission)


def dispatch(world: World) -> Dispatch:
    return Dispatch(world.replica, world.links, world.clock, SETTINGS, lambda allocation: f"token-{allocation.number}")


@scenario
async def test_a_placement_is_ordered_at_once_with_everything_the_node_needs() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await world.submit(nodes=2, walltime_s=600)
    await world.place(number, "n2", "n1")
    await orders.send_due()
    ((node, order),) = world.links.take()
    assert node == "n2"
    assert order == StartOrder(
        key=RunKey(number, 1),
        allocation_id=f"a{number}",
        name="test",
        user="ada",
        cwd="/tmp",
        nodes=("n2", "n1"),
        tasks=2,
        grace_s=30.0,
        argv=("true",),
        env={"A": "1"},
        submit_dir="/tmp",
        walltime_s=600.0,
        cpus=4,
        token=f"token-{number}",
        api_url="http://127.0.0.1:1",
        node_cpus=(4, 4),  # for mpiexec in the script
        submission=submission_of(world.allocation(number)),
        output_prefix=f"default/-/a{number}/logs/run-1",
        vcluster="default",
    )


@scenario
async def test_work_that_runs_on_every_node_is_ordered_on_every_node() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await world.submit(nodes=2, per_node=True)
    await world.place(number, "n1", "n2")
    await orders.send_due()
    assert sorted(node for node, _ in world.links.take()) == ["n1", "n2"]


@scenario
async def test_a_task_is_told_its_index_and_group() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    group = await world.submit(tasks=((4, 8, 2),))
    await world.place(group + 2, "n1")
    await orders.send_due()
    ((_, order),) = world.links.take()
    assert isinstance(order, StartOrder)
    assert (order.task_index, order.task_group_id, order.argv) == (6, f"a{group}", ("true",))


@scenario
async def test_shares_become_limits_and_strict_fencing_is_passed_on() -> None:
    world = World()
    await world.prepare("n1")
    vcluster = Vcluster(name="default", node_sharing=NodeSharing.SHARED, fencing=Fencing.STRICT)
    await world.do(SetVcluster(vcluster=vcluster))
    number = await world.submit()
    allocation = world.allocation(number)
    share = share_of(allocation.request, world.node("n1"), NodeSharing.SHARED)
    orders = dispatch(world)
    await world.do(PlaceAllocation(number=number, run=1, shares=(share,)))
    await orders.send_due()
    ((_, order),) = world.links.take()
    assert isinstance(order, StartOrder)
    assert (order.cpus, order.memory_mb) == (share.cpus, share.memory_mb)
    assert order.fence


@scenario
async def test_a_start_is_repeated_until_the_node_reports() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    await orders.send_due()
    assert len(world.links.take()) == 1
    world.clock.pass_s(1.9)
    await orders.send_due()
    assert world.links.take() == []
    world.clock.pass_s(0.2)
    await orders.send_due()
    assert len(world.links.take()) == 1
    await world.started(number, "n1")
    world.clock.pass_s(10)
    await orders.send_due()
    assert world.links.take() == []


@scenario
async def test_a_cancelled_run_is_stopped_with_grace_until_it_ended() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.running("n1")
    await orders.send_due()
    world.links.take()
    await world.do(CancelAllocation(number=number))
    await orders.send_due()
    order = stop(world, number, "cancelled")
    assert world.links.take() == [("n1", order)]
    world.clock.pass_s(2.1)
    await orders.send_due()
    assert world.links.take() == [("n1", order)]
    await world.ended(number, "n1")
    world.clock.pass_s(2.1)
    await orders.send_due()
    assert world.links.take() == []


@scenario
async def test_a_cancel_before_the_start_left_sends_only_the_stop() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    await world.do(CancelAllocation(number=number))
    await orders.send_due()
    kinds = {type(order) for _, order in world.links.take()}
    assert kinds == {StopOrder}


@scenario
async def test_only_the_parts_that_still_live_are_stopped_when_one_failed() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await world.running("n1", "n2", per_node=True)
    await orders.send_due()
    world.links.take()
    await world.ended(number, "n1", exit_code=3)
    await orders.send_due()
    assert world.links.take() == [("n2", stop(world, number, "part_failed"))]


@scenario
async def test_orders_for_a_node_that_is_away_wait_for_its_return() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    world.links.open.clear()
    await world.place(number, "n1")
    await orders.send_due()
    world.clock.pass_s(60)
    await orders.send_due()
    assert world.links.take() == []
    world.links.open.add("n1")
    orders.node_opened("n1")
    await orders.send_due()
    assert [type(order) for _, order in world.links.take()] == [StartOrder]


@scenario
async def test_a_node_that_returns_learns_the_present_limits_of_its_runs() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1", walltime_s=600)
    orders = dispatch(world)
    world.links.open.clear()
    await world.do(UpdateAllocation(number=number, walltime_s=1200))
    await orders.send_due()
    world.links.open.add("n1")
    orders.node_opened("n1")
    await orders.send_due()
    assert world.links.take() == [
        ("n1", UpdateOrder(key=RunKey(number, 1), walltime_s=1200.0, token=f"token-{number}"))
    ]


@scenario
async def test_a_new_walltime_reaches_the_node() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    orders = dispatch(world)
    await world.do(UpdateAllocation(number=number, walltime_s=120))
    await orders.send_due()
    assert world.links.take() == [("n1", UpdateOrder(key=RunKey(number, 1), walltime_s=120.0, token=f"token-{number}"))]


@scenario
async def test_an_administrator_may_change_the_grace() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.running("n1")
    await world.do(SetSetting(key="agent.grace_s", value="5"))
    await world.do(CancelAllocation(number=number))
    await orders.send_due()
    stops = [order for _, order in world.links.take() if isinstance(order, StopOrder)]
    assert [stop.grace_s for stop in stops] == [5.0]


@scenario
async def test_work_that_cannot_be_read_fails_instead_of_waiting_forever() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit(payload=b"\xc1damaged")
    await world.place(number, "n1")
    await orders.send_due()
    allocation = world.allocation(number)
    assert allocation.state is AllocationState.FAILED
    assert allocation.cause is Cause.LAUNCH
    assert "cannot be read" in allocation.message


@scenario
async def test_what_cannot_be_read_fails_when_the_log_has_room_again() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit(payload=b"\xc1 nonsense")
    await world.place(number, "n1")
    world.replica.failure = LogFull("no room")
    with pytest.raises(LogFull):
        await orders.send_due()
    assert world.allocation(number).state is AllocationState.STARTING
    world.clock.pass_s(SETTINGS.retry_s)
    await orders.send_due()
    assert world.allocation(number).state is AllocationState.FAILED


@scenario
async def test_an_order_that_fails_is_tried_again_and_holds_up_nobody() -> None:
    world = World()
    await world.prepare("n1", "n2")
    failures = [RuntimeError("no token")]

    def mint(allocation: Allocation) -> str:
        if failures:
            raise failures.pop()
        return "token"

    orders = Dispatch(world.replica, world.links, world.clock, SETTINGS, mint)
    for node in ("n1", "n2"):
        await world.place(await world.submit(), node)
    await orders.send_due()
    assert [node for node, _ in world.links.take()] == ["n2"]
    world.clock.pass_s(SETTINGS.retry_s)
    await orders.send_due()
    assert sorted(node for node, _ in world.links.take()) == ["n1", "n2"]


@scenario
async def test_one_allocation_that_always_fails_stops_the_orders_of_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await world.prepare("n1", "n2")
    broken = await world.running("n1", walltime_s=30 * 86400)
    sound = await world.running("n2", walltime_s=30 * 86400)

    def mint(allocation: Allocation) -> str:
        if allocation.number == broken:
            raise RuntimeError("no token")
        return "token"

    orders = Dispatch(world.replica, world.links, world.clock, SETTINGS, mint)
    before = repeats["dispatch"]
    orders.node_opened("n1")
    orders.node_opened("n2")
    await orders.send_due()
    assert {node for node, _ in world.links.take()} == {"n2"}
    await world.do(UpdateAllocation(number=broken, walltime_s=40 * 86400))
    await world.do(UpdateAllocation(number=sound, walltime_s=40 * 86400))
    await orders.send_due()
    assert {node for node, _ in world.links.take()} == {"n2"}
    world.clock.pass_s(SETTINGS.token_lifetime_s / 3)
    await orders.send_due()
    assert {node for node, _ in world.links.take()} == {"n2"}
    assert repeats["dispatch"] > before
    assert f"dispatch: a{broken}: failed 2 times in a row in the same way: RuntimeError('no token')" in caplog.messages


@scenario
async def test_a_pause_that_cannot_be_sent_does_not_lose_the_events_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    paused = await world.running("n1")
    placed = await world.submit()
    monkeypatch.setattr("lattice.control.work.dispatch.pause_order", lambda allocation: 1 // 0)
    await world.do(PauseAllocation(number=paused, is_paused=True))
    await world.place(placed, "n2")
    await orders.send_due()
    assert [node for node, _ in world.links.take()] == ["n2"]


async def ask_until_rolled_back(world: World, orders: Dispatch, number: int) -> int:
    """How often the start was sent before the run was taken back."""
    sent = 0
    while world.allocation(number).state is AllocationState.STARTING:
        await orders.send_due()
        sent += sum(isinstance(order, StartOrder) for _, order in world.links.take())
        assert sent < 100
        world.clock.pass_s(SETTINGS.retry_s)
    return sent


@scenario
async def test_a_run_that_its_node_never_starts_is_taken_back_and_waits_again() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    assert await ask_until_rolled_back(world, orders, number) == SETTINGS.start_timeout_s / SETTINGS.retry_s + 1
    await orders.send_due()
    assert world.links.take()[0] == ("n1", stop(world, number, "rolled_back"))
    report = ReportPart(number=number, run=1, node="n1", seq=1, phase=PartPhase.ENDED, stopped=True)
    await world.do(report)
    record = world.allocation(number)
    assert (record.state, record.requeue_count) == (AllocationState.PENDING, 0)
    assert record.message == "requeued: node n1 did not start it in time"


@scenario
async def test_a_start_that_gets_on_may_take_as_long_as_it_needs() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    for _ in range(5 * int(SETTINGS.start_timeout_s / SETTINGS.retry_s)):
        await orders.send_due()
        orders.start_progressed(number, 1)
        orders.start_progressed(number, 2)  # another run of it changes nothing
        world.clock.pass_s(SETTINGS.retry_s)
    assert world.allocation(number).state is AllocationState.STARTING
    world.links.take()
    assert await ask_until_rolled_back(world, orders, number) == SETTINGS.start_timeout_s / SETTINGS.retry_s + 1


@scenario
async def test_a_server_that_was_held_up_blames_no_node() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    await orders.send_due()
    world.clock.pass_s(10 * SETTINGS.start_timeout_s)
    await orders.send_due()
    assert world.allocation(number).state is AllocationState.STARTING


@scenario
async def test_a_silent_node_is_left_to_the_node_watch_and_a_new_stream_gets_its_own_time() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.submit()
    await world.place(number, "n1")
    await world.do(DegradeNode(node="n1", reason="silent"))
    for _ in range(40):
        await orders.send_due()
        world.clock.pass_s(SETTINGS.retry_s)
    assert world.allocation(number).state is AllocationState.STARTING
    await world.do(RecoverNode(node="n1"))
    for _ in range(20):
        await orders.send_due()
        world.clock.pass_s(SETTINGS.retry_s)
    orders.node_opened("n1")
    world.links.take()
    assert await ask_until_rolled_back(world, orders, number) > 25


@scenario
async def test_work_that_outlives_its_token_gets_new_ones_in_time() -> None:
    world = World()
    await world.prepare("n1", "n2")
    long = await world.running("n1", walltime_s=30 * 86400)
    await world.running("n2", walltime_s=3600)
    orders = dispatch(world)
    await orders.send_due()
    assert world.links.take() == []
    world.clock.pass_s(SETTINGS.token_lifetime_s / 3)
    await orders.send_due()
    renewed = UpdateOrder(key=RunKey(long, 1), walltime_s=30 * 86400.0, token=f"token-{long}")
    assert world.links.take() == [("n1", renewed)]


def test_a_token_lives_as_long_as_its_run_may_and_a_day_at_the_most() -> None:
    record = Allocation(
        number=1, name="", user="", account="", tenant="", vcluster="", request=Request(), submitted_at=0
    )
    for walltime_s, lifetime_s in ((3600, 3600 + 30 + TOKEN_SLACK_S), (0, 86400), (7 * 86400, 86400)):
        bounded = replace(record, walltime_s=walltime_s)
        assert token_lifetime_s(bounded, most_s=86400.0, grace_s=30.0) == lifetime_s


@scenario
async def test_the_loop_sends_without_being_asked() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    loop = asyncio.create_task(orders.run())
    number = await world.submit()
    await world.place(number, "n1")
    await asyncio.wait_for(world.links.heard.wait(), 5)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert [node for node, _ in world.links.sent] == ["n1"]


@scenario
async def test_a_pause_reaches_all_nodes_and_those_that_come_back() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await world.running("n1", "n2")
    world.links.take()
    await world.do(PauseAllocation(number=number, is_paused=True))
    pause = PauseOrder(key=RunKey(number, 1), paused=True)
    assert [(node, order) for node, order in world.links.take() if isinstance(order, PauseOrder)] == [
        ("n1", pause),
        ("n2", pause),
    ]
    orders.node_opened("n1")
    await orders.send_due()
    assert ("n1", pause) in world.links.take()
    await world.do(PauseAllocation(number=number, is_paused=False))
    assert world.links.take()[-1] == ("n2", replace(pause, paused=False))


def step_record(step: int, code: int) -> StepRecord:
    return StepRecord(
        step=step,
        run=1,
        name="x",
        nodes=("n1",),
        tasks=1,
        started_at=1,
        ended_at=2,
        exit_code=code,
        launch_id=f"l{step}",
    )


@scenario
async def test_what_holds_nodes_for_one_step_ends_with_that_step() -> None:
    world = World()
    await world.prepare("n1")
    orders = dispatch(world)
    number = await world.running("n1", asked=Asked(program="srun"))
    await world.do(RecordSteps(number=number, steps=(step_record(1, 9),)))
    assert not [order for _, order in world.links.take() if isinstance(order, FinishOrder)]
    await world.do(RecordSteps(number=number, steps=(step_record(0, 4),)))
    finish = FinishOrder(key=RunKey(number, 1), exit_code=4)
    assert world.links.take() == [("n1", finish)]
    orders.node_opened("n1")
    await orders.send_due()
    assert ("n1", finish) in world.links.take()
