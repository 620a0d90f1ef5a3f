"""Brings data to the hot tier: hands copies to movers, takes waiting work out of Staging, and makes room.

Who works on what is in the log; how far a mover is, and when it was last heard, is known here alone. A new leader gives every
mover a fresh time-out. A mover that is silent for that long has lost its copies: another one continues them. See
docs/architecture/data.md.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from lattice.control.data.order import (
    Watermarks,
    claimable,
    full_sentence,
    heads_of,
    to_evict,
    used_bytes,
)
from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import ClaimCopy, Envelope, EvictCopy, ReportCopy, SettleData
from lattice.core.machine.events import (
    AllocationEnded,
    AnyEvent,
    CopyChanged,
    CopyForgotten,
    TasksCancelled,
)
from lattice.core.machine.outcomes import Accepted, Rejected
from lattice.core.machine.rules.data.staging import is_settled
from lattice.core.model.data.copies import MAX_READERS, Copy, CopyPhase, CopyState, DataUse
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation
from lattice.ports.clock import Clock
from lattice.ports.data.staging import MoverWork, Progress, StagingFigures, TierUse
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)
ACTOR = "staging"
SILENT_S = 15.0
LOOK_EVERY_S = 2.0
BATCH = 500  # allocations that one command settles
MAX_WAIT_S = 10.0


class StagingSettings(Struct, frozen=True, kw_only=True):
    """`capacity`: bytes of the hot tier, 0 = its file system; `bandwidth`: its bytes per second, 0 = not known."""

    capacity: int = 0
    bandwidth: float = 0.0
    tenants: Mapping[str, int] = {}  # most bytes that copies of a tenant may have
    watermarks: Watermarks = Watermarks()
    silent_s: float = SILENT_S


class _Mover(Struct):
    heard_s: float
    total: int = 0
    free: int = 0


class Staging:
    """Implements `StagingService`."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        settings: StagingSettings,
        shares: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._replica, self._clock, self._settings = replica, clock, settings
        self._shares = shares
        self._progress: dict[str, tuple[int, Progress]] = {}  # by key, with the generation
        self._movers: dict[str, _Mover] = {}
        self._began_s = clock.monotonic_s()
        self._alarm = Alarm()
        self._offer = asyncio.Event()
        self._is_over = False
        self._guard = Guard(ACTOR)
        self._again: dict[int, None] = {}  # work that could not be looked at
        self._dirty: set[str] | None = None  # copies that changed since work was settled; None = look at all
        self.failures = 0
        self.moved_bytes = 0
        self.moved_seconds = 0.0
        replica.subscribe(self._note)

    # movers

    async def work_for(
        self,
        mover: str,
        *,
        slots: int,
        wait_s: float,
        progress: Sequence[tuple[str, int, Progress]],
        space: tuple[int, int],
    ) -> MoverWork:
        self._movers[mover] = _Mover(self._clock.monotonic_s(), *space)
        copies = self._replica.state.staging.copies
        await self._release_unknown(mover, {key for key, _, _ in progress})
        stop = []
        for key, generation, said in progress:
            copy = copies.get(key)
            if copy is None or copy.mover != mover or copy.next_generation != generation:
                stop.append(key)
            else:
                self._progress[key] = (generation, said)
        claimed = await self._claim(mover, slots)
        if not claimed and not stop and slots > 0:
            claimed = await self._offered(mover, slots, min(wait_s, MAX_WAIT_S))
        return MoverWork(
            claimed=tuple((copy, self._accounts(copy)) for copy in claimed),
            remove=self._removable(),
            stop=tuple(stop),
            bytes_per_s=self._bandwidth(),
        )

    async def _offered(self, mover: str, slots: int, wait_s: float) -> list[Copy]:
        """Waits until there is something to claim, or to remove, or the time is over."""
        claimed: list[Copy] = []
        until = asyncio.get_running_loop().time() + wait_s
        while not claimed and not self._removable() and not self._is_over:
            self._offer.clear()
            try:
                # Only the waiting is cut short: a claim that is in the log has to reach its mover.
                async with asyncio.timeout_at(until):
                    await self._offer.wait()
            except TimeoutError:
                break
            if not self._is_over:
                claimed = await self._claim(mover, slots)
        self._movers[mover].heard_s = self._clock.monotonic_s()
        return claimed

    async def _release_unknown(self, mover: str, working: set[str]) -> None:
        """Takes back what the mover claimed before it asked now and does not work on: the answer did not reach it."""
        now = self._clock.now_ms()
        for copy in list(self._replica.state.staging.copies.values()):
            if copy.mover == mover and copy.claimed_at < now and copy.key not in working:
                await self._release(copy, f"mover {mover} does not work on it")

    async def _release(self, copy: Copy, reason: str) -> None:
        lost = ReportCopy(
            key=copy.key,
            mover=copy.mover,
            generation=copy.next_generation,
            phase=CopyPhase.RELEASED,
            reason=reason,
        )
        _log.warning("%s: its copy of %s is offered again", reason, copy.source)
        await self._replica.propose(lost, actor=ACTOR)

    async def _claim(self, mover: str, slots: int) -> list[Copy]:
        state, now = self._replica.state, self._clock.now_ms()
        taken = []
        for copy in claimable(state, now, self._shares())[: max(0, slots)]:
            outcome = await self._replica.propose(ClaimCopy(key=copy.key, mover=mover), actor=ACTOR)
            if isinstance(outcome, Accepted):
                self._progress.pop(copy.key, None)
                taken.append(state.staging.copies[copy.key])
        return taken

    def _accounts(self, copy: Copy) -> tuple[str, ...]:
        """Of work that waits for the copy: in Staging, or on nodes since it was usable and its mover was lost."""
        state, coming = self._replica.state, DataUse(copy.key, copy.next_generation)
        heads = heads_of(state, copy.key)
        waiting = (head.account for head in heads if head.number in state.staging.waiting or coming in head.data)
        asked = (copy.asked_by,) if copy.asked_by else ()
        return tuple(dict.fromkeys((*asked, *waiting)))[:MAX_READERS]

    def _removable(self) -> tuple[tuple[str, int], ...]:
        registry = self._replica.state.staging
        return tuple(
            (copy.key, generation)
            for copy in registry.copies.values()
            for generation in copy.old
            if not any(
                use.key == copy.key and use.generation == generation
                for uses in registry.users.get(copy.key, {}).values()
                for use in uses
            )
        )

    def _bandwidth(self) -> float:
        part = float(setting_value(self._replica.state.settings, "staging.bandwidth"))
        return self._settings.bandwidth * part / max(1, self._heard())

    async def reported(self, report: ReportCopy) -> str | None:
        outcome = await self._replica.propose(report, actor=ACTOR)
        if isinstance(outcome, Rejected):
            return outcome.message
        if report.phase is CopyPhase.FAILED:
            self.failures += 1
        copy = self._replica.state.staging.copies.get(report.key)
        if report.phase is CopyPhase.READY and copy is not None:
            self.moved_bytes += report.size
            self.moved_seconds += max(0, self._clock.now_ms() - copy.claimed_at) / 1000
        if report.phase is CopyPhase.SIZED and copy is not None:
            if not copy.is_claimed:
                return copy.reason
            is_known = bool(copy.generation) and report.version == copy.version
            return None if is_known else await self._make_room(copy)
        return None

    # the tier

    async def _make_room(self, copy: Copy) -> str | None:
        """Why the copy cannot be made now; None when it can. What leaves is gone when the mover asks again."""
        registry = self._replica.state.staging
        if copy.size == 0:
            return None
        most = self._settings.tenants.get(copy.tenant, 0)
        own = used_bytes(registry.copies.values(), copy.tenant)
        if most and own > most:
            await self._evict(to_evict(self._replica.state, own - most, 0, copy.tenant))
            return f"copies of tenant {copy.tenant} have {own - copy.size:,} of {most:,} bytes on the hot tier"
        capacity, marks = self._capacity(), self._settings.watermarks
        used = used_bytes(registry.copies.values())
        if not capacity or used <= capacity * marks.high:
            return None
        await self._evict(to_evict(self._replica.state, used - int(capacity * marks.low), 0))
        return full_sentence(self._replica.state, copy, used - copy.size, capacity)

    async def _evict(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self._replica.propose(EvictCopy(key=key), actor=ACTOR)

    def _capacity(self) -> int:
        return self._settings.capacity or max((mover.total for mover in self._movers.values()), default=0)

    def _heard(self) -> int:
        now_s = self._clock.monotonic_s()
        return sum(now_s - mover.heard_s <= self._settings.silent_s for mover in self._movers.values())

    def tier(self) -> TierUse:
        used = used_bytes(self._replica.state.staging.copies.values())
        return TierUse(capacity=self._capacity(), used=used, movers=self._heard())

    def figures(self) -> StagingFigures:
        return StagingFigures(
            moved_bytes=self.moved_bytes,
            moved_seconds=self.moved_seconds,
            failures=self.failures,
            waiting=len(self._replica.state.staging.waiting),
            tier=self.tier(),
        )

    # what people see

    def progress_of(self, copy: Copy) -> Progress:
        if copy.state in (CopyState.READY, CopyState.WANTED) and copy.generation:
            return Progress(bytes_done=copy.size, bytes_total=copy.size)
        generation, said = self._progress.get(copy.key, (0, Progress()))
        if generation == copy.next_generation and copy.is_claimed:
            return said
        return Progress(bytes_total=copy.size)

    def readiness(self) -> dict[int, float]:
        """By number: the part of the data that is on the hot tier."""
        state = self._replica.state
        found: dict[int, float] = {}
        for key, users in state.staging.users.items():
            copy = state.staging.copies.get(key)
            part = 0.0 if copy is None else self.progress_of(copy).percent / 100
            if copy is not None and copy.state is CopyState.READY:
                part = 1.0
            for number in users:
                found[number] = min(found.get(number, 1.0), part)
        return found

    def reason_for(self, head: Allocation) -> str:
        copies = self._replica.state.staging.copies
        parts = [self._said(copies[use.key]) for use in head.data if use.key in copies]
        return "; ".join(part for part in parts if part)

    def _said(self, copy: Copy) -> str:
        if copy.state in (CopyState.READY, CopyState.LEAVING):
            return ""
        if copy.state is CopyState.FAILED:
            return f"{copy.source} could not be staged: {copy.reason}"
        if not copy.is_claimed:
            why = copy.reason or ("" if self._heard() else "no mover is running")
            doing = "waits to be compared with its source" if copy.generation else "waits to be staged"
            return f"{copy.source} {doing}" + (f" ({why})" if why else "")
        said = self.progress_of(copy)
        if not said.bytes_total:
            return f"{copy.source} is being read"
        left = f", about {said.seconds_left:.0f} s left" if said.seconds_left is not None else ""
        rate = f" at {_size(said.bytes_per_s)}/s" if said.bytes_per_s else ""
        return (
            f"staging {copy.source}: {said.percent:.0f} % "
            f"({_size(said.bytes_done)} of {_size(said.bytes_total)}){rate}{left}"
        )

    # the loop

    async def run(self) -> None:
        try:
            await keep_turning(ACTOR, self._turn)
        finally:  # movers that wait are answered at once, so that they do not hold up a server that stops
            self._is_over = True
            self._offer.set()

    async def _turn(self) -> None:
        await self._alarm.wait(LOOK_EVERY_S)
        await self.settle()
        await self._release_lost()
        self._offer.set()

    async def settle(self) -> int:
        """Takes out of Staging what has its data; returns how many."""
        state = self._replica.state
        dirty, self._dirty = self._dirty, set()
        if dirty is None:
            looked_at = list(state.staging.waiting)
        else:
            users = dict.fromkeys(number for key in sorted(dirty) for number in state.staging.users.get(key, ()))
            looked_at = [number for number in users if number in state.staging.waiting]
        ready: list[int] = []
        left = dict.fromkeys((*self._again, *looked_at))
        self._again = left
        for number in list(left):
            with self._guard.item(str(number)):
                group = state.groups.get(number)
                head = group.template if group is not None else state.allocations.get(number)
                if head is not None and is_settled(state, head):
                    ready.append(number)
                else:
                    del left[number]  # one that failed stays for the next turn, as does all that the log did not take
        for place in range(0, len(ready), BATCH):
            batch = ready[place : place + BATCH]
            await self._replica.propose(SettleData(numbers=tuple(batch)), actor=ACTOR)
            for number in batch:
                del left[number]
        return len(ready)

    async def _release_lost(self) -> None:
        now_s = self._clock.monotonic_s()
        for copy in list(self._replica.state.staging.copies.values()):
            if not copy.is_claimed:
                continue
            mover = self._movers.get(copy.mover)
            heard_s = self._began_s if mover is None else mover.heard_s
            if now_s - heard_s <= self._settings.silent_s:
                continue
            with self._guard.item(copy.key):
                await self._release(copy, f"mover {copy.mover} is not heard")
        for name in [
            name for name, mover in self._movers.items() if now_s - mover.heard_s > 10 * self._settings.silent_s
        ]:
            del self._movers[name]

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, CopyChanged | CopyForgotten):
                if self._dirty is not None:
                    self._dirty.add(event.copy.key if isinstance(event, CopyChanged) else event.key)
                self._alarm.ring()
                self._offer.set()
            elif isinstance(event, AllocationEnded | TasksCancelled) and self._replica.state.staging.copies:
                self._offer.set()  # an old generation may go


def _size(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return ""
