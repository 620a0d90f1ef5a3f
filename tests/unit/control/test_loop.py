"""A loop survives what goes wrong in one turn and ends when the replica does."""

import asyncio
import logging
import time

import pytest

from lattice.control import loop
from lattice.control.loop import MAX_STREAKS, Alarm, Guard, keep_turning, rest_by_load
from lattice.ports.quorum.log import LogFull
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.testing import scenario


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
async def test_a_loop_that_fails_again_in_the_same_way_says_how_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "PAUSE_AFTER_FAILURE_S", 0.0)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 6:
            raise ReplicaStopped
        if turns != 4:
            raise KeyError("missing")

    failed, repeated = loop.failures["test"], loop.repeats["test"]
    await keep_turning("test", turn)
    assert loop.failures["test"] - failed == 4
    assert loop.repeats["test"] - repeated == 2
    said = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in said] == [
        "test: failed",
        "test: failed 2 times in a row in the same way: KeyError('missing')",
        "test: failed",
    ]


def test_a_log_that_takes_nothing_is_a_warning_at_first(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard("test")
    guard.failed(LogFull("no room"))
    guard.failed(LogFull("no room"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


def test_items_fail_apart_and_a_failure_of_another_kind_is_a_new_one() -> None:
    guard, done = Guard("test"), []
    repeated = loop.repeats["test"]
    guard.attempt("a1", lambda: done.append(1 // 0))
    guard.attempt("a2", lambda: done.append(1 // 0))
    guard.attempt("a1", lambda: done.append([][1]))
    guard.attempt("a3", lambda: done.append(3))
    assert (done, loop.repeats["test"]) == ([3], repeated)
    guard.attempt("a2", lambda: done.append(1 // 0))  # another line: another failure
    for _ in range(2):
        guard.attempt("a3", lambda: done.append(1 // 0))
    assert loop.repeats["test"] == repeated + 1


def test_a_guard_remembers_a_bounded_number_of_items() -> None:
    guard = Guard("test")
    for item in range(MAX_STREAKS + 100):
        guard.attempt(f"a{item}", lambda: [][0])
    assert len(guard) == MAX_STREAKS


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


@scenario
async def test_a_rest_is_as_long_as_the_work_where_nothing_else_runs() -> None:
    # Of many: other programs may keep the machine busy at any moment.
    assert 1 in [await rest_by_load(0.005, 1.0) for _ in range(100)]


@scenario
async def test_a_rest_may_be_longer_than_the_work_on_a_calm_server_too() -> None:
    counts = [await rest_by_load(0.001, 1.0, least=3) for _ in range(20)]
    assert min(counts) == 3
    assert await rest_by_load(0.02, 0.02, least=3) == 1


@scenario
async def test_a_rest_is_repeated_while_others_need_the_time_up_to_its_bounds() -> None:
    async def keep_busy() -> None:
        while True:
            until = time.thread_time() + 0.005
            while time.thread_time() < until:
                pass
            await asyncio.sleep(0)

    others = asyncio.create_task(keep_busy())
    assert await rest_by_load(0.02, 1.0) == 4
    assert await rest_by_load(0.02, 0.04) == 2
    assert await rest_by_load(0.2, 0.02) == 1
    others.cancel()
