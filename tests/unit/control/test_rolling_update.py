"""A rolling update of a hundred nodes, one after another, under a steady stream of work that must be alike: exact at every step."""

from msgspec.structs import replace

from lattice.control.nodes.conformance import Conformance
from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import AllocationState, Request
from lattice.testing import scenario
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.reports import Reports
from tests.unit.control.world import World

NODES = tuple(f"n{number:03d}" for number in range(100))
OLD, NEW = {"bios": "1"}, {"bios": "2"}
WIDTH, RUNS_FOR = 8, 5  # nodes, steps


class Site:
    def __init__(self) -> None:
        self.world = World()
        self.reports = Reports()
        self.observations = Observations()
        self.placed: set[int] = set()
        self.running: list[int] = []
        self.waited: dict[int, int] = {}

    async def begin(self) -> None:
        await self.world.prepare(*NODES)
        for name in NODES:
            self.observations.join(name, self.world.clock.s)
            self.reports.say(name, OLD)
        self.loop = Conformance(self.world.replica, self.world.clock, self.reports, lambda: None)
        self.scheduling = Scheduling(
            self.world.replica,
            self.observations,
            self.world.clock,
            SchedulingSettings(),
            standing=self.loop.standing,
        )
        await self.loop.look()

    async def submit(self) -> int:
        request = replace(Request(nodes=WIDTH), require_conformance=True)
        command = SubmitAllocation(
            name="alike",
            user="ada",
            account="ada",
            tenant="default",
            vcluster="default",
            request=request,
            payload=encode_work(Work(argv=("true",), env={}, cwd="/tmp")),
        )
        return (await self.world.do(command)).number

    async def step(self) -> None:
        """One more allocation, one cycle; what has run for a while ends."""
        self.waited[await self.submit()] = 0
        await self.scheduling.run_cycle()
        for number in [each for each in self.waited if each not in self.placed]:
            if self.world.allocation(number).state is AllocationState.PENDING:
                self.waited[number] += 1
                continue
            self.judge(number)
            self.placed.add(number)
            self.running.append(number)
        while len(self.running) > RUNS_FOR:
            number = self.running.pop(0)
            first = self.world.allocation(number).nodes[0]
            await self.world.started(number, first)
            await self.world.ended(number, first)

    def judge(self, number: int) -> None:
        prints = self.reports.fingerprints()
        nodes = self.world.allocation(number).nodes
        assert len({prints[name] for name in nodes}) == 1, nodes
        good = [name for name in NODES if name not in self.world.state.drift.drifts]
        if len(good) >= (RUNS_FOR + 2) * WIDTH:
            assert not set(nodes) & set(self.world.state.drift.drifts)


@scenario
async def test_nothing_is_mixed_nobody_waits_and_the_baseline_turns_once() -> None:
    site = Site()
    await site.begin()
    turns = [site.loop.majorities()]
    for name in NODES:
        site.reports.say(name, NEW)
        await site.loop.look()
        if site.loop.majorities() != turns[-1]:
            turns.append(site.loop.majorities())
        await site.step()
    assert len(turns) == 2
    assert max(site.waited.values()) == 0
    assert site.world.state.drift.drifts == {}
