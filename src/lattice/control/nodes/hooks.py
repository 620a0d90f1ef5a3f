"""Tells the site what happens to nodes: every move and every shortfall is logged, and a script of the site hears of it.

The script gets one JSON document: `events`, oldest first, and `lost`, how many there was no room for. It runs once at a time and
a limited number of times per minute; events in between go to the next run. A run that fails is counted and not repeated.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import AnyEvent, NodeMeasured, NodeMoved, NodeSpecified
from lattice.core.machine.node_effects import EFFECTS
from lattice.core.machine.transitions import NodeTrigger
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.site_program import ProgramFailed, SiteProgram

LOOP = "node hooks"
MAX_WAITING = 10_000
MAX_BATCH = 1_000
UNFIT = "unfit"
FIT = "fit"

_log = logging.getLogger(__name__)


_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING}
_EVERYDAY = frozenset({NodeTrigger.REGISTERED, NodeTrigger.CONFIRMED})  # of every node whenever servers are started


class NodeEventTold(Struct, frozen=True, kw_only=True):
    """An event of a node, as passed to the script. `state` is the one it led to; `trigger` is unfit or fit for shortfalls.

    `severity` and `alert` are there when operators have to hear of it: warning or critical, and the sentence for them.
    """

    at: int
    node: str
    trigger: str
    state: str
    previous: str = ""
    cause: str = ""
    reason: str = ""
    by: str = ""
    severity: str = ""
    alert: str = ""


class HookSettings(Struct, frozen=True, kw_only=True):
    """`states`: only moves into these, and shortfalls as `unfit`; none = everything."""

    per_minute: int = 10
    states: frozenset[str] = frozenset()


class NodeHooks:
    """Follows the replica of the leader."""

    def __init__(self, replica: Replica, clock: Clock, program: SiteProgram | None, settings: HookSettings) -> None:
        self._replica = replica
        self._clock = clock
        self._program = program
        self._settings = settings
        self.counts: Counter[str] = Counter()
        self._waiting: deque[NodeEventTold] = deque()
        self._lost = 0
        self._runs: deque[float] = deque(maxlen=settings.per_minute)
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._unfit = {name for name, node in replica.state.nodes.items() if node.shortfall}
        replica.subscribe(self._note, of=(NodeMoved, NodeSpecified, NodeMeasured))

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        wait_s = self.pause_s()
        if self._waiting and not wait_s:
            await self.tell()
            return
        await self._alarm.wait(wait_s if self._waiting else None)
        if self._waiting and self.pause_s():
            await asyncio.sleep(min(1.0, self.pause_s()))

    def pause_s(self) -> float:
        """How long the script may not be run again."""
        if len(self._runs) < self._settings.per_minute:
            return 0.0
        return max(0.0, self._runs[0] + 60.0 - self._clock.monotonic_s())

    async def tell(self) -> None:
        """Hands everything that waits to the script, bounded."""
        program = self._program
        if program is None:
            return
        events = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
        lost, self._lost = self._lost, 0
        self._runs.append(self._clock.monotonic_s())
        try:
            await program.tell(msgspec.json.encode({"events": events, "lost": lost}))
        except ProgramFailed as error:
            self.counts["failed"] += 1
            _log.error("the script for node events failed: %s", error)
        else:
            self.counts["done"] += 1
        self.counts["told"] += len(events)

    def _note(self, index: int, envelope: Envelope, events: Sequence[AnyEvent]) -> None:
        for event in events:
            match event:
                case NodeMoved():
                    with self._guard.item(event.node):
                        self._moved(event, envelope.at)
                case NodeSpecified() | NodeMeasured():
                    with self._guard.item(event.node):
                        self._judged(event.node, event.shortfall, envelope)
                case _:
                    pass

    def _moved(self, event: NodeMoved, at: int) -> None:
        history = self._replica.state.node_history(event.node)
        previous = next((entry.from_state for entry in reversed(history) if entry.to_state is event.state), "")
        told = NodeEventTold(
            at=at,
            node=event.node,
            trigger=event.trigger,
            state=event.state,
            previous=previous,
            cause=event.down_cause or "",
            reason=event.note or event.reason,
            by=event.actor or event.by,
            severity=EFFECTS[event.trigger].severity,
            alert=EFFECTS[event.trigger].told(event.node, event.note or event.reason),
        )
        _log_move(told)
        self._queue(told, str(event.state))

    def _judged(self, node: str, shortfall: str, envelope: Envelope) -> None:
        if bool(shortfall) == (node in self._unfit):
            return
        if shortfall:
            self._unfit.add(node)
            _log.warning("node is not configured for work: %s", shortfall, extra={"node_id": node})
        else:
            self._unfit.discard(node)
            _log.info("node has what it must have", extra={"node_id": node})
        trigger = UNFIT if shortfall else FIT
        state = str(self._replica.state.nodes[node].state)
        told = NodeEventTold(
            at=envelope.at, node=node, trigger=trigger, state=state, reason=shortfall, by=envelope.actor
        )
        self._queue(told, trigger)

    def _queue(self, told: NodeEventTold, what: str) -> None:
        wanted = self._settings.states
        if self._program is None or (wanted and what not in wanted):
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._lost += 1
            self.counts["lost"] += 1
        self._waiting.append(told)
        self._alarm.ring()


def _log_move(told: NodeEventTold) -> None:
    level = _LEVELS.get(told.severity, logging.DEBUG if told.trigger in _EVERYDAY else logging.INFO)
    why = f": {told.reason}" if told.reason else ""
    by = f" (by {told.by})" if told.by else ""
    move = f"{told.previous or 'Unknown'} -> {told.state}, {told.trigger}{why}{by}"
    _log.log(level, "%s", told.alert or move, extra={"node_id": told.node})
