"""Measures the node and its runs, once a second each or more often where a mode says so, and keeps the windows.
A node without work is measured less often, until work comes or somebody asks.

Files of the kernel are read in a thread of their own, one reading at a time: one that hangs delays the next figures and nothing else.
All else happens on the agent's loop. docs/architecture/telemetry.md.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lattice.agent.runs.devices import DeviceTable
from lattice.agent.shim_client import GroupPlace, ShimMessage
from lattice.agent.telemetry.bpf.source import BpfSource
from lattice.agent.telemetry.memory import SeriesMemory
from lattice.agent.telemetry.sources import groups
from lattice.agent.telemetry.sources.node import NodeSource
from lattice.agent.telemetry.sources.processes import read_processes
from lattice.core.model.telemetry.modes import DEFAULT_INTERVAL_MS, Mode
from lattice.core.model.telemetry.rates import Name, Reading, figures
from lattice.core.model.telemetry.windows import WINDOW_MS, Gathering, Window
from lattice.ports.nodes.agents import RunKey, StartOrder

SAMPLE_S = DEFAULT_INTERVAL_MS / 1000
IDLE_S = 10.0  # between two samples of a node without work
SHORTEST_SLEEP_S = 0.02
EXPIRE_EVERY_S = 60.0
KEEP_ENDED = 1000  # runs of which it is known that they have ended

_log = logging.getLogger(__name__)
Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]
Windows = dict[Name, Window]
# The owner, its windows that ended just now, and its last figures.
Listener = Callable[["Target", Windows, dict[Name, float]], None]


@dataclass(eq=False)
class Target:
    """A run or, with `key` None, the node: how it is measured, and what was read last."""

    key: RunKey | None
    cpus: float
    order: StartOrder | None = None
    gpus: tuple[int, ...] = ()
    mode: Mode = Mode.PROD
    interval_ms: int = DEFAULT_INTERVAL_MS
    gathering: Gathering = field(default_factory=Gathering)
    last: Reading | None = None
    due_s: float = 0.0
    figures: dict[Name, float] = field(default_factory=dict)

    def set_mode(self, mode: Mode, interval_ms: int) -> None:
        """Holds from the next sample on, which comes immediately."""
        self.mode = mode
        self.interval_ms = interval_ms if mode is Mode.DEBUG else DEFAULT_INTERVAL_MS
        self.gathering.length_ms = interval_ms if mode is Mode.DEBUG else WINDOW_MS
        self.due_s = 0.0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the collector knows its agent by."""

    cpus: int
    ask: Ask
    order_of: Callable[[RunKey], StartOrder | None]
    devices: DeviceTable


class Collector:
    """`run` for good. `targets` are the node, under None, and its living runs."""

    def __init__(
        self,
        around: Surroundings,
        memory: SeriesMemory | None = None,
        source: Callable[[], Reading] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._around = around
        self.memory = memory or SeriesMemory()
        self._read_node = source or NodeSource().read
        self._wall = wall
        self._pool = ThreadPoolExecutor(1, "telemetry")
        self._places: dict[RunKey, list[GroupPlace]] = {}
        self._woken = asyncio.Event()
        self.node = Target(None, float(around.cpus))
        self.targets: dict[RunKey | None, Target] = {None: self.node}
        self.listeners: list[Listener] = []
        self.ended: list[Callable[[Target], None]] = []
        self.further: Callable[[Target], dict[Name, float]] = (
            lambda _target: {}
        )  # figures of other sources, such as GPUs
        self.began: list[Callable[[Target], None]] = []
        self.samples: list[Callable[[Target, dict[Name, float]], None]] = []
        self.ticks: list[Callable[[], None]] = []  # called in each turn
        self.is_idle: Callable[[], bool] = lambda: False  # no work here, and no client asks for figures
        self.has_groups = True
        self.reads_groups = True  # False: what runs use is read from their processes alone
        self.kernel: BpfSource | None = None  # programs in the kernel; None = there are none

    async def run(self) -> None:
        """Never returns."""
        expire_s = 0.0
        while True:
            self._woken.clear()
            now_s = time.monotonic()
            if now_s >= expire_s:
                self.memory.expire(self.now_ms())
                expire_s = now_s + EXPIRE_EVERY_S
            self._around.ask({"op": "groups"}, self._found)
            for tick in self.ticks:
                tick()
            try:
                await self._measure(now_s)
            except Exception:  # noqa: BLE001 - the loop's edge: figures are not worth the agent
                _log.exception("cannot measure")
            try:
                async with asyncio.timeout(self._rest_s()):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _rest_s(self) -> float:
        if len(self.targets) == 1 and self.node.mode is Mode.PROD and self.is_idle():
            return IDLE_S
        wait_s = min(target.due_s for target in self.targets.values()) - time.monotonic()
        return max(SHORTEST_SLEEP_S, min(wait_s, SAMPLE_S))

    def wake(self) -> None:
        """Something is due earlier than it was."""
        self._woken.set()

    def now_ms(self) -> int:
        return int(self._wall() * 1000)

    def _found(self, answer: ShimMessage) -> None:
        """The groups that live now; a shim of a release before this one says none."""
        places: dict[RunKey, list[GroupPlace]] = {}
        for place in answer.places:
            if place.step is None or not place.path:
                places.setdefault(RunKey(place.number, place.run), []).append(place)
        self._places = places
        self.has_groups = all(place.path for each in places.values() for place in each)

    async def _measure(self, now_s: float) -> None:
        self._follow_runs()
        due = [target for target in self.targets.values() if target.due_s <= now_s]
        if not due:
            return
        work = [(target, self._places.get(target.key, []) if target.key is not None else None) for target in due]
        readings = await asyncio.get_running_loop().run_in_executor(self._pool, self._read_all, work)
        now_ms = self.now_ms()
        for target, reading in zip(due, readings, strict=True):
            # From when it was due, so that late turns do not add up.
            step_s = target.interval_ms / 1000
            target.due_s = max(target.due_s + step_s, now_s + step_s / 2)
            if reading is not None:
                self._take(target, reading, now_ms)

    def _follow_runs(self) -> None:
        """New runs are measured from now on; of those that are gone the last window ends."""
        for key in self._places.keys() - self.targets.keys():
            order = self._around.order_of(key)
            given = self._around.devices.of(key)
            cpus = order.cpus if order is not None and order.cpus else self._around.cpus
            target = Target(key, float(cpus), order, given.gpus or () if given is not None else ())
            self.targets[key] = target
            for listener in self.began:
                listener(target)
        for key in [key for key in self.targets if key is not None and key not in self._places]:
            target = self.targets.pop(key)
            self._keep(target, target.gathering.close())
            for ended in self.ended:
                ended(target)

    def _read_all(self, work: Sequence[tuple[Target, list[GroupPlace] | None]]) -> list[Reading | None]:
        """In the thread. What kernel programs count comes to what files say, and counts more than that."""
        if self.kernel is not None and any(places is not None for _, places in work):
            self._follow_in_kernel(self.kernel)
        readings = []
        for target, places in work:
            reading = self._read_node() if places is None else read_places(places, by_group=self.reads_groups)
            if reading is not None and target.key is not None and self.kernel is not None:
                self.kernel.add(target.key, reading, with_peers=target.mode is not Mode.PROD)
            readings.append(reading)
        return readings

    def _follow_in_kernel(self, kernel: BpfSource) -> None:
        if not kernel.is_opened:
            kernel.open()
            if not kernel.is_answering:
                _log.warning("no BPF programs: %s; figures come from files alone", kernel.problem)
        kernel.follow(self._places)

    def _take(self, target: Target, reading: Reading, now_ms: int) -> None:
        found = figures(target.last, reading, target.cpus) | self.further(target)
        target.last, target.figures = reading, found
        for sampled in self.samples:
            sampled(target, found)
        done = target.gathering.add(now_ms, found.items())
        if target.mode is Mode.DEBUG:
            done |= target.gathering.close()
        self._keep(target, done)

    def _keep(self, target: Target, done: Windows) -> None:
        if done:
            self.memory.add(target.key, done)
            for listener in self.listeners:
                listener(target, done, target.figures)


def read_places(places: Sequence[GroupPlace], *, by_group: bool = True) -> Reading | None:
    """The sum over the groups of a run; None where it has none any more."""
    readings = [_read_place(place, by_group=by_group) for place in places]
    if not readings:
        return None
    if len(readings) == 1:
        return readings[0]
    total = Reading(at_s=readings[0].at_s, counters={}, gauges={})
    for reading in readings:
        for name, value in reading.counters.items():
            total.counters[name] = total.counters.get(name, 0.0) + value
        for name, value in reading.gauges.items():
            total.gauges[name] = total.gauges.get(name, 0.0) + value
    return total


def _read_place(place: GroupPlace, *, by_group: bool) -> Reading:
    if place.path and by_group:
        return groups.read_group(groups.GroupPlace(path=place.path, twins=place.twins))
    reading = Reading(at_s=time.monotonic(), counters={}, gauges={})
    pids = groups.group_pids(place.path) if place.path else place.pids
    groups.add_processes(reading, read_processes(pids))
    return reading
