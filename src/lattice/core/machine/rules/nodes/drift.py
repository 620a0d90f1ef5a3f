"""Nodes that are not what they should be: noticed, drained, given up, brought back.

Work that runs on such a node is never touched. An ordinary node stays in service and is merely avoided; when its fingerprint is right
again, all is forgotten. A sensitive node is drained in the command that notes the drift, and a node that differed for too long is
taken down once it is empty: these come back by an operator's word alone, and only when their fingerprint is right.
See docs/architecture/nodes.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.node_moves import moved, not_found
from lattice.core.machine.rules.nodes import nodes
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.drift import ACTOR, AcceptedFingerprint, Drift, described, is_sensitive
from lattice.core.model.nodes.nodes import DownCause, Node
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.units import format_duration

Events = tuple[ev.AnyEvent, ...]
TIMEOUT = "conformance.drift_remediation_timeout_s"
SENSITIVE_TIMEOUT = "conformance.sensitive_remediation_timeout_s"
_FINGERPRINT_LENGTH = 64


def timeout_s(settings: dict[str, str], drift: Drift) -> float:
    """How long the node may differ before it is given up; 0 = for ever."""
    return float(setting_value(settings, SENSITIVE_TIMEOUT if drift.is_sensitive else TIMEOUT))


def note(state: State, command: cmd.NoteDrift, at: int) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None or command.vcluster not in state.vclusters or command.expected == command.actual:
        return Rejected(code="stale", message=f"{command.node} has no drift in vCluster {command.vcluster}")
    old = state.drift.drifts.get(command.node)
    goes_on = old is not None and not old.verified_at and old.expected == command.expected
    drift = Drift(
        node=command.node,
        vcluster=command.vcluster,
        expected=command.expected,
        actual=command.actual,
        since=old.since if old is not None and goes_on else at,
        differences=command.differences,
        # The end of sensitive work on the node does not make it ordinary: it was drained as a sensitive one.
        is_sensitive=is_sensitive(node, state.vclusters) or (old is not None and old.is_sensitive),
        escalated_at=old.escalated_at if old is not None else 0,
        boot_id=node.boot_id,
        is_persistent=goes_on and old is not None and (old.is_persistent or _has_booted(node, old)),
    )
    noted: Events = () if drift == old else (ev.DriftNoted(drift=drift),)
    return noted + (_drained(state, drift) if drift.is_sensitive else ())


def _has_booted(node: Node, drift: Drift) -> bool:
    return bool(drift.boot_id) and node.boot_id != drift.boot_id


def clear(state: State, command: cmd.ClearDrift) -> Events | Rejected:
    """The fingerprint is right again, or nothing is expected of the node any more."""
    old = state.drift.drifts.get(command.node)
    if old is None or old.verified_at:
        return ()
    if old.is_strict:
        return (ev.DriftVerified(node=old.node, fingerprint=command.fingerprint),)
    return (ev.DriftCleared(node=old.node),)


def escalate(state: State, command: cmd.EscalateDrift, at: int) -> Events | Rejected:
    """The time for remediation is over: no new work, and Down as soon as nothing runs there."""
    drift = state.drift.drifts.get(command.node)
    if drift is None or drift.verified_at:
        return Rejected(code="stale", message=f"node {command.node} has no drift")
    limit_s = timeout_s(state.settings, drift)
    if not limit_s or at < drift.since + limit_s * 1000:
        gone = format_duration((at - drift.since) // 1000)
        limit = format_duration(int(limit_s)) if limit_s else "none"
        return Rejected(code="stale", message=f"node {drift.node} has time left", current=gone, limit=limit)
    noted: Events = () if drift.escalated_at else (ev.DriftEscalated(node=drift.node),)
    if state.nodes[drift.node].holders():
        return noted + _drained(state, drift)
    reason = f"configuration drift for more than {format_duration(int(limit_s))}: {described(drift)}"
    down = cmd.DownNode(node=drift.node, cause=DownCause.DRIFT, reason=reason)
    return noted + _events(nodes.down(state, down, ACTOR, at))


def undrain(state: State, command: cmd.UndrainNode, actor: str = "") -> Events | Rejected:
    """As for any node, but a drift that only an operator ends must be remedied first; the order is the approval then."""
    drift = state.drift.drifts.get(command.node)
    if drift is None or not drift.is_strict:
        return nodes.undrain(state, command, actor)
    if not drift.verified_at:
        return _still_drifted(drift)
    undrained = nodes.undrain(state, command, actor)
    return undrained if isinstance(undrained, Rejected) else (*undrained, ev.DriftCleared(node=drift.node))


def approve(state: State, command: cmd.ApproveNode, actor: str, at: int) -> Events | Rejected:
    """Takes the node back after remediation, or as it has become. A drain that a person asked for stands."""
    drift = state.drift.drifts.get(command.node)
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    if drift is None or not drift.is_strict:
        known = ", ".join(name for name, each in sorted(state.drift.drifts.items()) if each.verified_at)
        message = f"node {command.node} waits for no approval"
        return Rejected(code="conflict", message=message, hint=f"Waiting: {known or 'none'}.")
    accepted: Events = ()
    if not drift.verified_at:
        own = _own_fingerprint(state, drift)
        if own is None:
            return _still_drifted(drift)
        accepted = (_accepted(replace(own, fingerprint=drift.actual, components=(), by=actor, at=at)),)
    cleared = ev.DriftCleared(node=drift.node)
    if node.down_cause is DownCause.DRIFT:
        stands = node.drain_wanted and not _is_ours(node)
        return (*accepted, moved(node, NodeTrigger.UNDRAIN, drain=stands), cleared)
    if not _is_ours(node):
        return (*accepted, cleared)
    undrained = nodes.undrain(state, cmd.UndrainNode(node=node.id, is_heard=command.is_heard))
    return undrained if isinstance(undrained, Rejected) else (*accepted, *undrained, cleared)


def _own_fingerprint(state: State, drift: Drift) -> AcceptedFingerprint | None:
    """What the node was, when it differs from nothing but that."""
    own = state.drift.accepted.get(drift.node)
    is_own = own is not None and own.fingerprint == drift.expected and drift.vcluster not in state.drift.baselines
    return own if is_own else None


def _accepted(record: AcceptedFingerprint) -> ev.FingerprintAccepted:
    return ev.FingerprintAccepted(accepted=record)


def accept(state: State, command: cmd.AcceptFingerprint, at: int) -> Events | Rejected:
    """What a node in sensitive use has to stay. It is never changed here: that takes an operator's approval."""
    old = state.drift.accepted.get(command.node)
    if not command.fingerprint:
        return () if old is None else (ev.FingerprintForgotten(node=command.node),)
    vcluster = state.vclusters.get(command.vcluster)
    is_known = command.node in state.nodes and vcluster is not None and vcluster.scheduler == SENSITIVE
    if not is_known or not _is_fingerprint(command.fingerprint) or command.node in state.drift.drifts:
        return Rejected(code="stale", message=f"{command.node} cannot be accepted for vCluster {command.vcluster} now")
    if old is not None and old.fingerprint != command.fingerprint:
        return Rejected(code="stale", message=f"{command.node} has to stay what it was", limit=old.fingerprint)
    fresh = AcceptedFingerprint(
        node=command.node,
        vcluster=command.vcluster,
        fingerprint=command.fingerprint,
        components=command.components or (() if old is None else old.components),
        by="" if old is None else old.by,
        at=at if old is None else old.at,
    )
    return () if fresh == old else (_accepted(fresh),)


def set_baseline(state: State, command: cmd.SetBaseline, actor: str, at: int) -> Events | Rejected:
    wanted = command.baseline
    if wanted.vcluster not in state.vclusters:
        known = ", ".join(sorted(state.vclusters))
        return Rejected(code="not_found", message=f'unknown vCluster "{wanted.vcluster}"', hint=f"Known: {known}.")
    if not _is_fingerprint(wanted.fingerprint):
        return Rejected(
            code="invalid",
            message=f'"{wanted.fingerprint[:80]}" is no fingerprint',
            hint="It has 64 hexadecimal digits, or is the beginning of one in use: `lattice admin conformance status`.",
        )
    old = state.drift.baselines.get(wanted.vcluster)
    if old is not None and (old.fingerprint, old.components) == (wanted.fingerprint, wanted.components):
        return ()
    return (ev.BaselineSet(baseline=replace(wanted, set_by=actor, set_at=at)),)


def _is_fingerprint(text: str) -> bool:
    return len(text) == _FINGERPRINT_LENGTH and not set(text) - set("0123456789abcdef")


def unset_baseline(state: State, command: cmd.UnsetBaseline) -> Events | Rejected:
    if command.vcluster not in state.drift.baselines:
        known = ", ".join(sorted(state.drift.baselines))
        return Rejected(
            code="not_found",
            message=f'vCluster "{command.vcluster}" has no declared baseline',
            hint=f"Declared for: {known or 'none'}.",
        )
    return (ev.BaselineUnset(vcluster=command.vcluster),)


def notes_of(state: State, events: Events) -> tuple[AuditNote, ...]:
    """What the audit chain says of drift on sensitive nodes; `state` is the one after the events."""
    noted = (_note_of(state, event) for event in events)
    return tuple(note for note in noted if note is not None)


def order_note(command: cmd.ApproveNode | cmd.SetBaseline | cmd.UnsetBaseline, actor: str) -> AuditNote:
    """What it says of an operator's order."""
    match command:
        case cmd.ApproveNode():
            return AuditNote(kind="node.approve", actor=actor, subject=command.node, nodes=(command.node,))
        case cmd.SetBaseline():
            wanted = command.baseline
            return AuditNote(kind="baseline.set", actor=actor, subject=wanted.vcluster, detail=wanted.fingerprint)
        case cmd.UnsetBaseline():
            return AuditNote(kind="baseline.unset", actor=actor, subject=command.vcluster)
        case _:
            assert_never(command)


def _note_of(state: State, event: ev.AnyEvent) -> AuditNote | None:
    match event:
        # Components that become known after an approval are no news.
        case ev.FingerprintAccepted() if bool(event.accepted.components) != bool(event.accepted.by):
            accepted = event.accepted
            detail = f"has to stay {accepted.fingerprint} in vCluster {accepted.vcluster}"
            return AuditNote(
                kind="conformance.accepted",
                actor=accepted.by or ACTOR,
                subject=accepted.node,
                nodes=(accepted.node,),
                detail=detail,
            )
        case ev.DriftNoted() if event.drift.is_sensitive:
            return _audit("conformance.drift", event.drift, described(event.drift))
        case ev.DriftVerified() | ev.DriftEscalated() if state.drift.drifts[event.node].is_sensitive:
            drift = state.drift.drifts[event.node]
            if isinstance(event, ev.DriftVerified):
                return _audit("conformance.verified", drift, _verified_as(drift, event.fingerprint))
            return _audit("conformance.escalated", drift, described(drift))
        case _:
            return None


def _verified_as(drift: Drift, fingerprint: str) -> str:
    if fingerprint in ("", drift.expected):
        return f"fingerprint {drift.expected} again, waits for approval"
    return f"fingerprint {fingerprint} is no longer against the baseline, waits for approval"


def _audit(kind: str, drift: Drift, detail: str) -> AuditNote:
    return AuditNote(kind=kind, actor=ACTOR, subject=drift.node, nodes=(drift.node,), detail=detail)


def _drained(state: State, drift: Drift) -> Events:
    order = cmd.DrainNode(node=drift.node, reason=f"configuration drift: {described(drift)}")
    return _events(nodes.drain(state, order, ACTOR))


def _events(decision: Events | Rejected) -> Events:
    """A node that cannot be moved this way now is out of service already."""
    return () if isinstance(decision, Rejected) else decision


def _is_ours(node: Node) -> bool:
    """Whether drift drained the node, not a person."""
    return node.drain_wanted and node.drain_words[1] == ACTOR


def _still_drifted(drift: Drift) -> Rejected:
    return Rejected(
        code="conflict",
        message=f"node {drift.node} still differs from the baseline of vCluster {drift.vcluster}: {described(drift)}",
        current=f"fingerprint {drift.actual}",
        limit=f"baseline {drift.expected}",
        hint=f"Remedy it, then `lattice admin conformance refresh {drift.node}` and try again.",
    )
