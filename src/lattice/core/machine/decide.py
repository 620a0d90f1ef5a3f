"""Judges a command against the state and says what follows from it. Changes nothing.

`RULES` is the only place that says which rule judges which command. The rows are typed: a rule must take the command of its row,
and a test holds the table against `AnyCommand`, so that a new command is refused until it has a rule. See
docs/architecture/core.md.
"""

from collections.abc import Callable
from typing import TypeVar

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine import levels
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import admission, node_wipes, preparation
from lattice.core.machine.rules.capacity import evictions
from lattice.core.machine.rules.checkpoints import requests as checkpoints
from lattice.core.machine.rules.data import staging
from lattice.core.machine.rules.nodes import drift, nodes
from lattice.core.machine.rules.services import resizing, revising
from lattice.core.machine.rules.site import administration, audit, budgets, deletion, specifications, upgrades
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
    watching,
)
from lattice.core.machine.rules.work import suspension as pauses
from lattice.core.machine.state import State

Decision = tuple[ev.AnyEvent, ...] | Rejected
Judge = Callable[[State, cmd.AnyCommand, str, int], Decision]
Row = tuple[type, Judge]
C = TypeVar("C")


def decide(state: State, envelope: cmd.Envelope) -> Decision:
    """The events of a command, or why it is refused."""
    command = envelope.command
    return levels.refusal(command, state.level) or RULES[type(command)](state, command, envelope.actor, envelope.at)


def _plain(kind: type[C], rule: Callable[[State, C], Decision]) -> Row:
    """A rule that asks neither who nor when."""

    def judge(state: State, command: cmd.AnyCommand, actor: str, at: int) -> Decision:
        return rule(state, _as(kind, command))

    return kind, judge


def _timed(kind: type[C], rule: Callable[[State, C, int], Decision]) -> Row:
    """A rule that depends on the time of the command."""

    def judge(state: State, command: cmd.AnyCommand, actor: str, at: int) -> Decision:
        return rule(state, _as(kind, command), at)

    return kind, judge


def _signed(kind: type[C], rule: Callable[[State, C, str], Decision]) -> Row:
    """A rule that records who gave the command."""

    def judge(state: State, command: cmd.AnyCommand, actor: str, at: int) -> Decision:
        return rule(state, _as(kind, command), actor)

    return kind, judge


def _signed_timed(kind: type[C], rule: Callable[[State, C, str, int], Decision]) -> Row:
    """A rule that needs both."""

    def judge(state: State, command: cmd.AnyCommand, actor: str, at: int) -> Decision:
        return rule(state, _as(kind, command), actor, at)

    return kind, judge


def _as(kind: type[C], command: cmd.AnyCommand) -> C:
    if not isinstance(command, kind):
        raise TypeError(f"the rule of {kind.__name__} was given {type(command).__name__}")
    return command


def _cancel(state: State, command: cmd.CancelAllocation, actor: str) -> Decision:
    return ranges.cancel(state, command, actor) if command.positions else allocations.cancel(state, command, actor)


def _hold(state: State, command: cmd.HoldAllocation) -> Decision:
    return ranges.hold(state, command) if command.positions else allocations.hold(state, command)


def _release(state: State, command: cmd.ReleaseAllocation) -> Decision:
    return ranges.release(state, command) if command.positions else allocations.release(state, command)


def _requeue(state: State, command: cmd.RequeueAllocation, at: int) -> Decision:
    return ranges.requeue(state, command, at) if command.positions else allocations.requeue(state, command, at)


def _register(state: State, command: cmd.RegisterNode, actor: str, at: int) -> Decision:
    registered = nodes.register(state, command, actor, at)
    if isinstance(registered, Rejected):
        return registered
    return specifications.measured(state, command, registered, actor)


def _record_snapshot(state: State, command: cmd.RecordSnapshot) -> Decision:
    if command.index <= state.snapshot.index:
        return ()
    return (ev.SnapshotRecorded(index=command.index, digest=command.digest, sha256=command.sha256),)


TABLE: tuple[Row, ...] = (
    # allocations
    _timed(cmd.SubmitAllocation, submission.submit),
    _signed(cmd.CancelAllocation, _cancel),
    _plain(cmd.HoldAllocation, _hold),
    _plain(cmd.ReleaseAllocation, _release),
    _timed(cmd.RequeueAllocation, _requeue),
    _timed(cmd.UpdateAllocation, allocations.update),
    _plain(cmd.PauseAllocation, pauses.pause),
    _plain(cmd.ShareTerminal, watching.share),
    _signed_timed(cmd.RequestCheckpoint, checkpoints.request),
    _timed(cmd.ReportCheckpoint, checkpoints.report),
    _timed(cmd.ExpireCheckpoint, checkpoints.expire),
    _plain(cmd.NoteCheckpointStored, checkpoints.note_stored),
    _plain(cmd.ArchiveAllocations, allocations.archive),
    _plain(cmd.FoldTasks, ranges.fold),
    _timed(cmd.SubmitDag, dags.submit),
    _signed(cmd.CancelDag, dags.cancel),
    # runs
    _timed(cmd.PlaceAllocation, placement.place),
    _timed(cmd.EvictAllocations, evictions.evict),
    _timed(cmd.StopVictims, evictions.stop_victims),
    _timed(cmd.DropEviction, evictions.drop),
    _timed(cmd.ReportPart, runs.report),
    _timed(cmd.LosePart, runs.lose),
    _plain(cmd.LeaveNodes, preparation.leave),
    _timed(cmd.GrowAllocation, resizing.grow),
    _plain(cmd.ShrinkAllocation, resizing.shrink),
    _signed_timed(cmd.ReviseService, revising.revise),
    _signed_timed(cmd.RollBackService, revising.roll_back),
    _plain(cmd.RenewInstance, revising.renew),
    _plain(cmd.TurnRollout, revising.turn),
    _timed(cmd.EndRollout, revising.end),
    _timed(cmd.EndPart, runs.end),
    _timed(cmd.StartPart, runs.begin),
    _timed(cmd.NoteUsage, runs.note_usage),
    _plain(cmd.ExpireAllocation, runs.expire),
    _plain(cmd.RollbackRun, runs.roll_back),
    _timed(cmd.EnforceDeadline, deadlines.enforce),
    _plain(cmd.RecordSteps, steps.record),
    # nodes
    _signed_timed(cmd.RegisterNode, _register),
    _signed(cmd.ConfirmNode, nodes.confirm),
    _signed(cmd.FailBoot, nodes.fail_boot),
    _signed(cmd.RebootNode, nodes.reboot),
    _signed(cmd.DegradeNode, nodes.degrade),
    _signed(cmd.RecoverNode, nodes.recover),
    _signed_timed(cmd.DownNode, nodes.down),
    _signed_timed(cmd.DrainNode, nodes.drain),
    _signed(cmd.UndrainNode, drift.undrain),
    _signed_timed(cmd.DisableNode, nodes.disable),
    _signed(cmd.EnableNode, nodes.enable),
    _signed_timed(cmd.WipeNode, node_wipes.wipe),
    _signed(cmd.FinishWipe, node_wipes.finish),
    _signed_timed(cmd.ImportNodes, specifications.import_nodes),
    # drift
    _timed(cmd.NoteDrift, drift.note),
    _plain(cmd.ClearDrift, drift.clear),
    _timed(cmd.EscalateDrift, drift.escalate),
    _signed_timed(cmd.ApproveNode, drift.approve),
    _timed(cmd.AcceptFingerprint, drift.accept),
    _signed_timed(cmd.AdmitNode, admission.admit),
    _signed_timed(cmd.RevokeNode, nodes.revoke),
    _timed(cmd.EnrolNode, admission.enrol),
    _signed_timed(cmd.SetBaseline, drift.set_baseline),
    _plain(cmd.UnsetBaseline, drift.unset_baseline),
    # administration
    _timed(cmd.SetTenant, administration.set_tenant),
    _timed(cmd.SetProject, administration.set_project),
    _timed(cmd.SetVcluster, administration.set_vcluster),
    _plain(cmd.SetSetting, administration.set_setting),
    _signed_timed(cmd.SetReservation, reservations.set_reservation),
    _plain(cmd.DeleteReservation, reservations.delete_reservation),
    _plain(cmd.DeleteRecord, deletion.delete_record),
    _plain(cmd.RecordSnapshot, _record_snapshot),
    _plain(cmd.RaiseLevel, administration.raise_level),
    _signed_timed(cmd.BeginUpgrade, upgrades.begin),
    _timed(cmd.TurnUpgrade, upgrades.turn),
    _timed(cmd.StepUpgrade, upgrades.step),
    # notifications
    _plain(cmd.SetNotifyDefault, notifications.set_default),
    _timed(cmd.NoteTimeLimit, notifications.note_time_limit),
    _plain(cmd.NoteAlert, notifications.note_alert),
    _timed(cmd.NoteBudget, budgets.note),
    _plain(cmd.SettleNotifications, notifications.settle),
    # data
    _timed(cmd.WantCopy, staging.want),
    _timed(cmd.ClaimCopy, staging.claim),
    _timed(cmd.ReportCopy, staging.report),
    _plain(cmd.EvictCopy, staging.evict),
    _plain(cmd.SettleData, staging.settle),
    # audit
    _plain(cmd.RecordAudit, audit.record),
    _signed_timed(cmd.AddAuditKey, audit.add_key),
    _plain(cmd.SealAudit, audit.seal),
    _plain(cmd.ArchiveAudit, audit.archive),
)
RULES: dict[type, Judge] = dict(TABLE)
