"""The edge of every loop: a failure in one turn is logged and counted, and the loop continues.

A failure that repeats itself is a defect or a fault that does not pass: it is logged as an error with its count, and counted
apart. A loop that works through a list guards each item of it, so that one that always fails does not stop the others.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol

from lattice.ports.quorum.log import Conflict, LogError, LogFull, LogUnavailable
from lattice.ports.quorum.replica import ReplicaStopped

_log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 0.5
MAX_STREAKS = 1024  # items of one loop whose failures are remembered
_EVERY = 128  # a long streak is logged at 2, 4, 8, ... and every 128 times
_MAX_RESTS = 4
_BUSY_SHARE = 0.5  # of the event loop's time, from which on it counts as busy
_LATE_S = 0.002  # a timer of an idle machine comes so much later than asked for

failures: Counter[str] = Counter()  # turns, and single items of a turn, that failed, by loop
repeats: Counter[str] = Counter()  # those of them that failed in the same way as the time before


class Loop(Protocol):
    """What a leader runs: reads the state, proposes commands, owns no truth; harmless when started in the middle."""

    async def run(self) -> None:
        """Until it is cancelled."""
        ...


class Guard:
    """Reports the failures of one loop, item by item; the empty item is the whole turn."""

    def __init__(self, loop: str) -> None:
        self._loop = loop
        self._streaks: OrderedDict[str, tuple[tuple[str, str, int], int]] = OrderedDict()  # how it failed, how often

    def __len__(self) -> int:
        return len(self._streaks)

    def attempt(self, item: str, work: Callable[[], None]) -> None:
        """Does the work for one item; a failure is reported and stays with the item."""
        try:
            work()
        except ReplicaStopped:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the item
            self.failed(error, item)
        else:
            self.passed(item)

    def item(self, name: str) -> "GuardedItem":
        """Around the work for one item: a failure is reported and stays with the item; execution continues after the block."""
        return GuardedItem(self, name)

    def passed(self, item: str = "") -> None:
        """The item did not fail this time: a later failure is a new one."""
        if self._streaks:
            self._streaks.pop(item, None)

    def failed(self, error: Exception, item: str = "") -> None:
        """Logs and counts the failure; call it where the error is handled."""
        failures[self._loop] += 1
        way = _way(error)
        before, count = self._streaks.pop(item, (way, 0))
        count = count + 1 if before == way else 1
        self._streaks[item] = (way, count)
        if len(self._streaks) > MAX_STREAKS:
            self._streaks.popitem(last=False)
        what = f"{self._loop}: {item}" if item else self._loop
        extra = {"loop": self._loop, "count": count}
        if count > 1:
            repeats[self._loop] += 1
            if count & (count - 1) == 0 or count % _EVERY == 0:
                _log.error("%s: failed %d times in a row in the same way: %r", what, count, error, extra=extra)
        elif isinstance(error, LogFull | LogUnavailable | Conflict):
            _log.warning("%s: the log took nothing: %s", what, error, extra=extra)
        else:
            _log.error("%s: failed", what, exc_info=error, extra=extra)


class GuardedItem:
    """The edge of one item. A log that takes nothing is not the item's own fault, and ends the turn."""

    __slots__ = ("_guard", "_name")

    def __init__(self, guard: Guard, name: str) -> None:
        self._guard = guard
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None:
            self._guard.passed(self._name)
            return False
        if not isinstance(error, Exception) or isinstance(error, ReplicaStopped | LogError):
            return False
        self._guard.failed(error, self._name)
        return True


def _way(error: Exception) -> tuple[str, str, int]:
    """What kind of error, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__qualname__, "", 0
    return type(error).__qualname__, trace.tb_frame.f_code.co_filename, trace.tb_lineno


async def keep_turning(name: str, turn: Callable[[], Awaitable[None]]) -> None:
    """Awaits `turn` again and again until cancelled, or until the replica takes no more commands."""
    guard = Guard(name)
    while True:
        try:
            await turn()
        except ReplicaStopped:
            return
        except Exception as error:  # noqa: BLE001 - the edge of the loop
            guard.failed(error)
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        else:
            guard.passed()


async def keep_alive(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Awaits `run`, and again when it fails outside of its turns; a loop that ended by itself has ended."""
    guard = Guard(name)
    while True:
        try:
            await run()
        except ReplicaStopped:
            return
        except Exception as error:  # noqa: BLE001 - a loop that has ended would never run again
            guard.failed(error)
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        else:
            return


class Alarm:
    """A wake-up that is set by events and by the clock."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, at_most_s: float | None) -> None:
        """Returns when rung since the last return, or after `at_most_s`."""
        if not self._event.is_set() and (at_most_s is None or at_most_s > 0):
            try:
                async with asyncio.timeout(at_most_s):
                    await self._event.wait()
            except TimeoutError:
                return
        self._event.clear()


async def rest_by_load(work_s: float, most_s: float, *, least: int = 1) -> int:
    """Lets others run for as long as the work took, `least` times, and again while they need it; returns how often.

    What repeats without end thus takes half of the time of a server that has nothing else to do, and a fifth of that of a busy one.
    """
    count = 0
    while count < _MAX_RESTS:
        count += 1
        rest_s = min(work_s, most_s)
        began_s, used_s = time.monotonic(), time.thread_time()
        await asyncio.sleep(rest_s)
        most_s -= rest_s
        took_s = time.monotonic() - began_s
        # To come late is to be busy, too: with one long piece of work, or because the machine has no CPU left.
        is_busy = time.thread_time() - used_s > took_s * _BUSY_SHARE or took_s - rest_s > _LATE_S
        if most_s <= 0 or (count >= least and not is_busy):
            break
    return count


class Slices:
    """Cuts long work into slices, so that nothing else on the event loop waits longer than one of them."""

    def __init__(self, slice_s: float = 0.002) -> None:
        self._slice_s = slice_s
        self._until = time.perf_counter() + slice_s

    async def pause(self) -> None:
        """Lets others run when the present slice is used up."""
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + self._slice_s
