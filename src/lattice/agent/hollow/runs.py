"""Pretended runs: a timer each, that a pause stops and a new walltime moves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lattice.agent.hollow.work import Outcome
from lattice.agent.machine.state import End
from lattice.ports.nodes.agents import EndCause, RunKey


@dataclass
class _Run:
    end: End  # how it ends without interference
    work_s: float
    walltime_s: float  # 0 = none
    ran_s: float = 0.0
    since_s: float | None = None  # None: it is suspended
    timer: asyncio.TimerHandle | None = None


class PretendedRuns:
    """`over` is called for every run that ends by itself."""

    def __init__(self, over: Callable[[RunKey, End], None]) -> None:
        self._over = over
        self._runs: dict[RunKey, _Run] = {}

    def start(self, key: RunKey, outcome: Outcome, walltime_s: float) -> None:
        self._runs[key] = _Run(end=outcome.end, work_s=outcome.work_s, walltime_s=walltime_s)
        self.resume(key)

    def drop(self, key: RunKey) -> None:
        """It was ended."""
        run = self._runs.pop(key, None)
        if run is not None and run.timer is not None:
            run.timer.cancel()

    def pause(self, key: RunKey) -> None:
        run = self._runs.get(key)
        if run is None or run.since_s is None:
            return
        run.ran_s += asyncio.get_running_loop().time() - run.since_s
        run.since_s = None
        if run.timer is not None:
            run.timer.cancel()

    def resume(self, key: RunKey) -> None:
        run = self._runs.get(key)
        if run is None or run.since_s is not None:
            return
        loop = asyncio.get_running_loop()
        run.since_s = loop.time()
        whole_s = min(run.work_s, run.walltime_s) if run.walltime_s else run.work_s
        run.timer = loop.call_later(max(0.0, whole_s - run.ran_s), self._end, key)

    def limit(self, key: RunKey, walltime_s: float) -> None:
        """Another walltime, counted from the start; 0 = none."""
        run = self._runs.get(key)
        if run is None:
            return
        run.walltime_s = walltime_s
        if run.since_s is not None:
            self.pause(key)
            self.resume(key)

    def _end(self, key: RunKey) -> None:
        run = self._runs.pop(key)
        is_late = bool(run.walltime_s) and run.walltime_s <= run.work_s
        self._over(key, End(cause=EndCause.WALLTIME, elapsed_s=run.walltime_s) if is_late else run.end)
