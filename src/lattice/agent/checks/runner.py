"""Runs a node's checks, each at its own pace, and tells the server how they stand.

A report names all checks. It is sent before Confirmed, whenever a standing changed, when the server asked, and every few
minutes all the same. One check never waits for another, and one that hangs is failed and not started again while it does.
"""

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from msgspec.structs import asdict, replace

from lattice.agent.checks import builtins
from lattice.agent.checks.builtins import BUILTINS, ClockReading, Surroundings
from lattice.agent.checks.groups import Fences
from lattice.agent.checks.options import Check
from lattice.agent.checks.programs import ProgramRunner, SiteProgram
from lattice.agent.checks.vitals import Vitals, read_vitals
from lattice.core.model.nodes.health import CheckStanding, Outcome, Verdict, first_standing, is_change, judge
from lattice.core.model.nodes.observations import Beat
from lattice.wire.agents.health import health_report
from lattice.wire.pb import agent_pb2 as pb

REPORT_EVERY_S = 300.0
MEASURE_EVERY_S = 30.0
CLOCK = "clock_offset"
DISK_SPACE = "disk_space"
RETRY_S = 0.1
# A thread beyond those that hang is always there: each built-in check occupies one at most.
THREADS = len(BUILTINS) + 4
_MAX_SHIFT = 0.1

_log = logging.getLogger(__name__)


class Post(Protocol):
    def __call__(self, message: pb.AgentMessage) -> None: ...


class CheckRunner:
    """All checks of one agent. `start` first; `announce` whenever a stream begins."""

    def __init__(self, checks: Sequence[Check], here: Surroundings, node_id: str, post: Post) -> None:
        self._checks = {check.rule.name: check for check in checks}
        self._here = here
        self._here.clock = self._read_clock
        self._post = post
        self._node_id = node_id
        self._pool = ThreadPoolExecutor(THREADS, "checks")
        self._fences: Fences | None = None
        self._programs: ProgramRunner | None = None
        self._opening = asyncio.Lock()
        self._standings = {name: first_standing(check.rule) for name, check in self._checks.items()}
        self._ran_at: dict[str, float] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._hanging: dict[str, asyncio.Future[Outcome | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: tuple[CheckStanding, ...] = ()
        self._sent_at: dict[int, tuple[float, float]] = {}
        self._clock: ClockReading | None = None
        self._met: dict[str, str] = {}
        self._vitals = Vitals()
        self._seq = 0
        self._is_announced = False

    @property
    def failing(self) -> int:
        """How many checks fail now."""
        return sum(1 for standing in self._standings.values() if standing.is_failed)

    def fill(self, beat: Beat) -> Beat:
        """The heartbeat, with what is known of the node's health."""
        return replace(beat, failing_checks=self.failing, **asdict(self._vitals))

    def start(self) -> None:
        """Run every check once now, then at its period; returns immediately."""
        for name in self._checks:
            self._spawn(self._repeat(name))
        if self._checks:
            self._spawn(self._remind())
            self._spawn(self._measure())

    def announce(self) -> None:
        """A server is to know how the checks stand, before anything else follows."""
        self._is_announced = True
        if self._checks:
            self._report()

    def leave(self) -> None:
        """The stream is gone."""
        self._is_announced = False
        self._sent_at.clear()

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for the checks; if so it is taken care of."""
        if message.HasField("run_checks"):
            asked = message.run_checks
            self._spawn(self._answer(asked.ticket, tuple(asked.names)))
            return True
        if message.HasField("health_ack"):
            self._compare_clocks(message.health_ack)
            return True
        return False

    async def fail(self, name: str, why: str) -> None:
        """Another part hit the problem the check looks for: it has failed until it runs again, which is immediately."""
        if name not in self._checks:
            _log.warning("check %s is off, the node keeps taking work: %s", name, why)
            return
        self._met[name] = why
        await self._run_once(name)
        if name in self._met:  # one that was under way had not heard of it
            await self._run_once(name)

    def close(self) -> None:
        """Ends what runs. Blocks a moment."""
        for task in self._tasks:
            task.cancel()
        if self._fences is not None:
            self._fences.close()

    async def _repeat(self, name: str) -> None:
        period_s, retry_s = self._checks[name].rule.period_s, RETRY_S
        while True:
            await self._run_once(name)
            if self._standings[name].verdict is Verdict.PENDING:
                await asyncio.sleep(min(retry_s, period_s))
                retry_s *= 1.5
                continue
            # Spread: nodes that started together need not look at their file servers together.
            shift = 1.0 + random.uniform(-_MAX_SHIFT, _MAX_SHIFT)  # noqa: S311 - not security relevant
            await asyncio.sleep(period_s * shift)

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            self._report()

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._vitals = await loop.run_in_executor(self._pool, read_vitals, self._here)
            except OSError as error:
                _log.warning("the node's figures cannot be read: %s", error)
            await asyncio.sleep(MEASURE_EVERY_S)

    async def _answer(self, ticket: int, names: Sequence[str]) -> None:
        wanted = [name for name in self._checks if not names or name in names]
        await asyncio.gather(*map(self._run_once, wanted))
        self._report(ticket)

    async def _run_once(self, name: str) -> None:
        """Runs it now; one that is being run already is waited for instead."""
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = self._spawn(self._perform(self._checks[name]))
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        await asyncio.shield(task)

    async def _perform(self, check: Check) -> None:
        name, rule, began = check.rule.name, check.rule, time.monotonic()
        met = self._met.pop(name, "")
        try:
            outcome = await self._outcome(check)
        except Exception as error:  # noqa: BLE001 - the loop's edge: a check that breaks has failed, the agent continues
            _log.exception("check %s broke", name)
            outcome = Outcome(verdict=Verdict.FAILED, text=f"broke: {type(error).__name__}")
        if met:
            rule = replace(rule, failures_needed=1)
            if outcome is None or outcome.verdict is not Verdict.FAILED:
                outcome = Outcome(verdict=Verdict.FAILED, text=met)
        if outcome is None:
            return
        self._ran_at[name] = time.monotonic()
        after = judge(rule, self._standings[name], outcome)
        self._standings[name] = replace(after, duration_s=round(time.monotonic() - began, 6))
        if is_change(self._told, self._standings.values()):
            self._report()

    async def _outcome(self, check: Check) -> Outcome | None:
        rule = check.rule
        if check.program is not None:
            return await self._run_program(rule.name, check.program, rule.timeout_s)
        if rule.name == "network":
            return await builtins.reach(check.options.hosts, rule.timeout_s)
        if rule.name == "mounts":
            return await self._look_at_mounts(check)
        return await self._in_thread(check)

    async def _look_at_mounts(self, check: Check) -> Outcome:
        paths = check.options.paths
        missing = builtins.mounted(self._here.root, paths)
        if missing:
            return builtins.failed(f"nothing is mounted on {missing}")
        asked = SiteProgram(argv=("stat", "-f", "-c", "%T", "--", *paths))
        found = await self._run_program(check.rule.name, asked, check.rule.timeout_s)
        if found.verdict is Verdict.PASSED:
            return builtins.passed(f"{len(paths)} mounted and answering")
        return builtins.failed(found.text)

    async def _in_thread(self, check: Check) -> Outcome | None:
        name, timeout_s = check.rule.name, check.rule.timeout_s
        before = self._hanging.get(name)
        if before is not None and not before.done():
            return builtins.failed("still hangs")
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._pool, BUILTINS[name], self._here, check.options)
        try:
            return await asyncio.wait_for(asyncio.shield(asked), timeout_s)
        except TimeoutError:
            self._hanging[name] = asked
            return builtins.failed(f"took longer than {timeout_s:g} s")

    async def _run_program(self, name: str, program: SiteProgram, timeout_s: float) -> Outcome:
        async with self._opening:
            if self._programs is None:
                self._programs = await self._open_programs()
        return await self._programs.run(name, program, timeout_s)

    async def _open_programs(self) -> ProgramRunner:
        """What an agent before this one left running ends first."""
        fences = self._fences = Fences(self._here.state_dir)
        for stuck in await asyncio.get_running_loop().run_in_executor(self._pool, fences.sweep):
            _log.error("check %s of an earlier agent cannot be killed", stuck)
        return ProgramRunner(fences, self._pool, self._node_id)

    def _report(self, *tickets: int) -> None:
        if not self._is_announced:
            return
        self._seq += 1
        now = time.monotonic()
        standings = tuple(self._standings.values())
        aged = [replace(each, age_s=now - self._ran_at.get(each.name, now)) for each in standings]
        self._told = standings
        self._sent_at = {self._seq: (now, time.time()), **dict(list(self._sent_at.items())[:3])}
        self._post(health_report(aged, seq=self._seq, tickets=tickets))

    def _compare_clocks(self, ack: pb.HealthAck) -> None:
        sent = self._sent_at.pop(ack.seq, None)
        if sent is None or not ack.server_time_ms:
            return
        if self._clock is None and CLOCK in self._checks:
            self._spawn(self._run_once(CLOCK))  # it has something to look at now
        round_trip_s = time.monotonic() - sent[0]
        middle_s = sent[1] + round_trip_s / 2
        self._clock = ClockReading(offset_s=middle_s - ack.server_time_ms / 1000, slack_s=round_trip_s / 2)

    def _read_clock(self) -> ClockReading | None:
        return self._clock

    def _spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
