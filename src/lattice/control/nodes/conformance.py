"""Compares what nodes say of their configuration with what they should be, and says so in the log when the two part.

Looks again whenever a node reports, an operator changes a baseline, or the time for a remediation is over. What it remembers, the majority
of each kind of node, is found again after a change of leader in the drifts that the state knows.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine import events as ev
from lattice.core.machine.commands import AcceptFingerprint, AnyCommand, ClearDrift, Envelope, EscalateDrift, NoteDrift
from lattice.core.machine.rules.nodes.drift import timeout_s
from lattice.core.machine.state import State
from lattice.core.model.nodes.drift import (
    ACTOR,
    Drift,
    Peers,
    Verdict,
    differences,
    is_sensitive,
    judge,
    kind_of,
    sensitive_vcluster,
)
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.ports.clock import Clock
from lattice.ports.nodes.conformance import NO_STANDING, ConformanceStatus, Fingerprints
from lattice.ports.quorum.replica import Replica

LOOP = "conformance"
BATCH = 200  # commands: when a baseline turns, there may be thousands
ACCEPTS_SINCE_LEVEL = 2
_TAKES_WORK = frozenset({NodeState.READY, NodeState.DEGRADED})
_WAKING = (
    *(ev.NodeMoved, ev.NodeRegistered, ev.VclusterSet, ev.SettingSet, ev.BaselineSet, ev.BaselineUnset),
    *(ev.DriftNoted, ev.DriftVerified, ev.DriftCleared, ev.DriftEscalated, ev.FingerprintAccepted),
)


class ConformanceSettings(Struct, frozen=True, kw_only=True):
    every_s: float = 15.0  # at the latest: fingerprints grow stale without anybody saying so
    merge_s: float = 0.05
    rest_per_look: float = 20.0  # a look that takes long is followed by a rest that many times as long


class Conformance:
    """Implements `ConformanceView`; `on_change` is called when something changed that a plan looks at."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        source: Fingerprints,
        on_change: Callable[[], None],
        settings: ConformanceSettings | None = None,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._source = source
        self._on_change = on_change
        self._settings = settings or ConformanceSettings()
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._majorities: dict[Peers, str] = {}
        self._verdicts: Mapping[str, Verdict] = {}
        self._parts: dict[str, Mapping[str, str]] = {}  # by fingerprint
        self._standing = NO_STANDING
        self.counts: Counter[str] = Counter()
        replica.subscribe(self._note, of=_WAKING)
        self.reset()

    def reset(self) -> None:
        """Begins with what the state knows; for the start, and for a new leader."""
        state = self._replica.state
        self._verdicts = {}
        self._majorities = {
            Peers(drift.vcluster, kind_of(state.nodes[drift.node].hardware)): drift.expected
            for drift in state.drift.drifts.values()
            if drift.node not in state.drift.accepted
        }
        self._alarm.ring()

    def ring(self, node: str = "") -> None:
        """A node said something new of itself."""
        self._alarm.ring()

    def standing(self) -> ConformanceStatus:
        return self._standing

    def fingerprints(self) -> Mapping[str, str]:
        return self._source.fingerprints()

    def components(self, node: str) -> Mapping[str, str]:
        return self._source.components(node)

    def refresh(self, node: str) -> bool:
        return self._source.refresh(node)

    def verdict(self, node: str) -> Verdict | None:
        return self._verdicts.get(node)

    def majorities(self) -> Mapping[Peers, str]:
        return dict(self._majorities)

    def components_of(self, fingerprint: str) -> Mapping[str, str]:
        known = self._parts.get(fingerprint)
        if known:
            return known
        for baseline in self._replica.state.drift.baselines.values():
            if baseline.fingerprint == fingerprint and baseline.components:
                return dict(baseline.components)
        for accepted in self._replica.state.drift.accepted.values():
            if accepted.fingerprint == fingerprint and accepted.components:
                return dict(accepted.components)
        return {}

    async def run(self) -> None:
        self.reset()
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(self.pause_s())
        started = self._clock.monotonic_s()
        await self.look()
        took_s = self._clock.monotonic_s() - started
        await asyncio.sleep(max(self._settings.merge_s, took_s * self._settings.rest_per_look))

    def pause_s(self) -> float:
        now = self._clock.now_ms()
        moments = self._moments().values()
        soonest_s = max(0.5, (min(moments) - now) / 1000) if moments else self._settings.every_s
        return min(self._settings.every_s, soonest_s)

    async def look(self) -> None:
        """Compares once and proposes what follows."""
        state, fingerprints = self._replica.state, self._source.fingerprints()
        judgement = judge(
            state.nodes, state.vclusters, state.drift.baselines, fingerprints, self._majorities, state.drift.accepted
        )
        self._majorities, self._verdicts = dict(judgement.majorities), judgement.verdicts
        self._learn_parts(fingerprints)
        commands = [*self._changes(fingerprints), *self._expired(), *self._acceptances(fingerprints)]
        for start in range(0, len(commands), BATCH):
            await self._replica.propose_many(commands[start : start + BATCH], ACTOR)
        self._restate(fingerprints)

    def _learn_parts(self, fingerprints: Mapping[str, str]) -> None:
        """What each fingerprint in use or expected stands for."""
        wanted = set(fingerprints.values()) | {verdict.expected for verdict in self._verdicts.values()}
        parts = {each: self._parts[each] for each in wanted if self._parts.get(each)}
        for node, found in fingerprints.items():
            if found not in parts:
                with self._guard.item(f"components of {node}"):
                    parts[found] = dict(self._source.components(node))
        self._parts = parts

    def _changes(self, fingerprints: Mapping[str, str]) -> list[AnyCommand]:
        state = self._replica.state
        commands: list[AnyCommand] = []
        for name, actual in sorted(fingerprints.items()):
            node = state.nodes.get(name)
            if node is None:
                continue
            with self._guard.item(name):
                command = self._change(node, actual)
                if command is not None:
                    commands.append(command)
        return commands

    def _change(self, node: Node, actual: str) -> AnyCommand | None:
        state = self._replica.state
        drift, verdict = state.drift.drifts.get(node.id), self._verdicts.get(node.id)
        if verdict is not None and verdict.differs:
            is_news = _is_news(node, drift, verdict, actual, state.vclusters)
            return self._noted(node.id, verdict, actual) if is_news else None
        if drift is not None and not drift.verified_at:
            return ClearDrift(node=node.id, fingerprint=actual)
        return None

    def _noted(self, node: str, verdict: Verdict, actual: str) -> NoteDrift:
        expected = self.components_of(verdict.expected)
        found = differences(expected, self._source.components(node)) if expected else ()
        return NoteDrift(
            node=node, vcluster=verdict.vcluster, expected=verdict.expected, actual=actual, differences=found
        )

    def _acceptances(self, fingerprints: Mapping[str, str]) -> list[AnyCommand]:
        """Nodes that came into sensitive use without a declared baseline have to stay what they are; those that left it do not."""
        state = self._replica.state
        if state.level < ACCEPTS_SINCE_LEVEL:
            return []
        concerned = [name for name in _in_sensitive_use(state) if name not in state.drift.drifts]
        found = (self._acceptance(state.nodes[name], fingerprints.get(name, "")) for name in concerned)
        return [command for command in found if command is not None]

    def _acceptance(self, node: Node, actual: str) -> AnyCommand | None:
        state = self._replica.state
        vcluster, own = sensitive_vcluster(node, state.vclusters), state.drift.accepted.get(node.id)
        if not vcluster or vcluster in state.drift.baselines:
            return None if own is None else AcceptFingerprint(node=node.id)
        verdict = self._verdicts.get(node.id)
        if not actual or (verdict is not None and verdict.differs):
            return None
        parts = tuple(sorted(self._source.components(node.id).items()))
        if own is not None and own.vcluster == vcluster and (own.components or not parts):
            return None
        return AcceptFingerprint(node=node.id, vcluster=vcluster, fingerprint=actual, components=parts)

    def _expired(self) -> list[AnyCommand]:
        now = self._clock.now_ms()
        return [EscalateDrift(node=name) for name, moment in sorted(self._moments().items()) if moment <= now]

    def _moments(self) -> dict[str, int]:
        """When the drifting nodes are to be given up."""
        state = self._replica.state
        moments: dict[str, int] = {}
        for name, drift in state.drift.drifts.items():
            with self._guard.item(f"drift of {name}"):
                moment = _due_at(state, drift)
                if moment is not None:
                    moments[name] = moment
        return moments

    def _restate(self, fingerprints: Mapping[str, str]) -> None:
        state = self._replica.state
        drifted = frozenset(name for name, drift in state.drift.drifts.items() if not drift.verified_at)
        sensitive = (each for each in state.vclusters.values() if each.scheduler == SENSITIVE)
        excluded = {each.name: self._excluded(each, fingerprints) for each in sensitive}
        standing = ConformanceStatus(fingerprints, drifted, {name: nodes for name, nodes in excluded.items() if nodes})
        if standing != self._standing or fingerprints is not self._standing.fingerprints:
            self._standing = standing
            self._on_change()

    def _excluded(self, vcluster: Vcluster, fingerprints: Mapping[str, str]) -> frozenset[str]:
        """Nodes that a sensitive vCluster may not use: not of the baseline, or not known to be. None where there is no baseline."""
        state = self._replica.state
        members = [state.nodes[name] for name in vcluster.nodes or state.nodes if name in state.nodes]
        declared = state.drift.baselines.get(vcluster.name)
        expected = {
            node.id: declared.fingerprint if declared is not None else self._expected(node, vcluster.name)
            for node in members
        }
        if not any(expected.values()):
            return frozenset()
        return frozenset(name for name, wanted in expected.items() if not wanted or fingerprints.get(name) != wanted)

    def _expected(self, node: Node, vcluster: str) -> str:
        """What a node has to be where no baseline is declared."""
        own = self._replica.state.drift.accepted.get(node.id)
        if own is not None and own.vcluster == vcluster:
            return own.fingerprint
        return self._majorities.get(Peers(vcluster, kind_of(node.hardware)), "")

    def _note(self, index: int, envelope: Envelope, events: tuple[ev.AnyEvent, ...]) -> None:
        self.counts["noted"] += sum(isinstance(event, ev.DriftNoted) for event in events)
        if any(isinstance(event, _WAKING) for event in events):
            self._alarm.ring()


def _in_sensitive_use(state: State) -> list[str]:
    """The nodes that are in sensitive use or given to it, and those that were."""
    sensitive = {name: each for name, each in state.vclusters.items() if each.scheduler == SENSITIVE}
    if not sensitive and not state.drift.accepted:
        return []
    named = {name for vcluster in sensitive.values() for name in vcluster.nodes}
    named.update(state.drift.accepted)
    return [
        name
        for name, node in state.nodes.items()
        if name in named or node.claimant or (node.vcluster and node.vcluster in sensitive)
    ]


def _is_news(node: Node, drift: Drift | None, verdict: Verdict, actual: str, vclusters: Mapping[str, Vcluster]) -> bool:
    """Whether the state does not know yet, or knows otherwise, or a sensitive node takes work all the same."""
    if drift is None or drift.verified_at:
        return True
    sensitive = drift.is_sensitive or is_sensitive(node, vclusters)
    known = (drift.vcluster, drift.expected, drift.actual, drift.is_sensitive, drift.boot_id)
    found = (verdict.vcluster, verdict.expected, actual, sensitive, node.boot_id)
    return known != found or (sensitive and node.state in _TAKES_WORK)


def _due_at(state: State, drift: Drift) -> int | None:
    """When the node is to be given up; None when it is already, or never will be."""
    limit_s = timeout_s(state.settings, drift)
    if drift.verified_at or not limit_s:
        return None
    node = state.nodes[drift.node]
    if drift.escalated_at and (node.state not in _TAKES_WORK and node.state is not NodeState.DRAINED):
        return None
    return drift.since + int(limit_s * 1000)
