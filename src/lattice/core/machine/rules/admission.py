"""Who may be a node. Where `node.admission` is `approve`, an unknown node waits in Quarantine until it is admitted.

Known are nodes that were imported, that were nodes already, that were admitted by name, and those whose name is in an enrolment token.
A revoked name is no node, whatever it shows, until it is admitted again; then only with credentials that were issued afterwards. See docs/architecture/nodes.md.
"""

import re

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.node_moves import moved, not_found
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.admission import MAX_ENROLMENTS, MAX_NAMES, MAX_WAITING, Admission, AdmissionStatus
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.settings import setting_value

Events = tuple[ev.AnyEvent, ...]
POLICY = "node.admission"
APPROVE = "approve"
SINCE_LEVEL = 2
REVOKED_REASON = "credentials revoked"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def refusal(state: State, node: str) -> Rejected | None:
    """Why an order cannot bring the node into service; None when admission does not keep it out."""
    standing = state.admission.standing(node)
    if standing is AdmissionStatus.WAITING:
        return Rejected(
            code="conflict",
            message=f"node {node} waits for admission",
            hint=f"`lattice admin node admit {node}` lets it in.",
        )
    if standing is AdmissionStatus.REVOKED:
        return Rejected(
            code="conflict",
            message=f"the credentials of node {node} were revoked",
            hint=f"`lattice admin node admit {node}` lets it back in, with new credentials.",
        )
    return None


def admitted(state: State, name: str) -> Node | Rejected:
    """The node that an order names, if there is one and admission does not keep it out."""
    node = state.nodes.get(name)
    return not_found(state, name) if node is None else refusal(state, name) or node


def arrival(state: State, node: str, at: int) -> Events | Rejected:
    """What becomes of a node that registers for the first time, besides its registration; empty = it boots."""
    if state.admission.standing(node) is not None or setting_value(state.settings, POLICY) != APPROVE:
        return ()
    waiting = sum(each.standing is AdmissionStatus.WAITING for each in state.admission.names.values())
    if waiting >= MAX_WAITING:
        return Rejected(code="conflict", message="too many nodes wait for admission", limit=f"{MAX_WAITING:,} nodes")
    return (ev.NodeJudged(admission=Admission(node=node, standing=AdmissionStatus.WAITING, since=at)),)


def admit(state: State, command: cmd.AdmitNode, actor: str, at: int) -> Events | Rejected:
    """Lets a waiting or revoked node in, or a name that no node had yet."""
    node, known = state.nodes.get(command.node), state.admission.names.get(command.node)
    if known is not None and known.standing is AdmissionStatus.ADMITTED:
        return ()
    if known is None and node is not None:
        return ()
    problem = _check_name(state, command.node)
    if problem is not None:
        return problem
    judged = ev.NodeJudged(
        admission=Admission(
            node=command.node,
            standing=AdmissionStatus.ADMITTED,
            since=at,
            by=actor,
            valid_from=known.valid_from if known is not None else 0,
            reason=command.reason,
        )
    )
    if node is None:
        return (judged,)
    if node.state is NodeState.QUARANTINE and node.wipe is None:
        return (judged, moved(node, NodeTrigger.ADMIT, actor=actor, note=command.reason))
    was_revoked = node.down_cause is DownCause.OPERATOR and node.reason.startswith(REVOKED_REASON)
    if node.state is NodeState.DOWN and was_revoked:  # one that was disabled besides stays disabled
        return (judged, moved(node, NodeTrigger.ENABLE, actor=actor, note=command.reason))
    return (judged,)


def judged_revoked(state: State, command: cmd.RevokeNode, actor: str, at: int) -> ev.NodeJudged | Rejected:
    """The judgement alone; the node goes Down by it like a disabled one."""
    problem = _check_name(state, command.node)
    if problem is not None:
        return problem
    return ev.NodeJudged(
        admission=Admission(
            node=command.node,
            standing=AdmissionStatus.REVOKED,
            since=at,
            by=actor,
            valid_from=at,
            reason=command.reason,
        )
    )


def enrol(state: State, command: cmd.EnrolNode, at: int) -> Events | Rejected:
    """The use of an enrolment token: once, or again for the same node and key."""
    used = command.enrolment
    problem = _check_name(state, used.node)
    if problem is not None:
        return problem
    standing = state.admission.standing(used.node)
    if standing is AdmissionStatus.REVOKED:
        return refusal(state, used.node) or ()
    known = state.admission.enrolments.get(used.token)
    if known is not None and known.expires_at > at:
        if (known.node, known.key) == (used.node, used.key):
            return ()
        return Rejected(
            code="conflict",
            message="this enrolment token was used already",
            hint="A token is good for one key of one node; make another one.",
        )
    if used.expires_at <= at:
        return Rejected(code="conflict", message="this enrolment token has expired")
    live = sum(each.expires_at > at for each in state.admission.enrolments.values())
    if live >= MAX_ENROLMENTS:
        return Rejected(code="conflict", message="too many enrolment tokens at once", limit=f"{MAX_ENROLMENTS:,}")
    events: Events = (ev.NodeEnrolled(enrolment=used),)
    if command.is_named and (standing is None or standing is AdmissionStatus.WAITING) and used.node not in state.nodes:
        named = Admission(node=used.node, standing=AdmissionStatus.ADMITTED, since=at, by="an enrolment token")
        return (*events, ev.NodeJudged(admission=named))
    return events


def _check_name(state: State, node: str) -> Rejected | None:
    if not _NAME.fullmatch(node):
        return Rejected(code="invalid", message=f'"{node[:80]}" cannot be the name of a node')
    if node not in state.admission.names and len(state.admission.names) >= MAX_NAMES:
        return Rejected(code="conflict", message="too many names of nodes", limit=f"{MAX_NAMES:,} names")
    return None


def notes_of(command: cmd.AnyCommand, events: Events, actor: str) -> tuple[AuditNote, ...]:
    """What the audit chain says of who joined, was let in, enrolled, or was shut out."""
    match command:
        case cmd.AdmitNode() if events:
            return (_note("node.admit", actor, command.node, command.reason),)
        case cmd.RevokeNode() if events:
            return (_note("node.revoke", actor, command.node, command.reason),)
        case cmd.EnrolNode() if events:
            return (_note("node.enrol", actor, command.enrolment.node, f"key {command.enrolment.key[:16]}"),)
        case _:
            return ()


def joined(node: str, actor: str, *, waits: bool) -> AuditNote:
    return _note("node.join", actor, node, "waits for admission" if waits else "admitted")


def _note(kind: str, actor: str, node: str, detail: str) -> AuditNote:
    return AuditNote(kind=kind, actor=actor, subject=node, nodes=(node,), detail=detail)
