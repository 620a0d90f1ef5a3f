"""What is recorded in the audit chain, and how the chain is sealed and shortened.

`notes_of` is asked after every accepted command: administration of nodes, tenants and the cluster, and whatever happens to work in
sensitive vClusters. The entry becomes part of the state by the same command: there is no action without its entry.
See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import admission, node_wipes
from lattice.core.machine.rules.nodes import drift
from lattice.core.machine.rules.site import upgrades
from lattice.core.machine.rules.site.changes import Change, described
from lattice.core.machine.rules.work import watching
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import DownCause
from lattice.core.model.site.audit import MAX_DETAIL, AuditKey, AuditNote, key_id
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.work.allocations import Allocation

Events = tuple[ev.AnyEvent, ...]
MAX_NOTES = 256  # of one command: each becomes a link of the chain, and all of them are computed on every replica
JOINS_SINCE_LEVEL = 2


def add_key(state: State, command: cmd.AddAuditKey, actor: str, at: int) -> Events | Rejected:
    """A new key for a server; the one that it had before is retired."""
    key = command.key
    if len(key.public) != 64 or not _is_hex(key.public) or key_id(key.public) != key.id:
        return Rejected(code="invalid", message="this is no public key of Ed25519 with its id")
    if key.id in state.audit.keys:
        return Rejected(code="already_exists", message=f"audit key {key.id} is known already")
    retired = tuple(
        AuditKey(id=old.id, public=old.public, server=old.server, added_at=old.added_at, retired_at=at)
        for old in state.audit.keys.values()
        if old.server == key.server and not old.retired_at
    )
    fresh = AuditKey(id=key.id, public=key.public, server=key.server, added_at=at)
    return tuple(ev.AuditKeySet(key=each) for each in (*retired, fresh))


def _is_hex(text: str) -> bool:
    return all(letter in "0123456789abcdef" for letter in text)


def record(state: State, command: cmd.RecordAudit) -> Events | Rejected:
    """Accepted without an event of its own: `notes_of` makes the entries."""
    if not state.audit.is_on:
        return Rejected(code="conflict", message="nothing can be recorded: the audit chain has no key yet")
    if len(command.notes) > MAX_NOTES:
        return Rejected(code="invalid", message="too many notes at once", limit=f"{MAX_NOTES}")
    return ()


def seal(state: State, command: cmd.SealAudit) -> Events | Rejected:
    """Accept a seal that starts exactly where the last one ended; the proposer checked its signature."""
    registry, made = state.audit, command.seal
    key = registry.keys.get(made.key)
    if key is None or key.retired_at:
        return Rejected(code="conflict", message=f"audit key {made.key} does not seal")
    begins = made.first == registry.head.sealed + 1 and made.previous == registry.head.sealed_link
    if not begins or made.last < made.first or registry.link_at(made.last) != made.head:
        return Rejected(code="stale", message="the seal does not fit the chain")
    return (ev.AuditSealed(seal=made),)


def archive(state: State, command: cmd.ArchiveAudit) -> Events | Rejected:
    """Lets sealed entries leave the hot state, whole segments only."""
    if command.last not in state.audit.seals:
        return Rejected(code="stale", message="no sealed part of the audit chain ends there")
    return (ev.AuditArchived(last=command.last),)


_NodeOrder = (
    cmd.DrainNode | cmd.UndrainNode | cmd.DisableNode | cmd.EnableNode | cmd.RebootNode | cmd.WipeNode | cmd.DownNode
)
_ORDERS: dict[type[_NodeOrder], str] = {
    cmd.DrainNode: "node.drain",
    cmd.UndrainNode: "node.undrain",
    cmd.DisableNode: "node.disable",
    cmd.EnableNode: "node.enable",
    cmd.RebootNode: "node.reboot",
    cmd.WipeNode: "node.wipe",
    cmd.DownNode: "node.fault",  # reported by an operator; a node that goes silent was ordered by no one
}
_Administrative = (
    cmd.ImportNodes
    | cmd.SetTenant
    | cmd.SetProject
    | cmd.SetVcluster
    | cmd.SetReservation
    | cmd.DeleteReservation
    | cmd.DeleteRecord
    | cmd.SetSetting
    | cmd.AddAuditKey
    | cmd.ApproveNode
    | cmd.SetBaseline
    | cmd.UnsetBaseline
    | cmd.RaiseLevel
    | cmd.BeginUpgrade
    | cmd.TurnUpgrade
)


# Commands and events that leave no entry unless there is sensitive work: a short way for nearly all of the log.
_OF_WORK = frozenset({cmd.SubmitAllocation, cmd.PlaceAllocation, cmd.ReportPart, cmd.StartPart, cmd.EndPart})
_SILENT = frozenset(
    {ev.PartChanged, ev.AllocationSubmitted, ev.AllocationPlaced, ev.AllocationStarted, ev.AllocationEnded}
)


def notes_of(
    state: State, envelope: cmd.Envelope, events: Events, changed: tuple[Change, ...] = ()
) -> tuple[AuditNote, ...]:
    """What to record of a command that was accepted, led to these events and changed these fields of records."""
    command, actor = envelope.command, envelope.actor
    if type(command) in _OF_WORK and not state.audit.sensitive and _SILENT.issuperset(map(type, events)):
        return ()  # nearly all commands of a busy cluster
    if isinstance(command, cmd.RecordAudit):
        return command.notes
    notes: tuple[AuditNote, ...] = ()
    if events and isinstance(command, _Administrative):
        note = _administration(command, actor)
        notes = (replace(note, detail=described(changed, MAX_DETAIL)) if changed else note,)
    elif events and isinstance(command, _NodeOrder):
        notes = _ordered(command, actor)
    notes += watching.notes_of(state, events, actor)
    notes += drift.notes_of(state, events) + node_wipes.notes_of(state, events) + _admissions(state, envelope, events)
    if not state.audit.sensitive:
        return notes
    noted = (_sensitive(state, event, actor) for event in events)
    return notes + tuple(note for note in noted if note is not None)


def _admissions(state: State, envelope: cmd.Envelope, events: Events) -> tuple[AuditNote, ...]:
    command, actor = envelope.command, envelope.actor
    if not isinstance(command, cmd.RegisterNode):
        return admission.notes_of(command, events, actor)
    is_first = any(isinstance(event, ev.NodeRegistered) and event.is_first for event in events)
    # Older servers recorded no joins, and their logs must give the same chain.
    if not is_first or state.level < JOINS_SINCE_LEVEL:
        return ()
    waits = any(isinstance(event, ev.NodeJudged) for event in events)
    return (admission.joined(command.node, actor, waits=waits),)


def _administration(command: _Administrative, actor: str) -> AuditNote:
    match command:
        case cmd.ImportNodes():
            return AuditNote(
                kind="node.import", actor=actor, subject=command.source, detail=f"{len(command.nodes)} nodes"
            )
        case cmd.SetTenant():
            name = command.tenant.name
            return AuditNote(kind=_verb("tenant", create=command.create), actor=actor, subject=name, tenant=name)
        case cmd.SetProject():
            kind, tenant = _verb("project", create=command.create), command.project.tenant
            return AuditNote(kind=kind, actor=actor, subject=command.project.name, tenant=tenant)
        case cmd.SetVcluster():
            kind = _verb("vcluster", create=command.create)
            detail = f"scheduler {command.vcluster.scheduler}"
            return AuditNote(kind=kind, actor=actor, subject=command.vcluster.name, detail=detail)
        case cmd.SetReservation():
            kind, kept = _verb("reservation", create=command.create), command.reservation
            return AuditNote(kind=kind, actor=actor, subject=kept.name, nodes=kept.nodes)
        case cmd.DeleteReservation():
            return AuditNote(kind="reservation.delete", actor=actor, subject=command.name)
        case cmd.DeleteRecord():
            return _deletion(command, actor)
        case cmd.SetSetting():
            return AuditNote(kind="setting.set", actor=actor, subject=command.key, detail=command.value)
        case cmd.RaiseLevel():
            return AuditNote(kind="upgrade.finalize", actor=actor, subject=f"level {command.level}")
        case cmd.BeginUpgrade() | cmd.TurnUpgrade():
            return upgrades.order_note(command, actor)
        case cmd.AddAuditKey():
            detail = f"server {command.key.server}"
            return AuditNote(kind="audit.key", actor=actor, subject=command.key.id, detail=detail)
        case _:
            return drift.order_note(command, actor)


def _deletion(command: cmd.DeleteRecord, actor: str) -> AuditNote:
    tenant = command.name if command.what is Deletable.TENANT else command.tenant
    nodes = (command.name,) if command.what is Deletable.NODE else ()
    return AuditNote(kind=f"{command.what}.delete", actor=actor, subject=command.name, tenant=tenant, nodes=nodes)


def _verb(what: str, *, create: bool) -> str:
    return f"{what}.create" if create else f"{what}.update"


def _ordered(command: _NodeOrder, actor: str) -> tuple[AuditNote, ...]:
    if isinstance(command, cmd.DownNode) and command.cause is not DownCause.HARDWARE:
        return ()
    return (_node(_ORDERS[type(command)], actor, command.node, command.reason),)


def _node(kind: str, actor: str, node: str, detail: str) -> AuditNote:
    return AuditNote(kind=kind, actor=actor, subject=node, nodes=(node,), detail=detail)


# What is recorded of sensitive work besides its submission, by the event that shows it.
_KINDS: dict[type, str] = {
    ev.AllocationPlaced: "allocation.place",
    ev.AllocationStarted: "allocation.start",
    ev.AllocationStopping: "allocation.stop",
    ev.AllocationEnded: "allocation.end",
    ev.AllocationRequeued: "allocation.requeue",
    ev.AllocationHeld: "allocation.hold",
    ev.AllocationReleased: "allocation.release",
    ev.AllocationUpdated: "allocation.update",
    ev.AllocationPaused: "allocation.pause",
    ev.StepsRecorded: "allocation.steps",
}


def _sensitive(state: State, event: ev.AnyEvent, actor: str) -> AuditNote | None:
    match event:
        case ev.AllocationSubmitted():
            return _work(state, "allocation.submit", event.allocation, actor)
        case ev.TaskGroupSubmitted():
            return _work(state, "allocation.submit", event.group.template, actor, number=event.group.number)
        case ev.TasksCancelled():
            head = state.groups[event.group].template
            detail = f"{event.count} waiting tasks given up: {event.cause}"
            return _work(state, "allocation.end", head, actor, number=event.group, detail=detail)
        case _:
            kind = _KINDS.get(type(event))
            record = state.find(getattr(event, "number", 0)) if kind is not None else None
            if kind is None or record is None:
                return None
            return _work(state, kind, record, actor, detail=_detail(event))


def _detail(event: ev.AnyEvent) -> str:
    match event:
        case ev.AllocationEnded():
            return f"{event.state}, cause {event.cause}"
        case ev.AllocationStopping():
            return f"{event.intent}"
        case ev.StepsRecorded():
            return ", ".join(f"step {step.step} {step.name}" for step in event.steps)
        case _:
            return ""


def _work(
    state: State, kind: str, record: Allocation, actor: str, *, number: int = 0, detail: str = ""
) -> AuditNote | None:
    if record.vcluster not in state.audit.sensitive:
        return None
    number = number or record.number
    return AuditNote(
        kind=kind,
        actor=actor,
        subject=allocation_id(number),
        user=record.user,
        tenant=record.tenant,
        allocation=number,
        nodes=record.run_nodes,
        detail=detail or f"{record.name} in {record.vcluster}",
    )
