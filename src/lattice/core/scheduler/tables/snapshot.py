"""What one plan looks at: immutable columns of nodes, of what they hold and of the queue, taken at one moment.

Node rows are in the order of their ids and queue rows in the order of submission, so that among equals a smaller row is the one to
prefer. Times are milliseconds since 1970. See docs/architecture/scheduler.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lattice.core.model.nodes.nodes import Hardware, NodeState
from lattice.core.model.scheduler_signals import NO_SIGNALS, Signals
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, TenantUse, Vcluster
from lattice.core.model.work.allocations import Hold, Request, TaskGroup
from lattice.core.model.work.evictions import NO_TAKING, Eviction, Limits
from lattice.core.scheduler.proposals import Reservation
from lattice.core.scheduler.tables.kinds import KindTable
from lattice.core.scheduler.tables.slots import Bools, Floats, Ints, Records, Rows

NEVER = 2**62
STOP_GRACE_MS = 30_000
STATES = tuple(NodeState)
HOLDS = tuple(Hold)
NO_VCLUSTER = -1

UNIT = 100_000  # one node in sums of use, so that a share of a wide node still counts
BASE_S = 1_577_836_800  # starts are counted from here, to keep sums of them small
# What is summed over an account's running work: units and GPUs held; those of runs that have begun; the same times the
# second of their start, from BASE_S; units and GPUs times walltime.
RUNNING = ("units", "gpus", "begun", "begun_gpus", "starts", "gpu_starts", "unit_walltime", "gpu_walltime")

_DIGITS = re.compile(r"(\d+)")

PENDING = np.dtype(
    [
        ("number", "i8"),
        ("first", "i8"),  # the number that would start first: its own, or that of a group's first pending task
        ("preemption_class", "i8"),
        ("submitted_at", "i8"),
        ("eligible_at", "i8"),
        ("hold", "i8"),  # place in HOLDS, 0 = none
        ("vcluster", "i8"),
        ("shape", "i8"),
        ("count", "i8"),  # tasks that could start; 1 for an allocation
        ("block", "i8"),  # how many numbers after its own belong to the row
        ("run", "i8"),  # the run that a start would be
        ("walltime_s", "i8"),
        ("nodes", "i8"),  # those asked for at least, and per node what is asked for: 0 = nothing said
        ("cpus", "i8"),
        ("memory_mb", "i8"),
        ("gpus", "i8"),
        ("is_plain", "i8"),  # 1 = one node, no matter which: amounts alone decide whether one will do
        ("signature", "i8"),  # the same for requests that the same kinds of nodes suit
        ("account", "i8"),  # place in Ledger.accounts
        ("history", "i8"),  # what runs of the same user and name took, see `expected_s`
    ]
)
# `end` below 0: not started yet, it will run for that long. `cpus` 0: the whole node.
HELD = np.dtype(
    [
        ("number", "i8"),
        ("node", "i8"),
        ("end", "i8"),
        ("cpus", "i8"),
        ("memory_mb", "i8"),
        ("gpus", "i8"),
        ("tenant", "i8"),
        ("storage_mbps", "i8"),  # bandwidth of the whole allocation, on its first share
        ("vcluster", "i8"),
    ]
)
# Running work that may be taken for work of a higher class. `end` NEVER and `walltime_ms` 0: without a walltime.
TAKEABLE = np.dtype(
    [
        ("number", "i8"),
        ("run", "i8"),
        ("klass", "i8"),
        ("vcluster", "i8"),
        ("tenant", "i8"),
        ("started_at", "i8"),
        ("end", "i8"),
        ("walltime_ms", "i8"),
        ("preempted", "i8"),
        ("units", "i8"),  # the GPUs that it holds, else its nodes
        ("saved_at", "i8"),  # what it did up to then is in a checkpoint
        ("checkpoint_ms", "i8"),  # how long it takes to write one
    ]
)


class Shape(NamedTuple):
    """All that decides whether a queue row can start, apart from its place in the queue."""

    vcluster: str
    tenant: str
    user: str
    project: str
    request: Request
    walltime_s: int
    group: int  # the task group whose concurrency counts, 0 = none

    def end_if_started(self, now: int) -> int:
        return now + self.walltime_s * 1000 if self.walltime_s else NEVER


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeColumns:
    """One row per node, by id. What a whole holder or claimant has is not free."""

    ids: tuple[str, ...]
    rows: Mapping[str, int]
    kinds: tuple[Hardware, ...]  # without the group; leanest first
    groups: tuple[str, ...]  # by name, g2 before g10
    kind_table: KindTable
    kind: Rows
    group: Rows
    state: Ints  # place in STATES
    connected: Bools
    claimed: Bools
    vcluster: Ints  # whose shares are on it; NO_VCLUSTER = none
    is_free: Bools
    cpus: Ints  # free ones, as memory and gpus
    memory_mb: Ints
    gpus: Ints
    conformance: Ints  # number of the conformance group; UNKNOWN_GROUP = a group of its own
    warm: Mapping[int, Bools] = field(default_factory=dict)  # by key of an image that work brings: which nodes have it


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueColumns:
    """One row per pending allocation and per task group with pending tasks, in order of submission.

    Per-node amounts are those asked for, 0 where nothing was said.
    """

    number: Ints
    submitted_at: Ints
    preemption_class: Ints
    eligible_at: Ints
    hold: Ints
    vcluster: Ints
    shape: Ints
    count: Ints
    block: Ints
    run: Ints
    walltime_s: Ints
    nodes: Ints
    cpus: Ints
    memory_mb: Ints
    gpus: Ints
    is_plain: Ints
    signature: Ints
    account: Ints
    expected_s: Ints  # how long it will run by what the same user's work of that name took; 0 = not known


class Account(NamedTuple):
    """Who pays: a user within a project of a tenant; the project may be empty."""

    tenant: str
    project: str
    user: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """What was used, by account. Running work counts from its start; `running` has one column per account.

    `past` is in node-milliseconds as they weigh at `as_of`: it halves with every half-life after that.
    """

    accounts: tuple[Account, ...]
    tenant: Ints  # for each account the place of its tenant in `tenants`
    project: Ints  # and a number for its project, the same for all accounts of the project
    tenants: tuple[str, ...]
    past: Floats
    as_of: int
    half_life_ms: float
    running: Ints  # rows: RUNNING
    days: Mapping[str, tuple[tuple[int, int, int], ...]]  # of tenants with a budget: (day, node_ms, gpu_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    """Sums over the whole machine that running work may not exceed; 0 = no limit."""

    power_w: int = 0
    storage_gbps: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The nodes of sensitive work: how many there may be, 0 = no limit, and how many there are."""

    limit: int = 0
    used: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """Settings of the cluster that the score depends on."""

    reference_wait_s: float = 3600.0
    budget_days: int = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Everything a plan depends on besides the profiles and the time."""

    nodes: NodeColumns
    queue: QueueColumns
    held: Records  # of HELD, `node` being a row of `nodes`
    shapes: tuple[Shape | None, ...]
    vcluster_names: tuple[str, ...]
    tenant_names: tuple[str, ...]
    members: Mapping[str, Bools | None]  # None = all nodes
    vclusters: Mapping[str, Vcluster]
    tenants: Mapping[str, Tenant]
    projects: Mapping[tuple[str, str], Project]
    groups: Mapping[int, TaskGroup]
    uses: Mapping[str, TenantUse]
    user_holding: Mapping[tuple[str, str], int]
    project_nodes: Mapping[tuple[str, str], int]
    ledger: Ledger
    reservations: tuple[AdvanceReservation, ...] = ()  # by name
    promised: Mapping[int, Reservation] = field(default_factory=dict)  # by number: the reservations of the last plan
    signals: Signals = NO_SIGNALS
    budgets: Budgets = Budgets()
    tuning: Tuning = Tuning()
    pool: Pool = Pool()
    takeable: Records | None = (
        None  # of TAKEABLE, by number; None = nothing is of a lower class than anything that waits
    )
    evictions: tuple[Eviction, ...] = ()  # under way, the oldest first
    limits: Limits = NO_TAKING
    idle_since: Mapping[str, int] = field(default_factory=dict)  # by node that was freed while this scheduler looked on

    def shape_of(self, row: int) -> Shape:
        shape = self.shapes[int(self.queue.shape[row])]
        if shape is None:
            raise LookupError(f"queue row {row} has no shape")
        return shape

    def startable(self, row: int) -> Iterator[int]:
        """The allocation of the row, or the pending tasks of its group, first positions first."""
        number = int(self.queue.number[row])
        if not self.queue.block[row]:
            yield number
            return
        for start, stop in self.groups[number].startable:
            yield from range(number + 1 + start, number + 1 + stop)

    def waiting(self) -> dict[str, int]:
        """How many allocations and tasks wait in each vCluster that has any in the queue."""
        if not len(self.queue.number):
            return {}
        counts = np.bincount(self.queue.vcluster, weights=self.queue.count)
        present = np.flatnonzero(np.bincount(self.queue.vcluster))
        return {self.vcluster_names[place]: int(counts[place]) for place in present.tolist()}


@lru_cache(maxsize=1 << 17)
def id_order(node_id: str) -> tuple[tuple[str, ...], tuple[int, ...], str]:
    """Orders n2 before n10."""
    pieces = _DIGITS.split(node_id)
    return tuple(pieces[::2]), tuple(int(piece) for piece in pieces[1::2]), node_id


def kind_order(hardware: Hardware) -> tuple[object, ...]:
    """Leanest first, so that work which needs little does not take what is rare."""
    return (
        hardware.gpus,
        len(hardware.features),
        hardware.memory_mb,
        hardware.cpus,
        hardware.gpu_type,
        hardware.features,
        hardware.unified_memory,
        hardware.cxl_memory_mb,
        hardware.power_w,
    )
