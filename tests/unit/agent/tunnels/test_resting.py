"""Full tunnels rest while work starts, little ones never do, and a flood of starts leaves them their share."""

import asyncio

from lattice.agent.tunnels.resting import AFTER_S, CARRYING, FULL_BYTES, LONGEST_S, SLOW_S, Pace, Resting


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_full_streams_rest_from_the_order_until_the_process_is_loaded() -> None:
    async def scenario() -> None:
        clock = Clock()
        resting = Resting(clock)
        pace = Pace(resting, clock)
        made = asyncio.Event()

        async def start() -> None:
            await made.wait()

        starting = asyncio.create_task(resting.during(start()))
        await asyncio.sleep(0)
        assert resting.is_on()
        await asyncio.wait_for(pace.keep(1_000), 5)  # a small request
        sending = asyncio.create_task(pace.keep(FULL_BYTES))
        made.set()
        await starting
        assert resting.is_on()
        assert not sending.done()
        clock.now_s += AFTER_S + 0.001
        assert not resting.is_on()
        await asyncio.wait_for(sending, 5)

    asyncio.run(scenario())


def test_however_much_is_started_streams_have_their_share() -> None:
    async def scenario() -> None:
        clock = Clock()
        resting = Resting(clock)
        rested, steps = 0, 10_000
        for _ in range(steps):
            await resting.during(asyncio.sleep(0))
            clock.now_s += 0.001
            rested += resting.is_on()
        assert rested <= steps * (1 - CARRYING) + LONGEST_S / 0.001
        assert rested > steps / 2

    asyncio.run(scenario())


def test_a_start_that_takes_long_does_not_hold_streams_all_the_time() -> None:
    async def scenario() -> None:
        clock = Clock()
        resting = Resting(clock)
        pulled = asyncio.Event()

        async def start() -> None:
            await pulled.wait()

        starting = asyncio.create_task(resting.during(start()))
        await asyncio.sleep(0)
        clock.now_s += SLOW_S + 0.1
        assert not resting.is_on()
        pulled.set()
        await starting
        assert resting.is_on()

    asyncio.run(scenario())
