"""What one plan looks at: immutable columns of nodes, of what they hold and of the queue, taken at one moment.

Node rows are in the order of their ids and queue rows in the order of the queue, so that a smaller row is always the one to
prefer. Times are milliseconds since 1970.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lattice.core.model.allocations import Hold, Request, TaskGroup
from lattice.core.model.nodes import Hardware, NodeState
from lattice.core.model.tenants import Project, Tenant, TenantUse, Vcluster
from lattice.core.scheduler.tables import Bools, Ints, Records, Rows

NEVER = 2**62
STOP_GRACE_MS = 30_000
STATES = tuple(NodeState)
HOLDS = tuple(Hold)
NO_VCLUSTER = -1

_DIGITS = re.compile(r"(\d+)")

PENDING = np.dtype(
    [
        ("number", "i8"),
        ("first", "i8"),  # the number that would start first: its own, or that of a group's first pending task
        ("precedence", "i8"),  # minus the class: smaller goes first
        ("submitted_at", "i8"),
        ("eligible_at", "i8"),
        ("hold", "i8"),  # place in HOLDS, 0 = none
        ("vcluster", "i8"),
        ("shape", "i8"),
        ("count", "i8"),  # tasks that could start; 1 for an allocation
        ("block", "i8"),  # how many numbers after its own belong to the row
        ("run", "i8"),  # the run that a start would be
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
    groups: tuple[str, ...]  # by name
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


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueColumns:
    """One row per pending allocation and per task group with pending tasks, in queue order."""

    number: Ints
    eligible_at: Ints
    hold: Ints
    vcluster: Ints
    shape: Ints
    count: Ints
    block: Ints
    run: Ints


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

    def shape_of(self, row: int) -> Shape:
        shape = self.shapes[int(self.queue.shape[row])]
        if shape is None:
            raise LookupError(f"queue row {row} has no shape")
        return shape


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
    )
