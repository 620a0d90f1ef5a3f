"""Wipes: what sensitive work leaves on a node is wiped before anybody else gets the node, or the node is quarantined.

Before: a node that sensitive work leaves. After: it is Draining or Drained with a `wipe` that only a confirmed wipe takes away; a failed
one makes it a node in Quarantine, which only an operator's order leads out of. A node that goes Down keeps its wipe until it is back.
See docs/architecture/nodes.md.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import admission
from lattice.core.machine.rules.node_moves import emptied, moved, then_emptied
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger, next_node_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Node, NodeState, Wipe
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.settings import setting_value

Events = tuple[ev.AnyEvent, ...]
REQUIRE_WIPE = "sensitive.require_wipe"


def is_due(state: State, node: Node) -> bool:
    """Whether the node has to be wiped once what holds it now is gone."""
    return bool(node.vcluster in state.audit.sensitive) and setting_value(state.settings, REQUIRE_WIPE) == "true"


def owed(state: State, node: Node, at: int) -> Wipe | None:
    """The wipe that a node owes which loses its work now; None when it owes none."""
    if not is_due(state, node):
        return None
    names = ", ".join(allocation_id(number) for number in sorted(node.holders()))
    return Wipe(since=_since(node, at), why=f"sensitive work was lost: {names}")


def left(state: State, gone: Iterable[int], at: int) -> Events:
    """The moves of nodes that the allocations `gone` leave: draining ones may be empty, those of sensitive work are wiped."""
    ended = frozenset(gone)
    moves: dict[str, Events] = {}
    for number in sorted(ended):
        for name in state.allocations[number].nodes if number in state.allocations else ():
            node = state.nodes[name]
            is_empty = ended.issuperset(node.holders())
            if next_node_state(node.state, NodeTrigger.WIPE) is NodeState.DRAINING and is_due(state, node):
                moves[name] = _begun(node, number, at, is_empty=is_empty)
            elif node.state is NodeState.DRAINING and is_empty:
                moves[name] = (emptied(node),)
    return tuple(move for each in moves.values() for move in each)


def left_node(state: State, number: int, name: str, at: int) -> Events:
    """The same of one node that leaves an allocation that continues."""
    node = state.nodes[name]
    is_empty = node.holders() == (number,)
    if next_node_state(node.state, NodeTrigger.WIPE) is NodeState.DRAINING and is_due(state, node):
        return _begun(node, number, at, is_empty=is_empty)
    if node.state is NodeState.DRAINING and is_empty:
        return (emptied(node),)
    return ()


def _begun(node: Node, number: int, at: int, *, is_empty: bool) -> Events:
    why = f"sensitive work {allocation_id(number)} has left it"
    wipe = Wipe(since=_since(node, at), why=why)
    move = moved(node, NodeTrigger.WIPE, wipe=wipe, reason="" if node.drain_wanted else f"to be wiped: {why}")
    return (move, emptied(node, move)) if is_empty else (move,)


def wipe(state: State, command: cmd.WipeNode, actor: str, at: int) -> Events | Rejected:
    """An operator's order: a first wipe, or another one after a failure."""
    node = admission.admitted(state, command.node)
    if isinstance(node, Rejected):
        return node
    if next_node_state(node.state, NodeTrigger.WIPE) is None:
        return Rejected(
            code="conflict",
            message=f"node {node.id} is {node.state} and cannot be wiped",
            hint="Ready, draining, drained and quarantined nodes can.",
        )
    asked = Wipe(
        since=_since(node, at),
        why=command.reason or "asked for",
        by=actor,
        is_forced=command.force,
        tries=node.wipe.tries + 1 if node.wipe is not None else 1,
    )
    reason = "" if node.drain_wanted and node.state is not NodeState.QUARANTINE else f"to be wiped: {asked.why}"
    return then_emptied(node, moved(node, NodeTrigger.WIPE, wipe=asked, reason=reason, by=actor))


def finish(state: State, command: cmd.FinishWipe, actor: str) -> Events | Rejected:
    """What a wipe came to; of an earlier one it is refused."""
    node = state.nodes.get(command.node)
    wipe = node.wipe if node is not None and node.state is NodeState.DRAINED else None
    if node is None or wipe is None or wipe.since != command.since:
        return Rejected(code="stale", message=f"node {command.node} does not wait for this wipe")
    if command.is_wiped:
        return (moved(node, NodeTrigger.WIPED, actor=actor, note=command.reason),)
    reason = f"the wipe failed: {command.reason or 'no reason given'}"
    return (moved(node, NodeTrigger.WIPE_FAILED, reason=reason, actor=actor),)


# partial: only the ends of a wipe go into the audit chain
_NOTED = {NodeTrigger.WIPED: "node.wiped", NodeTrigger.WIPE_FAILED: "node.wipe_failed"}


def notes_of(state: State, events: Events) -> tuple[AuditNote, ...]:
    """What the audit chain says of wipes, and of nodes that went silent with sensitive work."""
    noted = (_note_of(state, event) for event in events if isinstance(event, ev.NodeMoved))
    return tuple(note for note in noted if note is not None)


def _note_of(state: State, event: ev.NodeMoved) -> AuditNote | None:
    kind, detail = _NOTED.get(event.trigger, ""), event.note or event.reason
    if event.trigger is NodeTrigger.WIPE and event.wipe is not None and not event.actor:
        kind, detail = "node.wipe", event.wipe.why  # an operator's order is recorded as such
    elif event.trigger is NodeTrigger.WIPE_FAILED and event.wipe is not None:
        detail = f"{event.reason}; begun at {_moment(event.wipe.since)}, try {event.wipe.tries}"
    elif event.trigger is NodeTrigger.SILENT and state.nodes[event.node].vcluster in state.audit.sensitive:
        kind = "node.silent"
    elif event.trigger is NodeTrigger.GIVEN_UP and _is_sensitive_loss(state, event):
        kind = "node.lost"
    if not kind:
        return None
    return AuditNote(kind=kind, actor=event.actor, subject=event.node, nodes=(event.node,), detail=detail)


def _is_sensitive_loss(state: State, event: ev.NodeMoved) -> bool:
    records = (state.allocations.get(number) for number in event.lost)
    return any(record is not None and record.vcluster in state.audit.sensitive for record in records)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, tz=UTC).isoformat(timespec="seconds")


def _since(node: Node, at: int) -> int:
    """Never the same for two wipes of a node."""
    return at if node.wipe is None else max(at, node.wipe.since + 1)
