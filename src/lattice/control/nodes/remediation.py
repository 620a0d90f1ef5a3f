"""Tells the system that manages the nodes which of them are lost or differ from their baseline, and when they no longer do.

The newest report on a node replaces unsent ones. Failed deliveries are retried with growing delays; nothing here
waits for that, and a new leader tells everything again.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile

from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine import events as ev
from lattice.core.machine.commands import Envelope
from lattice.core.machine.folds.drift import CONFORMS, VERIFIED
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.drift import Drift
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.ports.clock import Clock
from lattice.ports.nodes.infrastructure import Flag, Infrastructure, InfrastructureUnavailable
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)

LOOP = "remediation"
_TROUBLES = frozenset({NodeTrigger.GIVEN_UP, NodeTrigger.BOOTS_EXHAUSTED, NodeTrigger.WIPE_FAILED})
_RETURNS = frozenset({NodeTrigger.CONFIRMED, NodeTrigger.CONFIRMED_DRAINING})
_ENDS = frozenset({CONFORMS, VERIFIED})
_HEARD = (ev.DriftNoted, ev.DriftEscalated, ev.DriftVerified, ev.DriftCleared, ev.NodeMoved)
TOLD_AGAIN_MS = 3_600_000  # for the end of a drift; its beginning is reported for as long as it lasts
# partial: the states that need an operator; the others are reported by their cause
_LOST = {NodeState.FAILED: "node_failed", NodeState.QUARANTINE: "wipe_failed"}


class RemediationSettings(Struct, frozen=True, kw_only=True):
    retry_s: float = 2.0
    longest_retry_s: float = 600.0
    at_once: int = 8


@dataclass(slots=True)
class _Word:
    flag: Flag
    message: str
    failures: int = 0
    not_before_s: float = 0.0


class Remediation:
    """`counts` has attempts by outcome: told or failed."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        infrastructure: Infrastructure,
        settings: RemediationSettings | None = None,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._infrastructure = infrastructure
        self._settings = settings or RemediationSettings()
        self.counts: Counter[str] = Counter()
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._words: dict[str, _Word] = {}
        replica.subscribe(self._note, of=_HEARD)
        self.reset()

    def reset(self) -> None:
        """Begins with what the state knows; for the start, and for a new leader."""
        self._words = {}
        for drift in self._replica.state.drift.drifts.values():
            with self._guard.item(drift.node):
                self._say_drift(drift)
        for node in self._replica.state.nodes.values():
            with self._guard.item(node.id):
                self._say_state(node)

    def _say_state(self, node: Node) -> None:
        if self._conforms_since(node.id):
            self._say(node.id, Flag.OK, "conformance restored")
        if node.state is NodeState.QUARANTINE and node.wipe is None:
            return  # it waits for admission: nothing is wrong with it
        if node.state in _LOST or node.down_cause is DownCause.SILENCE:
            self._say(node.id, Flag.ALERT, f"{_LOST.get(node.state, 'node_down')}: {node.reason}")

    async def run(self) -> None:
        self.reset()
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(self._pause_s())
        await self.tell()

    def _pause_s(self) -> float | None:
        if not self._words:
            return None
        now = self._clock.monotonic_s()
        return max(0.0, min(word.not_before_s for word in self._words.values()) - now)

    async def tell(self) -> None:
        """Send what is due, several concurrently."""
        now = self._clock.monotonic_s()
        due = [node for node, word in self._words.items() if word.not_before_s <= now]
        for start in range(0, len(due), self._settings.at_once):
            await asyncio.gather(*(self._tell(node) for node in due[start : start + self._settings.at_once]))

    async def _tell(self, node: str) -> None:
        word = self._words[node]
        try:
            await self._infrastructure.flag(node, word.flag, word.message)
        except InfrastructureUnavailable as error:
            self._postpone(word)
            _log.warning("the drift of the node could not be signalled: %s", error, extra={"node_id": node})
            return
        except Exception as error:  # noqa: BLE001 - the edge of the node: the others have theirs sent
            self._postpone(word)
            self._guard.failed(error, node)
            return
        self._guard.passed(node)
        self.counts["told"] += 1
        if self._words.get(node) is word:
            del self._words[node]

    def _postpone(self, word: _Word) -> None:
        self.counts["failed"] += 1
        wait_s = min(self._settings.longest_retry_s, self._settings.retry_s * 2 ** min(word.failures, 16))
        word.failures += 1
        word.not_before_s = self._clock.monotonic_s() + wait_s

    def _note(self, index: int, envelope: Envelope, events: tuple[ev.AnyEvent, ...]) -> None:
        for event in events:
            match event:
                case ev.DriftNoted():
                    self._say_drift(event.drift)
                case ev.DriftEscalated():
                    self._say_drift(self._replica.state.drift.drifts[event.node])
                case ev.DriftVerified() | ev.DriftCleared():
                    self._say(event.node, Flag.OK, "conformance restored")
                case ev.NodeMoved() if event.trigger in _TROUBLES:
                    self._say(
                        event.node, Flag.ALERT, f"{_LOST.get(event.state, 'node_down')}: {event.note or event.reason}"
                    )
                case ev.NodeMoved() if event.trigger in _RETURNS:
                    self._say_return(event.node)
                case _:
                    continue

    def _conforms_since(self, node: str) -> bool:
        """Whether its drift ended so lately that the leader before may not have told."""
        drift = self._replica.state.drift.drifts.get(node)
        if drift is not None and not drift.verified_at:
            return False
        since = self._clock.now_ms() - TOLD_AGAIN_MS
        lately = takewhile(lambda entry: entry.at > since, reversed(self._replica.state.node_history(node)))
        return any(entry.trigger in _ENDS for entry in lately)

    def _say_return(self, node: str) -> None:
        if not self._is_news(node):
            return
        drift = self._replica.state.drift.drifts.get(node)
        if drift is None or drift.verified_at:
            self._say(node, Flag.OK, "node is back")
        else:
            self._say_drift(drift)

    def _is_news(self, node: str) -> bool:
        """Whether something worse than a boot lies between this return of the node and the last one."""
        for entry in reversed(self._replica.state.node_history(node)[:-1]):
            if entry.trigger in _TROUBLES:
                return True
            if entry.trigger in _RETURNS:
                return False
        return False

    def _say_drift(self, drift: Drift) -> None:
        if drift.verified_at:
            return
        found = f"expected={drift.expected}, actual={drift.actual}"
        if drift.escalated_at:
            self._say(drift.node, Flag.ALERT, f"conformance_drift_timeout: {found}")
        elif drift.is_persistent:
            self._say(drift.node, Flag.ALERT, f"conformance_drift_persists: {found}")
        else:
            self._say(drift.node, Flag.WARNING, f"conformance_drift: {found}")

    def _say(self, node: str, flag: Flag, message: str) -> None:
        self._words[node] = _Word(flag, message)
        self._alarm.ring()
