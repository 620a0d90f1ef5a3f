"""Work that nobody uses: what counts as use, and when it is cancelled."""

from msgspec.structs import replace

from lattice.control.work.idle import IdleEnds
from lattice.core.machine.commands import CancelAllocation, RaiseLevel
from lattice.core.model.work.allocations import AllocationState
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.measures import GroupUse
from lattice.ports.nodes.steps import StepView
from lattice.testing import scenario
from tests.unit.control.world import World

IDLE_S = 600


class Desk:
    """A running allocation that ends when it is idle for ten minutes; `cpu_s` is what its node has measured."""

    def __init__(self) -> None:
        self.world = World()
        self.steps: list[StepView] = []
        self.cpu_s = 1.0
        self.pids = 2
        self.number = 0
        self.reached: set[RunKey] = set()

    async def begin(self) -> None:
        await self.world.do(RaiseLevel(level=2))
        await self.world.prepare("n1", "n2")
        self.number = await self.world.submit(nodes=1, idle_end_s=IDLE_S)
        await self.world.place(self.number, "n1")
        await self.world.started(self.number, "n1")
        self.world.links.measure = self.measure  # type: ignore[method-assign] # only here does it matter
        self.idle = IdleEnds(
            self.world.replica, self.world.clock, self.world.links, lambda _: self.steps, lambda: self.reached
        )

    async def measure(self, node: str, key: RunKey | None = None) -> tuple[GroupUse, ...]:
        assert key is not None
        return (GroupUse(key=key, cpu_s=self.cpu_s, pids=self.pids),)

    async def after(self, seconds: float) -> AllocationState:
        self.world.clock.pass_s(seconds)
        await self.idle.look()
        return self.world.replica.state.allocations[self.number].state

    def step(self, **fields: object) -> StepView:
        started_at = self.world.clock.now_ms()
        made = StepView(
            number=self.number, run=1, step=0, launch_id="x", name="x", layout=None, tasks=1, started_at=started_at
        )
        return replace(made, **fields)


@scenario
async def test_what_is_idle_for_too_long_is_cancelled() -> None:
    desk = Desk()
    await desk.begin()
    assert await desk.after(1) is AllocationState.RUNNING
    began = desk.world.clock.now_ms() - 1000
    assert desk.idle.ends_at(desk.number) == began + IDLE_S * 1000
    assert await desk.after(IDLE_S - 2) is AllocationState.RUNNING
    assert await desk.after(2) is AllocationState.STOPPING
    assert desk.idle.ends_at(desk.number) == 0
    assert desk.world.replica.proposed[-1] == CancelAllocation(number=desk.number)


@scenario
async def test_a_connection_to_a_port_counts_as_use() -> None:
    desk = Desk()
    await desk.begin()
    desk.reached = {RunKey(desk.number, 1)}
    assert await desk.after(2 * IDLE_S) is AllocationState.RUNNING
    desk.reached = {RunKey(desk.number, 2), RunKey(desk.number + 1, 1)}
    assert await desk.after(IDLE_S) is AllocationState.STOPPING


@scenario
async def test_cpu_time_steps_and_input_count_as_use() -> None:
    desk = Desk()
    await desk.begin()
    await desk.after(1)
    for _ in range(4):
        desk.cpu_s += 0.02 * IDLE_S
        assert await desk.after(IDLE_S) is AllocationState.RUNNING
    desk.steps = [desk.step()]
    assert await desk.after(2 * IDLE_S) is AllocationState.RUNNING
    desk.steps = [desk.step(is_terminal=True, fed_at=desk.world.clock.now_ms() + 500_000)]
    assert await desk.after(IDLE_S) is AllocationState.RUNNING
    desk.cpu_s += 0.005 * IDLE_S
    assert await desk.after(IDLE_S) is AllocationState.STOPPING


@scenario
async def test_a_node_that_does_not_say_counts_as_in_use() -> None:
    desk = Desk()
    await desk.begin()
    desk.pids = 0
    assert await desk.after(2 * IDLE_S) is AllocationState.RUNNING
    desk.pids = 2
    desk.world.links.lose("n1")
    del desk.world.links.measure
    assert await desk.after(2 * IDLE_S) is AllocationState.RUNNING


@scenario
async def test_a_new_leader_begins_to_count_when_it_leads() -> None:
    desk = Desk()
    await desk.begin()
    await desk.after(IDLE_S - 1)
    desk.idle.reset()
    assert await desk.after(IDLE_S - 1) is AllocationState.RUNNING
    assert await desk.after(2) is AllocationState.STOPPING


@scenario
async def test_other_work_is_left_alone() -> None:
    desk = Desk()
    await desk.begin()
    other = await desk.world.running("n2")
    assert desk.idle.ends_at(other) == 0
    await desk.after(10 * IDLE_S)
    assert desk.world.replica.state.allocations[other].state is AllocationState.RUNNING
