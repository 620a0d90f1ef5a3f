"""Node lifecycle: who may move a node where. The table says what is possible, these rules say when.

What an operator set (drain, disable) is never undone by a registration or a heartbeat.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import runs
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger, next_node_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes import DownCause, Node, NodeState

Events = tuple[ev.AnyEvent, ...]


def register(state: State, command: cmd.RegisterNode) -> Events:
    node = state.nodes.get(command.node)
    hardware = command.hardware
    if node is not None and not node.is_free and hardware != node.hardware:
        hardware = node.hardware  # what is held was promised on the old figures; taken over once it is free
    registered = ev.NodeRegistered(
        node=command.node,
        hardware=hardware,
        address=command.address,
        boot_id=command.boot_id,
        agent_version=command.agent_version,
    )
    if node is None:
        moved = ev.NodeMoved(node=command.node, trigger=NodeTrigger.REGISTERED, state=NodeState.BOOTING)
        return (registered, moved)
    if node.state is NodeState.DOWN and node.down_cause is DownCause.SILENCE:
        return (registered, _moved(node, NodeTrigger.REGISTERED))
    known = (node.hardware, node.address, node.boot_id, node.agent_version)
    fresh = (hardware, command.address, command.boot_id, command.agent_version)
    return () if known == fresh else (registered,)


def confirm(state: State, command: cmd.ConfirmNode) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    if node.state is NodeState.DEGRADED:
        return (_moved(node, NodeTrigger.RESUMED),)
    if node.state is not NodeState.BOOTING:
        return ()
    if not node.drain_wanted:
        return (_moved(node, NodeTrigger.CONFIRMED),)
    draining = _moved(node, NodeTrigger.CONFIRMED_DRAINING)
    return _then_emptied(node, draining)


def degrade(state: State, command: cmd.DegradeNode) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None or next_node_state(node.state, NodeTrigger.SILENT) is None:
        return Rejected(code="stale", message=f"node {command.node} is not Ready")
    return (_moved(node, NodeTrigger.SILENT, reason=command.reason),)


def recover(state: State, command: cmd.RecoverNode) -> Events:
    node = state.nodes.get(command.node)
    if node is None or node.state is not NodeState.DEGRADED:
        return ()
    return (_moved(node, NodeTrigger.RESUMED),)


def down(state: State, command: cmd.DownNode, actor: str, at: int) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    trigger = NodeTrigger.GIVEN_UP if command.cause is DownCause.SILENCE else NodeTrigger.HARDWARE_FAILED
    if next_node_state(node.state, trigger) is None:
        return Rejected(code="stale", message=f"node {node.id} is {node.state}")
    reason = "" if node.drain_wanted else command.reason
    moved = _moved(node, trigger, cause=command.cause, reason=reason, by=actor)
    return _with_losses(state, node, moved, f"node {node.id} is down: {command.reason or command.cause}", at)


def disable(state: State, command: cmd.DisableNode, actor: str, at: int) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    if node.down_cause is DownCause.OPERATOR:
        return ()
    moved = _moved(node, NodeTrigger.DISABLE, cause=DownCause.OPERATOR, reason=command.reason, by=actor)
    return _with_losses(state, node, moved, f"node {node.id} was disabled", at)


def enable(state: State, command: cmd.EnableNode) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    if node.state in (NodeState.READY, NodeState.BOOTING):
        return ()
    is_silent = node.state is NodeState.DOWN and node.down_cause is DownCause.SILENCE
    if is_silent or next_node_state(node.state, NodeTrigger.ENABLE) is None:
        cause = f" ({node.down_cause})" if node.down_cause else ""
        hint = "It returns by itself when its agent is heard again." if is_silent else "Use undrain for drained nodes."
        return Rejected(code="conflict", message=f"node {node.id} is {node.state}{cause}, not disabled", hint=hint)
    return (_moved(node, NodeTrigger.ENABLE),)


def drain(state: State, command: cmd.DrainNode, actor: str) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    if node.state in (NodeState.DRAINING, NodeState.DRAINED):
        return ()
    if next_node_state(node.state, NodeTrigger.DRAIN) is None:
        return Rejected(code="conflict", message=f"node {node.id} is {node.state} and cannot be drained")
    moved = _moved(node, NodeTrigger.DRAIN, drain=True, cause=node.down_cause, reason=command.reason, by=actor)
    return _then_emptied(node, moved)


def undrain(state: State, command: cmd.UndrainNode) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return _not_found(state, command.node)
    if node.state is NodeState.DRAINING:
        names = ", ".join(allocation_id(number) for number in sorted(node.holders())[:10])
        return Rejected(
            code="conflict",
            message=f"node {node.id} is still Draining",
            current=f"running on it: {names}",
            hint="Wait until it is Drained, or cancel what runs there.",
        )
    if node.state is NodeState.DOWN and node.down_cause is DownCause.DRIFT:
        return (_moved(node, NodeTrigger.UNDRAIN, drain=False),)
    if node.state is not NodeState.DRAINED:
        return Rejected(code="conflict", message=f"node {node.id} is {node.state}, not Drained")
    if command.is_heard:
        return (_moved(node, NodeTrigger.UNDRAIN, drain=False),)
    reason = "undrained while its agent was silent"
    return (_moved(node, NodeTrigger.UNDRAIN_UNHEARD, drain=False, cause=DownCause.SILENCE, reason=reason),)


def _moved(
    node: Node,
    trigger: NodeTrigger,
    *,
    cause: DownCause | None = None,
    drain: bool | None = None,
    reason: str = "",
    by: str = "",
) -> ev.NodeMoved:
    target = next_node_state(node.state, trigger)
    if target is None:
        raise AssertionError(f"{node.state} does not know {trigger}")
    drain_wanted = node.drain_wanted if drain is None else drain
    if drain_wanted and node.drain_wanted and not reason:
        reason, by = node.reason, node.reason_by  # the operator's words stay as long as the drain does
    return ev.NodeMoved(
        node=node.id,
        trigger=trigger,
        state=target,
        down_cause=cause if target is NodeState.DOWN else None,
        drain_wanted=drain_wanted,
        reason=reason,
        by=by,
    )


def _then_emptied(node: Node, moved: ev.NodeMoved) -> Events:
    if moved.state is not NodeState.DRAINING or not node.is_free:
        return (moved,)
    emptied = ev.NodeMoved(
        node=node.id,
        trigger=NodeTrigger.EMPTIED,
        state=NodeState.DRAINED,
        drain_wanted=True,
        reason=moved.reason,
        by=moved.by,
    )
    return (moved, emptied)


def _with_losses(state: State, node: Node, moved: ev.NodeMoved, message: str, at: int) -> Events:
    events: list[ev.AnyEvent] = [moved]
    for number in sorted(node.holders()):
        events += runs.node_lost(state.allocations[number], node.id, message, at)
    return tuple(
        event
        for event in runs.with_emptied(state, tuple(events))
        if not (isinstance(event, ev.NodeMoved) and event.node == node.id and event is not moved)
    )


def _not_found(state: State, node: str) -> Rejected:
    known = ", ".join(sorted(state.nodes)[:20])
    return Rejected(code="not_found", message=f'unknown node "{node}"', hint=f"Known: {known or 'none'}.")
