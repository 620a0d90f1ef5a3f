"""The loop of deadlines: ends what is due, sleeps until the next is, forgets what has ended."""

from lattice.control.work.deadlines import AT_LEAST_EVERY_S, Deadlines
from lattice.testing import scenario
from tests.unit.control.world import World


@scenario
async def test_what_waits_is_ended_in_time_and_nothing_else() -> None:
    world = World()
    await world.prepare("n1")
    loop = Deadlines(world.replica, world.clock)
    plain = await world.submit()
    now = world.clock.now_ms()
    number = await world.submit(walltime_s=60, deadline_at=now + 100_000)
    assert 35 < await loop.enforce_due() <= 41
    world.clock.pass_s(41)
    assert await loop.enforce_due() == 1.0
    assert world.state.allocations[number].cause == "deadline"
    assert not world.state.allocations[plain].is_terminal
    assert await loop.enforce_due() == AT_LEAST_EVERY_S


@scenario
async def test_a_new_leader_finds_what_has_a_deadline() -> None:
    world = World()
    await world.prepare("n1")
    now = world.clock.now_ms()
    group = await world.submit(tasks=((0, 1, 1),), walltime_s=60, deadline_at=now + 100_000)
    running = await world.running("n1", walltime_s=60, deadline_at=now + 70_000)
    loop = Deadlines(world.replica, world.clock)
    world.clock.pass_s(50)
    await loop.enforce_due()
    assert world.state.groups[group].is_done
    assert not world.state.allocations[running].is_terminal
    world.clock.pass_s(25)
    await loop.enforce_due()
    assert world.state.allocations[running].intent == "deadline"
