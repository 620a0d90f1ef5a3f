"""The edge of every loop: what goes wrong in one turn is logged and counted, and the loop goes on."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from lattice.ports.quorum.log import Conflict, LogFull, LogUnavailable
from lattice.ports.quorum.replica import ReplicaStopped

_log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 0.5

failures: Counter[str] = Counter()  # turns that failed, by loop


async def keep_turning(name: str, turn: Callable[[], Awaitable[None]]) -> None:
    """Awaits `turn` again and again until cancelled, or until the replica takes no more commands."""
    while True:
        try:
            await turn()
        except ReplicaStopped:
            return
        except (LogFull, LogUnavailable, Conflict) as error:
            failures[name] += 1
            _log.warning("%s: the log took nothing: %s", name, error, extra={"loop": name})
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        except Exception:  # noqa: BLE001 - the edge of the loop
            failures[name] += 1
            _log.exception("%s: a turn failed", name, extra={"loop": name})
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)


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
