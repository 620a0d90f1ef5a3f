"""Evictions: running work that is taken off its nodes for work that waits, what protects it, what that costs.

The plan that proposes an eviction and the rules that judge it both ask here, so that they cannot disagree.
See docs/architecture/preemption.md.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import SENSITIVE, Preemption, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState

CRITICAL_CLASS = 10  # never taken
FIRST_UNPREEMPTED_CLASS = 7  # from here on work without checkpoints is not taken, and may ask never to be
KEEP_MS = 60_000  # how long freed nodes are kept for work that could start on them and does not
EARLY, LATE = 0.1, 0.9  # fractions of the walltime
EARLY_WEIGHT, LATE_WEIGHT = 0.5, 4.0


class EvictionReason(StrEnum):
    PRIORITY = "priority"  # work of a higher class waits
    RECLAIM = "reclaim"  # the nodes were borrowed, and work of their home waits


class VictimPhase(StrEnum):
    """How far one victim is. Phases only go forward; what was not begun is let go when the eviction is dropped."""

    WARNED = "warned"  # it knows; it is stopped at `due_at`, or as soon as it has written a checkpoint
    CHECKPOINTING = "checkpointing"  # it was asked for a checkpoint, and is stopped when that is complete or has failed
    STOPPING = "stopping"
    GONE = "gone"  # it holds nothing any more


class Victim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    number: int
    run: int
    phase: VictimPhase = VictimPhase.STOPPING
    due_at: int = 0  # of a warned one: when it is stopped


class Eviction(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One decision: these victims leave, and `shares` are kept for the run of `number` until it starts on them."""

    number: int
    run: int
    victims: tuple[Victim, ...]
    shares: tuple[Share, ...]
    at: int
    reason: EvictionReason = EvictionReason.PRIORITY
    freed_at: int = 0  # when the last victim had gone

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)


class Limits(Struct, frozen=True, kw_only=True, gc=False):
    """The settings `preemption.*`."""

    patience_s: float = 30.0
    min_runtime_s: float = 300.0
    near_completion_s: float = 300.0
    max_per_allocation: int = 3
    max_victims: int = 3


NO_TAKING = Limits(max_victims=0)  # preemption is off


def limits_of(settings: dict[str, str]) -> Limits:
    def value(key: str) -> float:
        return float(setting_value(settings, f"preemption.{key}"))

    return Limits(
        patience_s=value("patience_s"),
        min_runtime_s=value("min_runtime_s"),
        near_completion_s=value("near_completion_s"),
        max_per_allocation=int(value("max_per_allocation")),
        max_victims=int(value("max_victims")),
    )


def preempt_mode(vcluster: Vcluster, limits: Limits) -> str:
    """Slurm's word for what may happen to running work of the vCluster."""
    return "REQUEUE" if limits.max_victims and policy_of(vcluster) is Preemption.ALLOWED else "OFF"


class Protection(StrEnum):
    """Why work that runs is not taken, in words that follow "it"."""

    STATE = "is not Running"
    SENSITIVE = "is sensitive"
    CRITICAL = "is of class 10"
    NO_CHECKPOINT = "is of class 7 or higher and has no checkpoints"
    NO_PREEMPT = "was submitted with --no-preempt"
    VCLUSTER = "is in a vCluster whose work is not preempted"
    TAKEN_OFTEN = "was preempted as often as preemption.max_per_allocation says"
    YOUNG = "has run for less than preemption.min_runtime_s"
    ENDING = "ends within preemption.near_completion_s"
    CLASS = "is of the same class or a higher one, or is never preempted"  # counted, never said of one allocation
    LEAVING = "is being preempted already"


# By the kind of vCluster; all others allow it.
_DEFAULT = {"service-bin-pack": Preemption.BORROWED_ONLY, SENSITIVE: Preemption.NEVER}


def policy_of(vcluster: Vcluster) -> Preemption:
    """Whether work of the vCluster may be taken: what was set, else what its kind implies."""
    chosen = vcluster.demands.preemption if vcluster.demands is not None else None
    return chosen if chosen is not None else _DEFAULT.get(vcluster.scheduler, Preemption.ALLOWED)


def is_fixed(record: Allocation) -> bool:
    """It asked never to be taken, or would lose all that it did."""
    return record.no_preempt or has_no_way_back(record)


def has_no_way_back(record: Allocation) -> bool:
    return record.preemption_class >= FIRST_UNPREEMPTED_CLASS and record.checkpoints.way is None


def ends_at(record: Allocation) -> int | None:
    """When its walltime is over; None without one."""
    if not record.walltime_s:
        return None
    return record.started_at + record.walltime_s * 1000 + record.paused_ms


def protection(
    record: Allocation, vcluster: Vcluster, limits: Limits, at: int, *, is_borrowing: bool = False
) -> Protection | None:
    """What keeps the allocation from being taken by a higher class at `at`; None = it may be taken."""
    lasting = _lasting_protection(record, vcluster, is_borrowing=is_borrowing)
    if lasting is not None:
        return lasting
    if record.preempted >= limits.max_per_allocation:
        return Protection.TAKEN_OFTEN
    if at < record.started_at + limits.min_runtime_s * 1000:
        return Protection.YOUNG
    end = ends_at(record)
    if end is not None and at > end - limits.near_completion_s * 1000:
        return Protection.ENDING
    return None


def _lasting_protection(record: Allocation, vcluster: Vcluster, *, is_borrowing: bool) -> Protection | None:
    if record.state is not AllocationState.RUNNING:
        return Protection.STATE
    if vcluster.scheduler == SENSITIVE:
        return Protection.SENSITIVE
    if record.preemption_class >= CRITICAL_CLASS:
        return Protection.CRITICAL
    if record.no_preempt:
        return Protection.NO_PREEMPT
    if has_no_way_back(record):
        return Protection.NO_CHECKPOINT
    policy = policy_of(vcluster)
    if policy is Preemption.NEVER or (policy is Preemption.BORROWED_ONLY and not is_borrowing):
        return Protection.VCLUSTER
    return None


def units_of(shares: Iterable[Share], nodes: Mapping[str, Node]) -> int:
    """What cost and value are counted in: the GPUs of the shares, else the nodes."""
    gpus = count = 0
    for share in shares:
        count += 1
        gpus += nodes[share.node].hardware.gpus if share.whole else share.gpus
    return gpus or count


def progress_weight(record: Allocation, at: int) -> float:
    """Work that has just begun is cheap to take, work that is nearly done is dear."""
    if not record.walltime_s:
        return 1.0
    done = (at - record.started_at - record.paused_ms) / (record.walltime_s * 1000)
    return EARLY_WEIGHT if done < EARLY else LATE_WEIGHT if done > LATE else 1.0


def saved_at(record: Allocation) -> int:
    """Up to when nothing that its present run did is lost: when it was last asked for a checkpoint that is complete, else its start."""
    newest = record.checkpoints.newest
    return record.started_at if newest is None else max(record.started_at, newest.asked_at)


def checkpoint_ms(record: Allocation) -> int:
    """How long it writes a checkpoint, by the last one that is complete; 0 = not known, or it writes none."""
    newest = record.checkpoints.newest
    return 0 if newest is None or record.checkpoints.way is None else int(newest.elapsed_s * 1000)


def cost_of(record: Allocation, nodes: Mapping[str, Node], at: int) -> float:
    """Unit-seconds that are lost if the allocation is taken at `at`: the checkpoint, and what was done since the last one."""
    lost_s = (checkpoint_ms(record) + max(0, at - saved_at(record))) / 1000
    return units_of(record.shares, nodes) * lost_s * progress_weight(record, at)


def value_of(units: int, walltime_s: int, classes: int) -> float:
    """What a start now is worth: units x walltime x classes above the highest victim. Without a walltime, everything."""
    return float(units * walltime_s * classes) if walltime_s else float("inf")
