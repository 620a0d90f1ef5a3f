"""Folds what happened to baselines and to nodes that differ from them. Part of `evolve`: it cannot refuse and may not fail.

See docs/architecture/nodes.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.parts.node_history import NodeHistoryEntry
from lattice.core.machine.state import State
from lattice.core.model.nodes.drift import ACTOR, described

DRIFTED, ESCALATED, VERIFIED, CONFORMS = (
    "drifted",
    "drift_escalated",
    "drift_verified",
    "conforms",
)  # in a node's history
DriftEvent = (
    ev.DriftNoted
    | ev.DriftEscalated
    | ev.DriftVerified
    | ev.DriftCleared
    | ev.BaselineSet
    | ev.BaselineUnset
    | ev.FingerprintAccepted
    | ev.FingerprintForgotten
)


def evolve_drift(state: State, event: DriftEvent, at: int) -> None:
    registry = state.drift
    match event:
        case ev.DriftNoted():
            registry.put(event.drift)
            still = ", still so after a reboot" if event.drift.is_persistent else ""
            _tell(state, event.drift.node, DRIFTED, described(event.drift) + still, at)
        case ev.DriftEscalated():
            registry.put(replace(registry.drifts[event.node], escalated_at=at))
            _tell(state, event.node, ESCALATED, "not remedied in time", at)
        case ev.DriftVerified():
            registry.put(replace(registry.drifts[event.node], verified_at=at))
            _tell(state, event.node, VERIFIED, "as its baseline again, waits for approval", at)
        case ev.DriftCleared():
            registry.drop(event.node)
            _tell(state, event.node, CONFORMS, "", at)
        case ev.BaselineSet():
            registry.put_baseline(event.baseline)
        case ev.BaselineUnset():
            registry.drop_baseline(event.vcluster)
        case ev.FingerprintAccepted():
            registry.put_accepted(event.accepted)
        case ev.FingerprintForgotten():
            registry.drop_accepted(event.node)
        case _:
            assert_never(event)


def _tell(state: State, name: str, trigger: str, why: str, at: int) -> None:
    """Part of the node's history; its state is what it was."""
    node = state.nodes[name]
    entry = NodeHistoryEntry(at=at, trigger=trigger, from_state=node.state, to_state=node.state, by=ACTOR, why=why)
    state.histories.tell(name, entry)
