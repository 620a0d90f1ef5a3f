"""Levels: what may be written to the log and to snapshots while servers of an older release share it.

The level is an integer of the replicated state. 0.1.0 knows no levels; its logs are level 1. A release reads every level from 1 to
`NEWEST` and writes only what the cluster's level allows, so that up to the command RaiseLevel every server of the release before can
read everything, and going back to it is safe. docs/architecture/upgrades.md tells how a cluster is raised; ADR 15 why.

Before: the state has a level L. After: no command was accepted that needs more than L, except RaiseLevel itself, whose entry needs
the level that it raises to. The level never falls.

**A change that adds something to the log declares it in `ADDED`**, under the level of the coming release:

- a command: its class
- a field of a command, or of a record inside one: (class, "field"); a field needs a default, and counts as used when it differs from it
- a member of an enum that commands or their records hold: the member
- a setting of `SetSetting`: Setting("key")

Rules that judge an old command in a new way ask `state.level >= 2` themselves, because servers of both releases apply the same log.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import OLDEST_LEVEL
from lattice.core.model.site.audit import AuditSeal
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Cause, PartPhase, Request, RequeuePolicy, StopIntent
from lattice.core.model.work.evictions import Limits
from lattice.core.model.work.notifications import Occasion
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import Usage

OLDEST = OLDEST_LEVEL
NEWEST = 2  # the highest level that this release reads and writes
# The first release whose servers read a level.
FIRST_RELEASES: Mapping[int, str] = {1: "0.1.0", 2: "0.2.0"}


class Setting(NamedTuple):
    """A setting of the cluster that older servers would refuse."""

    key: str


Item = type[Struct] | tuple[type[Struct], str] | Enum | Setting

# What each level after the first one added. The only place where commands, fields, values and settings get their level.
ADDED: Mapping[int, tuple[Item, ...]] = {
    2: (
        cmd.RaiseLevel,
        cmd.DeleteRecord,
        (Tenant, "visibility"),
        (AuditSeal, "epoch"),
        cmd.AdmitNode,
        cmd.RevokeNode,
        cmd.EnrolNode,
        cmd.AcceptFingerprint,
        Setting("node.admission"),
        cmd.NoteUsage,
        (Usage, "gpu_used_s"),
        (Usage, "gpu_held_s"),
        (Usage, "energy_j"),
        cmd.EndPart,
        (StepRecord, "usage"),
        Setting("terminal.keep"),
        (cmd.UpdateAllocation, "revision"),
        (cmd.SubmitAllocation, "session"),
        (Vcluster, "demands"),
        (cmd.SubmitAllocation, "idle_end_s"),
        (cmd.SubmitAllocation, "exposes"),
        cmd.StartPart,
        RequeuePolicy.ON_WALLTIME,
        StopIntent.PREEMPT,
        StopIntent.DONE,
        (Request, "prefer_same_numa"),
        (Request, "prefer_local_memory"),
        (cmd.SubmitAllocation, "no_preempt"),
        (cmd.SubmitAllocation, "telemetry"),
        (cmd.UpdateAllocation, "telemetry"),
        cmd.EvictAllocations,
        cmd.StopVictims,
        cmd.DropEviction,
        Occasion.PREEMPT,
        Occasion.ALERT,
        cmd.NoteAlert,
        cmd.NoteBudget,
        Occasion.BUDGET,
        *(Setting(f"preemption.{name}") for name in Limits.__struct_fields__),
        (cmd.SubmitAllocation, "checkpoint"),
        (cmd.SubmitAllocation, "resume_from"),
        cmd.RequestCheckpoint,
        cmd.ReportCheckpoint,
        cmd.ExpireCheckpoint,
        cmd.NoteCheckpointStored,
        (cmd.RequeueAllocation, "checkpoint"),
        Setting("checkpoint.root"),
        Setting("checkpoint.timeout_s"),
        Setting("checkpoint.keep"),
        Setting("checkpoint.keep_bytes"),
        Setting("checkpoint.every_s"),
        Setting("checkpoint.max_bandwidth"),
        Setting("checkpoint.min_interval_s"),
        Setting("checkpoint.node_mtbf_s"),
        Setting("checkpoint.max_deferral_s"),
        Setting("checkpoint.upload"),
        (cmd.SubmitAllocation, "data"),
        cmd.WantCopy,
        cmd.ClaimCopy,
        cmd.ReportCopy,
        cmd.EvictCopy,
        cmd.SettleData,
        Setting("staging.recheck_s"),
        Setting("staging.retry_s"),
        Setting("staging.bandwidth"),
        (cmd.SubmitAllocation, "restart"),
        (cmd.SubmitAllocation, "probed"),
        (cmd.SubmitAllocation, "stages_out"),
        cmd.GrowAllocation,
        cmd.ShrinkAllocation,
        PartPhase.RESTARTING,
        PartPhase.LEAVING,
        Cause.PROBE,
        cmd.ShareTerminal,
        (cmd.SubmitAllocation, "scaling"),
        cmd.ReviseService,
        cmd.RollBackService,
        cmd.RenewInstance,
        cmd.TurnRollout,
        cmd.EndRollout,
        cmd.BeginUpgrade,
        cmd.TurnUpgrade,
        cmd.StepUpgrade,
        cmd.LeaveNodes,
    ),
}


class Need(NamedTuple):
    """The level that something needs, and what it is that needs it."""

    level: int
    what: str


_NOTHING = Need(OLDEST, "")


def needed(command: cmd.AnyCommand) -> Need:
    """The level that a command needs, with the part of it that needs most."""
    if type(command) is cmd.RaiseLevel:
        return Need(command.level, f"level {command.level}")
    plan = _PLANS.get(type(command))
    return _NOTHING if plan is None else max(plan.needs(command), default=_NOTHING)


def refusal(command: cmd.AnyCommand, level: int) -> Rejected | None:
    """Why a cluster of this level cannot carry out the command; None when it can."""
    # Nothing needs more than the newest level, so a cluster that has it is spared the walk through every record.
    if level >= NEWEST or type(command) not in _PLANS or type(command) is cmd.RaiseLevel:
        return None
    return below(needed(command), level)


def below(need: Need, level: int) -> Rejected | None:
    """The refusal of a cluster whose level is lower than what is needed."""
    if need.level <= level:
        return None
    return Rejected(
        code="conflict",
        message=f"this needs level {need.level} of the cluster, which still runs at level {level} ({need.what})",
        current=f"level {level}",
        requested=f"level {need.level}",
        hint="When every server runs the new release, raise the level: lattice admin upgrade finalize.",
    )


class _Plan(NamedTuple):
    """Where in a record something may be that needs a level."""

    own: Need | None
    fields: tuple[tuple[str, object, Need], ...]  # name, default, what it needs when it differs
    inner: tuple[str, ...]  # fields that may hold records, values or settings that need a level

    def needs(self, record: Struct) -> Iterator[Need]:
        if self.own is not None:
            yield self.own
        for name, default, need in self.fields:
            if getattr(record, name) != default:
                yield need
        for name in self.inner:
            yield from _needs(getattr(record, name))
        if isinstance(record, cmd.SetSetting) and (level := _SINCE.get(Setting(record.key))) is not None:
            yield Need(level, f'the setting "{record.key}"')


def _needs(value: object) -> Iterator[Need]:
    match value:
        case Enum():
            if (level := _SINCE.get((type(value), value.name))) is not None:
                yield Need(level, f'{_words(type(value).__name__)} "{value.value}"')
        case tuple() | list():
            for each in value:
                yield from _needs(each)
        case dict():
            for each in value.values():
                yield from _needs(each)
        case Struct():
            plan = _PLANS.get(type(value))
            if plan is not None:
                yield from plan.needs(value)
        case _:
            return


def _words(name: str) -> str:
    """`DownCause` as a person writes it: down cause."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _types_within(hint: Any) -> Iterator[type]:  # noqa: ANN401 - any annotation
    if get_origin(hint) in (Union, UnionType) or get_args(hint):
        for part in get_args(hint):
            yield from _types_within(part)
    elif isinstance(hint, type):
        yield hint


_Key = type[Struct] | tuple[type, str] | Setting


def _index(added: Mapping[int, tuple[Item, ...]]) -> dict[_Key, int]:
    """The level of each item. Members of two enums may be equal as texts, so they are kept by class and name."""
    return {
        (type(item), item.name) if isinstance(item, Enum) else item: level
        for level, items in added.items()
        for item in items
    }


def _plans(since: Mapping[_Key, int]) -> dict[type[Struct], _Plan]:
    """For every command and record that can need a level, where to look; all others need none."""
    plans: dict[type[Struct], _Plan] = {}
    seen: dict[type, bool] = {}

    def concerns(kind: type) -> bool:
        """Whether a value of this type can need a level."""
        if kind in seen:
            return seen[kind]
        seen[kind] = False  # a record within itself adds nothing
        if issubclass(kind, Enum):
            seen[kind] = any((kind, member.name) in since for member in kind)
        elif issubclass(kind, Struct):
            plan = _plan(kind)
            if plan is not None:
                plans[kind] = plan
                seen[kind] = True
        return seen[kind]

    def _plan(kind: type[Struct]) -> _Plan | None:
        hints = get_type_hints(kind)
        declared = tuple(
            (field.name, _default(field), Need(since[kind, field.name], f"{field.name} of {_words(kind.__name__)}"))
            for field in fields(kind)
            if (kind, field.name) in since
        )
        # All of them are asked, so that each gets its plan.
        inner = tuple(name for name, hint in hints.items() if [each for each in _types_within(hint) if concerns(each)])
        own = Need(since[kind], _words(kind.__name__)) if kind in since else None
        settings = kind is cmd.SetSetting and any(isinstance(item, Setting) for item in since)
        return _Plan(own, declared, inner) if own or declared or inner or settings else None

    for kind in get_args(cmd.AnyCommand):
        concerns(kind)
    return plans


def _default(field: Any) -> object:  # noqa: ANN401 - msgspec's description of a field
    if field.default is not NODEFAULT:
        return field.default
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    raise AssertionError(f"{field.name} came later and has no default: older logs could not be read")


_SINCE = _index(ADDED)
_PLANS = _plans(_SINCE)
