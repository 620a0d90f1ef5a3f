"""The leader's registry of steps: room, ends, lost nodes, repeated requests, the next leader."""

import asyncio
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from lattice.control.steps.plan import decode_plan
from lattice.control.steps.registry import ADOPT_WITHIN_S, NODES_WITHIN_S, UNHEARD, StepRegistry, StepSettings
from lattice.control.steps.wireup import WireUp
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.core.machine.commands import CancelAllocation, DegradeNode, DownNode, RaiseLevel, SetSetting
from lattice.core.model.work.layout import TaskRequest
from lattice.core.model.work.usage import Usage
from lattice.ports.nodes.agents import EndCause, KnownStep, StepKey, StepReport, TaskEnd
from lattice.ports.nodes.steps import (
    AckOrder,
    EndOrder,
    InputPiece,
    LaunchOrder,
    LaunchRequest,
    SignalOrder,
    StepRefused,
    TerminalOrder,
)
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World


class Book:
    """A running allocation on two nodes of 4 CPUs, and the registry."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cleared: list[str] = []
        self.features: tuple[str, ...] = ()  # of its nodes
        self.settings = StepSettings(grace_s=7)
        self.registry = self.make()
        self.number = 0
        self._launches = count(1)

    def make(self) -> StepRegistry:
        world = self.world
        return StepRegistry(
            world.replica,
            world.links,
            world.clock,
            self.settings,
            lambda _: "token",
            self.cleared.append,
            WireUp(lambda launch_id: launch_id.encode().ljust(32, b"-"), lambda node: f"{node}.example:7000"),
        )

    async def begin(self) -> None:
        await self.world.prepare("n1", "n2", hardware=replace(HARDWARE, features=self.features))
        self.number = await self.world.running("n1", "n2")

    async def launch(
        self, tasks: int = 2, launch_id: str = "", task_request: TaskRequest | None = None, **more: object
    ) -> int:
        allocation = self.world.replica.state.allocations[self.number]
        task_request = task_request or TaskRequest(tasks=tasks)
        made = launch_id or f"launch-{next(self._launches)}"
        request = LaunchRequest(launch_id=made, argv=("work",), task_request=task_request, **more)  # type: ignore[arg-type]
        return (await self.registry.launch(allocation, request)).step

    async def feed(self, step: int, data: bytes, task: int | None = None) -> int | None:
        return await self.registry.feed(self.number, step, InputPiece(offset=0, data=data, eof=True, task=task))

    def orders(self) -> list[tuple[str, object]]:
        return list(self.world.links.step_orders)

    def sent(self, kind: type) -> list[str]:
        return [node for node, order in self.world.links.step_orders if isinstance(order, kind)]

    def launch_id(self, step: int) -> str:
        view = self.registry.find(self.number, step)
        assert view is not None
        return view.launch_id

    def report(self, node: str, step: int, *ends: TaskEnd, over: bool = True) -> None:
        run = self.world.replica.state.allocations[self.number].run
        self.registry.report(
            node,
            StepReport(
                key=StepKey(self.number, run, step),
                launch_id=self.launch_id(step),
                ended=over,
                tasks=ends,
                cpu_s=1.5,
                peak_memory_mb=10,
                usage=Usage(written_bytes=7, peak_pids=2),
                cause=EndCause.OOM if any(end.cause is EndCause.OOM for end in ends) else None,
            ),
        )

    def records(self) -> list[tuple[int, int, int]]:
        steps = self.world.replica.state.allocations[self.number].steps
        return [(record.step, record.exit_code, record.lost) for record in steps]


@scenario
async def test_a_step_is_ordered_from_its_nodes_recorded_at_its_end_and_then_acknowledged() -> None:
    registry = Book(World())
    await registry.world.do(RaiseLevel(level=2))
    await registry.begin()
    step = await registry.launch(tasks=4)
    assert sorted(registry.sent(LaunchOrder)) == ["n1", "n2"]
    registry.report("n1", step, TaskEnd(rank=0), TaskEnd(rank=1))
    assert not registry.registry.find(registry.number, step).has_ended  # type: ignore[union-attr]
    registry.report("n2", step, TaskEnd(rank=2), TaskEnd(rank=3))
    assert registry.registry.find(registry.number, step).has_ended  # type: ignore[union-attr]
    assert registry.sent(AckOrder) == []
    await registry.registry.record()
    assert registry.records() == [(0, 0, 0)]
    assert sorted(registry.sent(AckOrder)) == ["n1", "n2"]
    assert registry.registry.live(registry.number) == ()
    [record] = registry.world.replica.state.allocations[registry.number].steps
    assert (record.cpu_s, record.peak_memory_mb, record.codes, record.tasks) == (3.0, 10, ((0, 4),), 4)
    assert record.usage == Usage(written_bytes=14, peak_pids=2)
    assert not record.usage.is_oom


@scenario
async def test_a_task_that_ran_out_of_memory_says_why_although_the_others_were_ended_for_it() -> None:
    registry = Book(World())
    await registry.world.do(RaiseLevel(level=2))
    await registry.begin()
    step = await registry.launch(tasks=4)
    why = "limit 64 MB, peak 64 MB, hog (pid 7) of rank 1"
    registry.report("n1", step, TaskEnd(rank=1, signal=9, cause=EndCause.OOM, message=why), over=False)
    registry.report("n1", step, TaskEnd(rank=0, signal=9), TaskEnd(rank=1, signal=9, cause=EndCause.OOM, message=why))
    registry.report("n2", step, TaskEnd(rank=2, signal=15), TaskEnd(rank=3, signal=15))
    await registry.registry.record()
    [record] = registry.world.replica.state.allocations[registry.number].steps
    assert (record.exit_code, record.usage.is_oom) == (137, True)
    assert record.message == f"task 1 on n1: out of memory ({why})"


@scenario
async def test_the_first_failure_ends_the_other_nodes_and_its_code_counts() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2)
    registry.report("n1", step, TaskEnd(rank=0, exit_code=3))
    assert registry.sent(EndOrder) == ["n2"]
    registry.report("n2", step, TaskEnd(rank=1, signal=15))
    view = registry.registry.find(registry.number, step)
    assert view is not None
    assert (view.exit_code, view.failures) == (3, ("task 0 on n1: exited with code 3",))


@scenario
async def test_a_failure_is_left_alone_when_that_was_asked_for() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2, no_kill=True)
    registry.report("n1", step, TaskEnd(rank=0, exit_code=3))
    assert registry.sent(EndOrder) == []


@scenario
async def test_a_repeated_request_gives_the_same_step_also_after_its_record() -> None:
    registry = Book(World())
    await registry.begin()
    first = await registry.launch(launch_id="same")
    assert await registry.launch(launch_id="same") == first
    for node, rank in (("n1", 0), ("n2", 1)):
        registry.report(node, first, TaskEnd(rank=rank))
    await registry.registry.record()
    assert await registry.launch(launch_id="same") == first
    assert len(registry.sent(LaunchOrder)) == 2
    assert await registry.launch(launch_id="another") == first + 1


@scenario
async def test_steps_wait_for_cpus_in_order_and_overlapping_ones_do_not() -> None:
    registry = Book(World())
    await registry.begin()
    first = await registry.launch(tasks=8)
    waiting = await registry.launch(tasks=2)
    behind = await registry.launch(tasks=1)
    assert [view.layout is None for view in registry.registry.live(registry.number)] == [False, True, True]
    await registry.launch(tasks=1, overlap=True)
    with pytest.raises(StepRefused, match="have its CPUs"):
        await registry.launch(tasks=1, immediate=True)
    for node in ("n1", "n2"):
        registry.report(node, first)
    assert all(registry.registry.find(registry.number, step).layout for step in (waiting, behind))  # type: ignore[union-attr]


@scenario
async def test_a_waiting_step_that_is_given_up_is_over() -> None:
    registry = Book(World())
    await registry.begin()
    await registry.launch(tasks=8)
    waiting = await registry.launch(tasks=8)
    registry.registry.end(registry.number, waiting, "ended by its user")
    view = registry.registry.find(registry.number, waiting)
    assert view is not None
    assert (view.has_ended, view.exit_code) == (True, 143)


@scenario
async def test_a_step_on_all_nodes_waits_for_the_node_that_another_has() -> None:
    registry = Book(World())
    await registry.begin()
    first = await registry.launch(task_request=TaskRequest(node_list=("n1",), tasks=4))
    everywhere = await registry.launch(task_request=TaskRequest())
    view = registry.registry.find(registry.number, everywhere)
    assert view is not None
    assert view.layout is None
    registry.report("n1", first, *(TaskEnd(rank=rank) for rank in range(4)))
    view = registry.registry.find(registry.number, everywhere)
    assert view is not None
    assert view.layout is not None
    assert view.layout.nodes == ("n1", "n2")


@scenario
async def test_more_than_fits_is_refused() -> None:
    registry = Book(World())
    await registry.begin()
    with pytest.raises(StepRefused, match="more tasks than fit"):
        await registry.launch(tasks=1000)


@scenario
async def test_the_ranks_of_a_lost_node_are_lost_and_the_others_are_ended() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=4)
    await registry.world.do(DegradeNode(node="n2"))
    await registry.world.do(DownNode(node="n2"))
    assert "n1" in registry.sent(EndOrder)
    registry.report("n1", step, TaskEnd(rank=0, signal=15), TaskEnd(rank=1, signal=15))
    await registry.registry.record()
    assert registry.records() == [(0, 125, 2)]


@scenario
async def test_cancel_ends_the_steps_and_nothing_is_started_where_they_linger() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2)
    await registry.world.do(CancelAllocation(number=registry.number))
    ends = [(node, order) for node, order in registry.orders() if isinstance(order, EndOrder)]
    assert [(node, order.grace_s) for node, order in ends] == [("n1", 7), ("n2", 7)]
    await registry.world.ended(registry.number, "n1")
    assert registry.registry.lingering("n2")
    assert registry.registry.held_by("n2") == ()
    registry.report("n2", step, TaskEnd(rank=1, signal=9))
    assert not registry.registry.lingering("n2")
    assert "n2" in registry.cleared


@scenario
async def test_an_order_that_was_lost_on_the_way_is_sent_again() -> None:
    registry = Book(World())
    await registry.begin()
    await registry.launch(tasks=2)
    registry.registry.registered("n2", ())
    registry.registry.node_opened("n2")
    assert sorted(registry.sent(LaunchOrder)) == ["n1", "n2", "n2"]


@scenario
async def test_the_next_leader_takes_over_what_the_nodes_tell() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2, launch_id="mine")
    order = next(order for _, order in registry.orders() if isinstance(order, LaunchOrder))
    run = registry.world.replica.state.allocations[registry.number].run
    known = KnownStep(key=StepKey(registry.number, run, step), launch_id="mine", plan=order.plan)
    registry.registry = registry.make()
    registry.registry.registered("n1", (known,))
    view = registry.registry.find(registry.number, step)
    assert view is not None
    assert view.layout is not None
    assert await registry.launch(launch_id="other") == step + 1
    registry.registry.registered("n2", (known,))
    for node, rank in (("n1", 0), ("n2", 1)):
        registry.report(node, step, TaskEnd(rank=rank))
    await registry.registry.record()
    assert registry.records() == [(0, 0, 0)]


@scenario
async def test_a_node_that_never_got_its_part_gets_it_from_the_repeated_request() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2, launch_id="mine")
    order = next(order for _, order in registry.orders() if isinstance(order, LaunchOrder))
    run = registry.world.replica.state.allocations[registry.number].run
    known = KnownStep(key=StepKey(registry.number, run, step), launch_id="mine", plan=order.plan)
    registry.registry = registry.make()
    registry.registry.registered("n1", (known,))
    registry.registry.registered("n2", ())
    registry.world.links.step_orders.clear()
    assert await registry.launch(tasks=2, launch_id="mine") == step
    assert registry.sent(LaunchOrder) == ["n2"]


@scenario
async def test_a_part_that_nobody_has_is_given_up_after_a_while() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=2, launch_id="mine")
    order = next(order for _, order in registry.orders() if isinstance(order, LaunchOrder))
    run = registry.world.replica.state.allocations[registry.number].run
    registry.registry = registry.make()
    registry.registry.registered(
        "n1", (KnownStep(key=StepKey(registry.number, run, step), launch_id="mine", plan=order.plan),)
    )
    loop = asyncio.create_task(registry.registry.run())
    registry.world.clock.pass_s(ADOPT_WITHIN_S + 1)
    registry.registry.registered("n3", ())
    async with asyncio.timeout(5):
        while not registry.sent(EndOrder):
            await asyncio.sleep(0.01)
            registry.registry.node_opened("n2")
    loop.cancel()
    view = registry.registry.find(registry.number, step)
    assert view is not None
    assert view.lost == 1


@scenario
async def test_signals_and_input_go_to_the_nodes_that_need_them() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=4, stdin="3")
    registry.registry.signal(registry.number, step, 10)
    assert registry.sent(SignalOrder) == ["n1", "n2"]
    assert await registry.feed(step, b"abc") == 3
    assert registry.world.links.fed == [("n2", 0, b"abc", True)]
    with pytest.raises(StepRefused, match="is not running"):
        registry.registry.signal(registry.number, 99, 10)


@scenario
async def test_input_for_one_task_goes_to_its_node_and_is_refused_where_it_takes_none() -> None:
    registry = Book(World())
    await registry.begin()
    step = await registry.launch(tasks=4, stdin="all")
    assert await registry.feed(step, b"ab") == 2
    assert await registry.feed(step, b"abc", task=0) == 3
    assert await registry.feed(step, b"abcd", task=3) == 4
    assert [each[0] for each in registry.world.links.fed] == ["n1", "n2", "n1", "n2"]
    fed_alone = await registry.launch(tasks=2, stdin="1")
    for wrong, wanted in ((step, 4), (fed_alone, 0)):
        with pytest.raises(StepRefused, match=f"task {wanted} takes no input"):
            await registry.feed(wrong, b"a", task=wanted)


@scenario
async def test_how_many_terminals_a_user_has_is_said_by_the_cluster_or_else_by_the_server() -> None:
    registry = Book(World())
    registry.settings = StepSettings(terminals=2)
    registry.registry = registry.make()
    await registry.begin()
    for place in range(2):
        await registry.launch(launch_id=f"terminal-{place}", **terminal_on("n1"))
    with pytest.raises(StepRefused, match="you have 2 terminals already") as refused:
        await registry.launch(launch_id="terminal-2", **terminal_on("n1"))
    assert refused.value.limit == "2 terminals of one user"
    await registry.world.do(SetSetting(key="rate_limits.attach_max_concurrent", value="3"))
    await registry.launch(launch_id="terminal-2", **terminal_on("n1"))
    with pytest.raises(StepRefused, match="you have 3 terminals already"):
        await registry.launch(launch_id="terminal-3", **terminal_on("n1"))


@scenario
async def test_nobody_takes_input_of_a_step_that_waits_or_is_on_its_way() -> None:
    registry = Book(World())
    await registry.begin()
    first = await registry.launch(tasks=8)
    waiting = await registry.launch(tasks=8)
    assert await registry.feed(waiting, b"") is None
    order = next(order for _, order in registry.orders() if isinstance(order, LaunchOrder))
    run = registry.world.replica.state.allocations[registry.number].run
    known = KnownStep(key=StepKey(registry.number, run, first), launch_id=registry.launch_id(first), plan=order.plan)
    registry.registry = registry.make()
    registry.registry.registered("n2", (known,))
    assert await registry.feed(first, b"") is None
    registry.registry.registered("n1", (known,))
    assert await registry.feed(first, b"") == 0
    assert registry.world.links.fed == [("n1", 0, b"", True)]


def test_a_plan_of_another_kind_is_passed_over() -> None:
    assert decode_plan(b"nonsense") is None


@scenario
async def test_work_is_not_started_on_a_node_before_what_lingers_there_has_gone() -> None:
    world = World()
    await world.prepare("n1", "n2")
    clear: set[str] = {"n1"}
    dispatch = Dispatch(
        world.replica, world.links, world.clock, DispatchSettings(), lambda _: "token", clear.__contains__
    )
    number = await world.submit(nodes=2)
    await world.place(number, "n1", "n2")
    await dispatch.send_due()
    assert world.links.take() == []
    clear.add("n2")
    dispatch.node_cleared("n2")
    await dispatch.send_due()
    assert [node for node, _ in world.links.take()] == ["n1"]


def terminal_on(node: str) -> dict[str, Any]:
    order = TerminalOrder(keep_s=60.0, ends_run=False)
    request = TaskRequest(tasks=1, node_list=(node,), overcommit=True)
    return {"task_request": request, "terminal": order, "pty": True, "overlap": True}


@scenario
async def test_a_terminal_opens_although_another_node_is_away() -> None:
    registry = Book(World())
    await registry.begin()
    registry.registry.registered("n1", ())
    registry.registry.registered("n2", ())
    registry.world.links.lose("n2")
    assert await registry.launch(**terminal_on("n1")) == 0
    for wanted in (terminal_on("n2"), {}):
        launching = asyncio.create_task(registry.launch(**wanted))
        await until_late(registry, launching)
        with pytest.raises(StepRefused, match=r"node n2 of .* is not connected"):
            await launching


@scenario
async def test_numbers_are_not_given_twice_while_a_node_has_not_said_what_it_has() -> None:
    registry = Book(World())
    await registry.begin()
    registry.registry.registered("n1", ())
    registry.world.links.lose("n2")
    launching = asyncio.create_task(registry.launch(**terminal_on("n1")))
    await until_late(registry, launching)
    assert await launching == UNHEARD


async def until_late(registry: Book, launching: "asyncio.Task[int]") -> None:
    await asyncio.sleep(0)  # it begins to wait
    registry.world.clock.pass_s(NODES_WITHIN_S + 1)
    await asyncio.wait((launching,), timeout=10)
