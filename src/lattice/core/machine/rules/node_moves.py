"""How a move of a node is put into words: the event of the table's transition, with all that stays as it was.

See docs/architecture/nodes.md.
"""

from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger, next_node_state
from lattice.core.model.nodes.drift import ACTOR as CONFORMANCE
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Node, NodeState, Wipe

_OF_BOOTS = (NodeTrigger.BOOT_FAILED, NodeTrigger.BOOTS_EXHAUSTED)
_BOOTED = (NodeTrigger.CONFIRMED, NodeTrigger.CONFIRMED_DRAINING, NodeTrigger.ENABLE)


def is_automatic(actor: str) -> bool:
    """Whether a program of ours drained the node, which a person's drain outlives."""
    return actor == CONFORMANCE or actor.startswith("check/")


def moved(
    node: Node,
    trigger: NodeTrigger,
    *,
    cause: DownCause | None = None,
    drain: bool | None = None,
    reason: str = "",
    by: str = "",
    actor: str = "",
    note: str = "",
    wipe: Wipe | None = None,
    degraded_by: DegradeCause = DegradeCause.SILENCE,
    lost: tuple[int, ...] = (),
) -> ev.NodeMoved:
    """The event; `drain` and `wipe` stay as they were unless they are given. `by` stands beside the reason, `actor` in the history."""
    target = next_node_state(node.state, trigger)
    if target is None:
        raise AssertionError(f"{node.state} does not know {trigger}")
    drain_wanted = node.drain_wanted if drain is None else drain
    actor = actor or by
    if drain_wanted and node.drain_wanted and not reason:
        reason, by = node.drain_words  # the operator's words stay as long as the drain does
    failures = node.boot_failures + 1 if trigger in _OF_BOOTS else 0 if trigger in _BOOTED else node.boot_failures
    return ev.NodeMoved(
        node=node.id,
        trigger=trigger,
        state=target,
        down_cause=cause if target is NodeState.DOWN else None,
        drain_wanted=drain_wanted,
        reason=reason,
        by=by,
        actor=actor,
        note=note,
        degrade_cause=degraded_by,
        boot_failures=failures,
        former_boot=_boot_to_end(node, trigger),
        wipe=None if trigger is NodeTrigger.WIPED else wipe or node.wipe,
        lost=lost,
    )


def _boot_to_end(node: Node, trigger: NodeTrigger) -> str:
    """A reboot that was ordered is still to come when the node is drained meanwhile."""
    if trigger is NodeTrigger.REBOOT:
        return node.boot_id
    return node.former_boot if trigger in (NodeTrigger.DRAIN, NodeTrigger.DRAIN_URGENT) else ""


def emptied(node: Node, before: ev.NodeMoved | None = None) -> ev.NodeMoved:
    """A Draining node is empty; `before` is the move by which it became Draining just now."""
    return ev.NodeMoved(
        node=node.id,
        trigger=NodeTrigger.EMPTIED,
        state=NodeState.DRAINED,
        drain_wanted=before.drain_wanted if before else node.drain_wanted,
        reason=before.reason if before else node.reason,
        by=before.by if before else node.reason_by,
        boot_failures=before.boot_failures if before else node.boot_failures,
        former_boot=before.former_boot if before else node.former_boot,
        wipe=before.wipe if before else node.wipe,
    )


def then_emptied(node: Node, move: ev.NodeMoved) -> tuple[ev.NodeMoved, ...]:
    """The move, and that the node is empty already where it is."""
    if move.state is not NodeState.DRAINING or not node.is_free:
        return (move,)
    return (move, emptied(node, move))


def not_found(state: State, node: str) -> Rejected:
    known = ", ".join(sorted(state.nodes)[:20])
    return Rejected(code="not_found", message=f'unknown node "{node}"', hint=f"Known: {known or 'none'}.")
