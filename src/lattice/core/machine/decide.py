"""Judges a command against the state and says what follows from it. Changes nothing."""

from typing import assert_never

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import node_wipes
from lattice.core.machine.rules.nodes import drift, nodes
from lattice.core.machine.rules.site import administration, audit, specifications
from lattice.core.machine.rules.work import (
    allocations,
    dags,
    deadlines,
    notifications,
    placement,
    ranges,
    reservations,
    runs,
    steps,
    submission,
)
from lattice.core.machine.rules.work import suspension as pauses
from lattice.core.machine.state import State

Decision = tuple[ev.AnyEvent, ...] | Rejected


def decide(state: State, envelope: cmd.Envelope) -> Decision:
    """The events of a command, or why it is refused."""
    command, at = envelope.command, envelope.at
    match command:
        case cmd.SubmitAllocation():
            return submission.submit(state, command, at)
        case cmd.ReportPart():
            return runs.report(state, command, at)
        case cmd.RecordSteps():
            return steps.record(state, command)
        case cmd.PlaceAllocation():
            return placement.place(state, command, at)
        case cmd.LosePart() | cmd.ExpireAllocation() | cmd.RollbackRun() | cmd.EnforceDeadline():
            return _decide_run(state, command, at)
        case cmd.SubmitDag() | cmd.CancelDag():
            return _decide_dag(state, command, envelope.actor, at)
        case (
            cmd.CancelAllocation()
            | cmd.HoldAllocation()
            | cmd.ReleaseAllocation()
            | cmd.RequeueAllocation()
            | cmd.UpdateAllocation()
            | cmd.PauseAllocation()
            | cmd.ArchiveAllocations()
            | cmd.FoldTasks()
        ):
            return _decide_allocation(state, command)
        case cmd.SetTenant() | cmd.SetProject() | cmd.SetVcluster() | cmd.SetSetting() | cmd.RecordSnapshot():
            return _decide_administration(state, command, at)
        case cmd.SetReservation() | cmd.DeleteReservation():
            return _decide_reservation(state, command, envelope.actor, at)
        case cmd.SetNotifyDefault() | cmd.NoteTimeLimit() | cmd.SettleNotifications():
            return _decide_notification(state, command, at)
        case cmd.RecordAudit() | cmd.AddAuditKey() | cmd.SealAudit() | cmd.ArchiveAudit():
            return _decide_audit(state, command, envelope.actor, at)
        case _:
            return _decide_node(state, command, envelope.actor, at)


_AllocationCommand = (
    cmd.CancelAllocation
    | cmd.HoldAllocation
    | cmd.ReleaseAllocation
    | cmd.RequeueAllocation
    | cmd.UpdateAllocation
    | cmd.PauseAllocation
    | cmd.ArchiveAllocations
    | cmd.FoldTasks
)
_AdministrationCommand = cmd.SetTenant | cmd.SetProject | cmd.SetVcluster | cmd.SetSetting | cmd.RecordSnapshot
_NodeCommand = (
    cmd.RegisterNode
    | cmd.ConfirmNode
    | cmd.FailBoot
    | cmd.RebootNode
    | cmd.DegradeNode
    | cmd.RecoverNode
    | cmd.DownNode
    | cmd.DrainNode
    | cmd.UndrainNode
    | cmd.DisableNode
    | cmd.EnableNode
    | cmd.WipeNode
    | cmd.FinishWipe
    | cmd.ImportNodes
)


def _decide_run(
    state: State, command: cmd.LosePart | cmd.ExpireAllocation | cmd.RollbackRun | cmd.EnforceDeadline, at: int
) -> Decision:
    match command:
        case cmd.LosePart():
            return runs.lose(state, command, at)
        case cmd.ExpireAllocation():
            return runs.expire(state, command)
        case cmd.RollbackRun():
            return runs.roll_back(state, command)
        case cmd.EnforceDeadline():
            return deadlines.enforce(state, command, at)
        case _:
            assert_never(command)


def _decide_dag(state: State, command: cmd.SubmitDag | cmd.CancelDag, actor: str, at: int) -> Decision:
    if isinstance(command, cmd.SubmitDag):
        return dags.submit(state, command, at)
    return dags.cancel(state, command, actor)


def _decide_reservation(
    state: State, command: cmd.SetReservation | cmd.DeleteReservation, actor: str, at: int
) -> Decision:
    if isinstance(command, cmd.SetReservation):
        return reservations.set_reservation(state, command, actor, at)
    return reservations.delete_reservation(state, command)


def _decide_allocation(state: State, command: _AllocationCommand) -> Decision:
    match command:
        case cmd.CancelAllocation():
            return ranges.cancel(state, command) if command.positions else allocations.cancel(state, command)
        case cmd.HoldAllocation():
            return ranges.hold(state, command) if command.positions else allocations.hold(state, command)
        case cmd.ReleaseAllocation():
            return ranges.release(state, command) if command.positions else allocations.release(state, command)
        case cmd.RequeueAllocation():
            return ranges.requeue(state, command) if command.positions else allocations.requeue(state, command)
        case cmd.UpdateAllocation():
            return allocations.update(state, command)
        case cmd.PauseAllocation():
            return pauses.pause(state, command)
        case cmd.ArchiveAllocations():
            return allocations.archive(state, command)
        case cmd.FoldTasks():
            return ranges.fold(state, command)
        case _:
            assert_never(command)


def _decide_administration(state: State, command: _AdministrationCommand, at: int) -> Decision:
    match command:
        case cmd.SetTenant():
            return administration.set_tenant(state, command, at)
        case cmd.SetProject():
            return administration.set_project(state, command, at)
        case cmd.SetVcluster():
            return administration.set_vcluster(state, command, at)
        case cmd.SetSetting():
            return administration.set_setting(state, command)
        case cmd.RecordSnapshot():
            newer = command.index > state.snapshot.index
            recorded = ev.SnapshotRecorded(index=command.index, digest=command.digest, sha256=command.sha256)
            return (recorded,) if newer else ()
        case _:
            assert_never(command)


_AuditCommand = cmd.RecordAudit | cmd.AddAuditKey | cmd.SealAudit | cmd.ArchiveAudit


def _decide_audit(state: State, command: _AuditCommand, actor: str, at: int) -> Decision:
    match command:
        case cmd.RecordAudit():
            return audit.record(state, command)
        case cmd.AddAuditKey():
            return audit.add_key(state, command, actor, at)
        case cmd.SealAudit():
            return audit.seal(state, command)
        case cmd.ArchiveAudit():
            return audit.archive(state, command)
        case _:
            assert_never(command)


_NotificationCommand = cmd.SetNotifyDefault | cmd.NoteTimeLimit | cmd.SettleNotifications


def _decide_notification(state: State, command: _NotificationCommand, at: int) -> Decision:
    match command:
        case cmd.SetNotifyDefault():
            return notifications.set_default(state, command)
        case cmd.NoteTimeLimit():
            return notifications.note_time_limit(state, command, at)
        case cmd.SettleNotifications():
            return notifications.settle(state, command)
        case _:
            assert_never(command)


_SignOfLife = cmd.RegisterNode | cmd.ConfirmNode | cmd.FailBoot | cmd.DegradeNode | cmd.RecoverNode


def _decide_sign(state: State, command: _SignOfLife, actor: str) -> Decision:
    match command:
        case cmd.RegisterNode():
            return specifications.measured(state, command, nodes.register(state, command, actor), actor)
        case cmd.ConfirmNode():
            return nodes.confirm(state, command, actor)
        case cmd.FailBoot():
            return nodes.fail_boot(state, command, actor)
        case cmd.DegradeNode():
            return nodes.degrade(state, command, actor)
        case cmd.RecoverNode():
            return nodes.recover(state, command, actor)
        case _:
            assert_never(command)


_DriftCommand = (
    cmd.NoteDrift | cmd.ClearDrift | cmd.EscalateDrift | cmd.ApproveNode | cmd.SetBaseline | cmd.UnsetBaseline
)


def _decide_drift(state: State, command: _DriftCommand, actor: str, at: int) -> Decision:
    match command:
        case cmd.NoteDrift():
            return drift.note(state, command, at)
        case cmd.ClearDrift():
            return drift.clear(state, command)
        case cmd.EscalateDrift():
            return drift.escalate(state, command, at)
        case cmd.ApproveNode():
            return drift.approve(state, command)
        case cmd.SetBaseline():
            return drift.set_baseline(state, command, actor, at)
        case cmd.UnsetBaseline():
            return drift.unset_baseline(state, command)
        case _:
            assert_never(command)


def _decide_node(state: State, command: _NodeCommand | _DriftCommand, actor: str, at: int) -> Decision:
    match command:
        case cmd.RegisterNode() | cmd.ConfirmNode() | cmd.FailBoot() | cmd.DegradeNode() | cmd.RecoverNode():
            return _decide_sign(state, command, actor)
        case cmd.RebootNode():
            return nodes.reboot(state, command, actor)
        case cmd.DownNode():
            return nodes.down(state, command, actor, at)
        case cmd.DrainNode():
            return nodes.drain(state, command, actor)
        case cmd.UndrainNode():
            return drift.undrain(state, command, actor)
        case cmd.DisableNode():
            return nodes.disable(state, command, actor, at)
        case cmd.EnableNode():
            return nodes.enable(state, command, actor)
        case cmd.WipeNode():
            return node_wipes.wipe(state, command, actor, at)
        case cmd.FinishWipe():
            return node_wipes.finish(state, command, actor)
        case cmd.ImportNodes():
            return specifications.import_nodes(state, command, at, actor)
        case _:
            return _decide_drift(state, command, actor, at)
