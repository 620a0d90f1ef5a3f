"""Who leads by which clock."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lattice.quorum.leadership import clock_guard
from lattice.quorum.leadership.clock_guard import ClockGuard
from lattice.quorum.log_clock import LogClock
from lattice.quorum.peers.clock_skew import SkewWatch

HOUR_S = 3600.0


class World:
    """Three servers; the first one's clocks are in our hands."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.up_s = 100.0
        self.others_ahead_s: dict[str, float] = {"s2": 0.0, "s3": 0.0}
        self.skew = SkewWatch()
        self.clock = LogClock(self, 60.0, self.monotonic_s)
        self.guard = ClockGuard(self.clock, self.skew, self.measure, 60.0)

    def now_ms(self) -> int:
        return int((self.up_s + self.ahead_s) * 1000) + 10**9

    def monotonic_s(self) -> float:
        return self.up_s

    async def measure(self) -> None:
        self.skew.keep_only(self.others_ahead_s)
        for name, ahead_s in self.others_ahead_s.items():
            theirs_ms = int((self.up_s + ahead_s) * 1000) + 10**9
            self.skew.note(name, theirs_ms, self.now_ms(), 0.0)


def play(scenario: Callable[[World], Coroutine[Any, Any, None]], ahead_s: float = 0.0) -> None:
    async def within() -> None:
        world = World()
        world.ahead_s = ahead_s
        world.clock.accept()
        measuring = asyncio.create_task(world.guard.run())
        try:
            await asyncio.wait_for(scenario(world), 20)
        finally:
            measuring.cancel()

    asyncio.run(within())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_guard, "LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr(clock_guard, "MEASURE_EVERY_S", 0.001)


def test_a_leader_whose_clock_jumps_gives_way_at_once_until_it_is_right_again() -> None:
    async def scenario(world: World) -> None:
        await world.guard.until_fit()
        world.ahead_s = HOUR_S
        world.clock.now_ms()
        assert "jumped ahead by 3600.0 s" in await world.guard.until_unfit()
        again = asyncio.create_task(world.guard.until_fit())
        await asyncio.sleep(0.02)
        assert not again.done()
        assert "ahead of the other servers'" in world.guard.problem
        world.ahead_s = 0.0
        await again

    play(scenario)


def test_a_server_that_starts_with_a_wrong_clock_does_not_campaign() -> None:
    async def scenario(world: World) -> None:
        fit = asyncio.create_task(world.guard.until_fit())
        await world.guard.until_unfit()
        assert not fit.done()
        fit.cancel()

    play(scenario, ahead_s=HOUR_S)


def test_a_clock_that_was_put_right_is_followed_when_the_others_agree() -> None:
    async def scenario(world: World) -> None:
        await world.guard.until_fit()
        world.others_ahead_s = {"s2": HOUR_S, "s3": HOUR_S}
        world.ahead_s = HOUR_S
        world.clock.now_ms()
        await world.guard.until_fit()
        assert world.clock.now_ms() == world.now_ms()

    play(scenario)


def test_alone_it_leads_on_in_the_time_of_the_log() -> None:
    async def scenario(world: World) -> None:
        world.others_ahead_s = {}
        await world.guard.until_fit()
        before = world.clock.now_ms()
        world.ahead_s = HOUR_S
        world.clock.now_ms()
        await world.guard.until_fit()
        world.up_s += 1
        assert world.clock.now_ms() == before + 1000

    play(scenario)
