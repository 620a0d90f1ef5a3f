"""A loop survives what goes wrong in one turn and ends when the replica does."""

import asyncio

import pytest

from lattice.control import loop
from lattice.control.loop import Alarm, keep_turning
from lattice.ports.quorum.log import LogFull
from lattice.ports.quorum.replica import ReplicaStopped
from tests.unit.control.world import scenario


@scenario
async def test_a_loop_goes_on_after_failures_and_ends_with_the_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "PAUSE_AFTER_FAILURE_S", 0.0)
    ends: list[Exception | None] = [None, LogFull("no room"), KeyError("bug"), None, ReplicaStopped()]
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        failure = ends[turns - 1]
        if failure is not None:
            raise failure

    before = loop.failures["test"]
    await keep_turning("test", turn)
    assert turns == 5
    assert loop.failures["test"] - before == 2


@scenario
async def test_a_cancelled_loop_ends_at_once() -> None:
    task = asyncio.create_task(keep_turning("test", lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@scenario
async def test_an_alarm_that_rang_before_is_not_missed() -> None:
    alarm = Alarm()
    alarm.ring()
    await asyncio.wait_for(alarm.wait(None), 1)
    waiting = asyncio.create_task(alarm.wait(None))
    await asyncio.sleep(0)
    assert not waiting.done()
    alarm.ring()
    await asyncio.wait_for(waiting, 1)


@scenario
async def test_an_alarm_does_not_wait_beyond_its_time() -> None:
    await asyncio.wait_for(Alarm().wait(0.001), 1)
    await asyncio.wait_for(Alarm().wait(-1.0), 1)


@scenario
async def test_a_cancel_at_the_very_moment_of_the_alarm_is_not_lost() -> None:
    alarm = Alarm()
    task = asyncio.create_task(keep_turning("test", lambda: alarm.wait(60)))
    await asyncio.sleep(0)
    alarm.ring()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
