"""Node lifecycle: who may move a node where. The table says what is possible, these rules say when.

What an operator set (drain, disable) is never undone by a registration or a heartbeat, what a check began never by a heartbeat, and
a wipe that is owed by nothing but the wipe. See docs/architecture/nodes.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import admission, instances, node_wipes
from lattice.core.machine.rules.checkpoints.asking import before_stop
from lattice.core.machine.rules.node_moves import is_automatic, moved, not_found, then_emptied
from lattice.core.machine.rules.nodes import hints as node_hints
from lattice.core.machine.rules.work import runs
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger, next_node_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.admission import AdmissionStatus
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Node, NodeState
from lattice.core.model.work.allocations import AllocationState, PartPhase, StopIntent
from lattice.core.model.work.checkpoints import CheckpointReason

Events = tuple[ev.AnyEvent, ...]
_Ending = ev.AllocationStopping | ev.PartChanged | ev.RolloutChanged | ev.CheckpointRequested | ev.CheckpointRevised
MAX_BOOTS = 3  # consecutive failed boots before the node counts as failed


def register(state: State, command: cmd.RegisterNode, actor: str = "", at: int = 0) -> Events | Rejected:
    node = state.nodes.get(command.node)
    if state.admission.standing(command.node) is AdmissionStatus.REVOKED:
        return admission.refusal(state, command.node) or ()
    hardware = command.hardware
    if node is not None and not node.is_free and hardware != node.hardware:
        hardware = node.hardware  # what is held was promised on the old figures; taken over once it is free
    registered = ev.NodeRegistered(
        node=command.node,
        hardware=hardware,
        address=command.address,
        boot_id=command.boot_id,
        agent_version=command.agent_version,
        is_first=node is None or node.state is NodeState.UNKNOWN,
    )
    if node is None:
        arrived = admission.arrival(state, command.node, at)
        if isinstance(arrived, Rejected):
            return arrived
        return (registered, *arrived, _first_move(command.node, actor, waits=bool(arrived)))
    if node.state is NodeState.UNKNOWN or node.down_cause is DownCause.SILENCE:
        return (registered, moved(node, NodeTrigger.REGISTERED, actor=actor))
    known = (node.hardware, node.address, node.boot_id, node.agent_version)
    fresh = (hardware, command.address, command.boot_id, command.agent_version)
    return () if known == fresh else (registered,)


def _first_move(node: str, actor: str, *, waits: bool) -> ev.NodeMoved:
    if not waits:
        return ev.NodeMoved(node=node, trigger=NodeTrigger.REGISTERED, state=NodeState.BOOTING, actor=actor)
    reason = f"waits for admission: lattice admin node admit {node}"
    return ev.NodeMoved(node=node, trigger=NodeTrigger.WAIT, state=NodeState.QUARANTINE, reason=reason, actor=actor)


def revoke(state: State, command: cmd.RevokeNode, actor: str, at: int) -> Events | Rejected:
    """Nothing that the node shows counts any more; it is Down, and what ran there is lost."""
    judged = admission.judged_revoked(state, command, actor, at)
    node = state.nodes.get(command.node)
    if isinstance(judged, Rejected):
        return judged
    if node is None or node.down_cause is DownCause.OPERATOR:
        return (judged,)
    reason = f"{admission.REVOKED_REASON}{': ' if command.reason else ''}{command.reason}"
    move = moved(node, NodeTrigger.DISABLE, cause=DownCause.OPERATOR, reason=reason, by=actor)
    return (judged, *_with_losses(state, node, move, f"the credentials of node {node.id} were revoked", at))


def confirm(state: State, command: cmd.ConfirmNode, actor: str = "") -> Events | Rejected:
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    if node.state is NodeState.DEGRADED and node.degrade_cause is DegradeCause.SILENCE:
        return (moved(node, NodeTrigger.RESUMED, actor=actor),)
    if node.state is not NodeState.BOOTING or node.awaits_reboot:
        return ()
    if not node.is_kept_back:
        return (moved(node, NodeTrigger.CONFIRMED, actor=actor),)
    reason = "" if node.drain_wanted or node.wipe is None else f"to be wiped: {node.wipe.why}"
    return then_emptied(node, moved(node, NodeTrigger.CONFIRMED_DRAINING, reason=reason, actor=actor))


def fail_boot(state: State, command: cmd.FailBoot, actor: str = "") -> Events | Rejected:
    """One failed boot is silence, and the node may come back by itself; MAX_BOOTS in a row are Failed, which needs a person."""
    node = state.nodes.get(command.node)
    if node is None or node.state is not NodeState.BOOTING:
        return Rejected(code="stale", message=f"node {command.node} is not Booting")
    tries = node.boot_failures + 1
    place = f"{tries} of {MAX_BOOTS}" if tries <= MAX_BOOTS else f"number {tries} in a row"
    reason = f"boot {place} failed: {command.reason or 'not ready in time'}"
    if tries >= MAX_BOOTS:
        return (moved(node, NodeTrigger.BOOTS_EXHAUSTED, reason=reason, actor=actor),)
    shown, cause = "" if node.drain_wanted else reason, DownCause.SILENCE
    return (moved(node, NodeTrigger.BOOT_FAILED, cause=cause, reason=shown, actor=actor, note=reason),)


def reboot(state: State, command: cmd.RebootNode, actor: str) -> Events | Rejected:
    """Only of nodes that hold no work, and never past a disabling, a drift or a wipe."""
    node = admission.admitted(state, command.node)
    if isinstance(node, Rejected):
        return node
    waits_for_wipe = node.state is NodeState.DRAINED and node.wipe is not None
    is_kept_down = node.down_cause in (DownCause.OPERATOR, DownCause.DRIFT)
    if waits_for_wipe or is_kept_down or next_node_state(node.state, NodeTrigger.REBOOT) is None:
        message = f"node {node.id} is {node.state} and cannot be rebooted"
        return Rejected(code="conflict", message=message, hint=node_hints.to_reboot(node))
    return (moved(node, NodeTrigger.REBOOT, actor=actor, note=command.reason),)


def degrade(state: State, command: cmd.DegradeNode, actor: str = "") -> Events | Rejected:
    """Silent, or failing a check. A check may also take over a node that silence degraded, never the other way round."""
    node = state.nodes.get(command.node)
    trigger = NodeTrigger.SILENT if command.cause is DegradeCause.SILENCE else NodeTrigger.CHECK_FAILED
    if node is None or next_node_state(node.state, trigger) is None:
        return Rejected(code="stale", message=f"node {command.node} is not Ready")
    known = (node.state, node.degrade_cause, node.reason)
    if known == (NodeState.DEGRADED, command.cause, command.reason):
        return ()
    by = actor if command.cause is DegradeCause.CHECK else ""
    return (moved(node, trigger, reason=command.reason, by=by, actor=actor, degraded_by=command.cause),)


def recover(state: State, command: cmd.RecoverNode, actor: str = "") -> Events:
    """Ends only what the same cause began: a heartbeat does not make up for a failed check. Late and repeated ones do nothing."""
    node = state.nodes.get(command.node)
    if node is None or node.state is not NodeState.DEGRADED or node.degrade_cause is not command.cause:
        return ()
    trigger = NodeTrigger.RESUMED if command.cause is DegradeCause.SILENCE else NodeTrigger.CHECK_PASSED
    return (moved(node, trigger, actor=actor),)


# Which trigger a cause stands for. None: that cause has a command of its own, and `down` refuses it.
_FALLS: dict[DownCause, NodeTrigger | None] = {
    DownCause.SILENCE: NodeTrigger.GIVEN_UP,
    DownCause.HARDWARE: NodeTrigger.HARDWARE_FAILED,
    DownCause.DRIFT: NodeTrigger.DRIFT_EXPIRED,
    DownCause.OPERATOR: None,  # by disable
}


def down(state: State, command: cmd.DownNode, actor: str, at: int) -> Events | Rejected:
    """Gives the node up, and with it what runs there. A stronger cause may replace silence; no cause replaces a stronger one."""
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    trigger = _FALLS[command.cause]
    if trigger is None:
        return Rejected(code="invalid", message=f"a node is not Down by {command.cause}", hint="Use disable.")
    if next_node_state(node.state, trigger) is None:
        return Rejected(code="stale", message=f"node {node.id} is {node.state}")
    if node.state is NodeState.DOWN and node.down_cause is not DownCause.SILENCE:
        return Rejected(code="stale", message=f"node {node.id} is Down already: {node.down_cause}")
    if command.cause is DownCause.DRIFT and node.holders():
        return Rejected(code="stale", message=f"node {node.id} has drifted, but work still runs there")
    message = f"node {node.id} is down: {command.reason or command.cause}"
    reason = "" if node.drain_wanted else command.reason
    move = moved(node, trigger, cause=command.cause, reason=reason, by=actor, note=command.reason)
    return _with_losses(state, node, move, message, at)


def disable(state: State, command: cmd.DisableNode, actor: str, at: int) -> Events | Rejected:
    """From any state and at once. Only `enable` ends it: an operator's order outranks whatever the node says of itself."""
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    if node.down_cause is DownCause.OPERATOR and command.reason in ("", node.reason):
        return ()
    move = moved(node, NodeTrigger.DISABLE, cause=DownCause.OPERATOR, reason=command.reason, by=actor)
    return _with_losses(state, node, move, f"node {node.id} was disabled", at)


def enable(state: State, command: cmd.EnableNode, actor: str = "") -> Events | Rejected:
    """Ends what an operator ended. Not silence, which its agent ends by registering, and not drift, which needs a repair."""
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    if node.state in (NodeState.READY, NodeState.BOOTING):
        return ()
    kept_out = admission.refusal(state, node.id)
    if kept_out is not None:
        return kept_out
    is_silent = node.state is NodeState.DOWN and node.down_cause is DownCause.SILENCE
    has_drifted = node.down_cause is DownCause.DRIFT
    if is_silent or has_drifted or next_node_state(node.state, NodeTrigger.ENABLE) is None:
        cause = f" ({node.down_cause})" if node.down_cause else ""
        message = f"node {node.id} is {node.state}{cause}, not disabled"
        return Rejected(code="conflict", message=message, hint=node_hints.back_into_service(node))
    return (moved(node, NodeTrigger.ENABLE, actor=actor, note=command.reason),)


def drain(state: State, command: cmd.DrainNode, actor: str, at: int = 0) -> Events | Rejected:
    """Wanted from now on, whatever becomes of the node meanwhile; work that runs there may end, unless it is urgent.

    A repeated order changes nothing, with one exception: a person takes over a drain that a program ordered.
    """
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    trigger = NodeTrigger.DRAIN_URGENT if command.urgent else NodeTrigger.DRAIN
    ended = _ended_urgently(state, node, at) if command.urgent else ()
    why, by = node.drain_words if node.drain_wanted else ("", "")
    is_news = not node.drain_wanted or _is_news(command, actor, why, by)
    if not is_news and not ended and node.state is not NodeState.BOOTING:
        return ()
    if next_node_state(node.state, trigger) is None:
        return Rejected(code="conflict", message=f"node {node.id} is {node.state} and cannot be drained")
    move = moved(
        node,
        trigger,
        drain=True,
        cause=node.down_cause,
        reason=command.reason if is_news and command.reason else why,
        by=actor if is_news else by,
        actor=actor,
        lost=tuple(event.number for event in ended),
    )
    return (*then_emptied(node, move), *ended)


def _is_news(command: cmd.DrainNode, actor: str, why: str, by: str) -> bool:
    """Of a node that is drained already: a person's order makes it that person's drain, or gives another reason for it."""
    return not is_automatic(actor) and (is_automatic(by) or command.reason not in ("", why))


def _ended_urgently(state: State, node: Node, at: int) -> tuple[_Ending, ...]:
    """What runs there is ended after its grace, wherever else it runs, and queued again; an instance of a service leaves alone.

    Work that can write a checkpoint does so first; a repeated order ends at once what still writes.
    """
    ended: list[_Ending] = []
    for number in sorted(node.holders()):
        record = state.allocations[number]
        part = next((each for each in record.parts if each.node == node.id), None)
        if part is not None and instances.can_leave(record, node.id):
            if part.phase is not PartPhase.LEAVING or record.is_renewed(node.id):
                ended += instances.leaving(record, part, f"node {node.id} was drained urgently")
        elif record.state is not AllocationState.STOPPING:
            is_open = record.checkpoints.open
            is_asked = is_open is not None and is_open.stops and is_open.reason is CheckpointReason.DRAIN
            asked = None if is_asked else before_stop(state, record, CheckpointReason.DRAIN, at, lost_node=node.id)
            ended.append(asked or ev.AllocationStopping(number=number, intent=StopIntent.DRAIN, lost_node=node.id))
    return tuple(ended)


def undrain(state: State, command: cmd.UndrainNode, actor: str = "") -> Events | Rejected:
    """Back into service, but never past a wipe or a reboot that is still to come, nor Ready while its agent is not heard."""
    node = state.nodes.get(command.node)
    if node is None:
        return not_found(state, command.node)
    if node.state is NodeState.DRAINING:
        names = ", ".join(allocation_id(number) for number in sorted(node.holders())[:10])
        return Rejected(
            code="conflict",
            message=f"node {node.id} is still Draining",
            current=f"running on it: {names}",
            hint="Wait until it is Drained, or cancel what runs there.",
        )
    if node.state is NodeState.DOWN and node.down_cause is DownCause.DRIFT:
        return (moved(node, NodeTrigger.UNDRAIN, drain=False, actor=actor, note=command.reason),)
    if node.state is not NodeState.DRAINED:
        message = f"node {node.id} is {node.state}, not Drained"
        return Rejected(code="conflict", message=message, hint=node_hints.back_into_service(node))
    if node.wipe is not None:
        return Rejected(
            code="conflict",
            message=f"node {node.id} waits to be wiped: {node.wipe.why}",
            hint=f"It returns when it is wiped; `lattice admin node wipe {node.id} --force` tries again.",
        )
    if node.awaits_reboot:
        return Rejected(
            code="conflict",
            message=f"node {node.id} was ordered to reboot, and that is still to come",
            hint="Undrain it when it is back; one that is not to be rebooted any more is disabled and enabled first.",
        )
    if command.is_heard:
        return (moved(node, NodeTrigger.UNDRAIN, drain=False, actor=actor, note=command.reason),)
    reason = "undrained while its agent was silent"
    cause = DownCause.SILENCE
    return (moved(node, NodeTrigger.UNDRAIN_UNHEARD, drain=False, cause=cause, reason=reason, actor=actor),)


def _with_losses(state: State, node: Node, move: ev.NodeMoved, message: str, at: int) -> Events:
    """The node is Down, and what held it has lost it; sensitive work leaves a wipe behind."""
    lost = tuple(sorted(node.holders()))
    down = replace(move, lost=lost, wipe=node_wipes.owed(state, node, at) or move.wipe)
    events: list[ev.AnyEvent] = [down]
    for number in lost:
        events += runs.node_lost(state.allocations[number], node.id, message, at)
    return tuple(
        event
        for event in runs.with_emptied(state, tuple(events), at)
        if not (isinstance(event, ev.NodeMoved) and event.node == node.id and event is not down)
    )
