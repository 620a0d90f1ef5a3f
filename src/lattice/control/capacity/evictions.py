"""Sees evictions through whose time has come: warned work is stopped, nodes that were kept in vain are given back.

Everything else about an eviction follows from other commands. What is due is read from the state, so a new leader continues where the
last one stopped.
"""

import asyncio

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import AnyCommand, DropEviction, Envelope, StopVictims
from lattice.core.machine.events import AnyEvent, EvictionBegan, EvictionChanged
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.evictions import KEEP_MS, Eviction, VictimPhase
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica

ACTOR = "evictions"
LOOP = "evictions"
MIN_INTERVAL_S = 0.1
REST_S = 3600.0  # while there is none


class Evictions:
    """`enforce_due` does the work of one turn."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        replica.subscribe(self._note, of=(EvictionBegan, EvictionChanged))

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(await self.enforce_due())
        await asyncio.sleep(MIN_INTERVAL_S)

    async def enforce_due(self) -> float:
        """Proposes what is due; returns for how long nothing else will be."""
        now, wait_s = self._clock.now_ms(), REST_S
        due: list[AnyCommand] = []
        for number, eviction in list(self._replica.state.evictions.records.items()):
            with self._guard.item(allocation_id(number)):
                at, command = _next(eviction)
                if at <= now:
                    due.append(command)
                    wait_s = min(wait_s, 1.0)
                else:
                    wait_s = min(wait_s, (at - now) / 1000)
        if due:
            await self._replica.propose_many(due, ACTOR)
        return wait_s

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        self._alarm.ring()


def _next(eviction: Eviction) -> tuple[int, AnyCommand]:
    """What has to be done about it next, and when."""
    warned = [victim.due_at for victim in eviction.victims if victim.phase is VictimPhase.WARNED]
    if warned:
        return min(warned), StopVictims(number=eviction.number)
    return (eviction.freed_at + KEEP_MS if eviction.freed_at else _LATER), DropEviction(number=eviction.number)


_LATER = 2**62
