"""DAGs: allocations submitted together, tied by dependencies, with one state of their own.

See docs/architecture/dependencies.md.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from lattice.core.model.work.dependencies import Clauses, Condition, Ending


class DagState(StrEnum):
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class Dag(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The record. `members` are numbers of allocations and groups, in the order of the submission.

    A member knows its name in the DAG (`dag_ref`) and its edges (`depends_on`). While the DAG runs, none of them is archived.
    """

    number: int
    name: str
    user: str
    tenant: str
    submitted_at: int
    members: tuple[int, ...]
    state: DagState = DagState.RUNNING
    ended_at: int = 0
    cancelled_by: str = ""
    counts: tuple[int, ...] = ()  # once it has ended: members that completed, failed, were cancelled

    @property
    def is_ended(self) -> bool:
        return self.state is not DagState.RUNNING


CATCHING = frozenset({Condition.FAILURE, Condition.ANY})


def caught(edges: Iterable[Clauses]) -> frozenset[int]:
    """Numbers whose failure some member is there to deal with: those with an edge that a failure satisfies."""
    return frozenset(
        each.number for clauses in edges for clause in clauses for each in clause if each.condition in CATCHING
    )


def end_state(endings: Mapping[int, Ending], caught_numbers: frozenset[int], *, is_cancelled: bool) -> DagState:
    """What a DAG comes to whose members have all ended.

    Failed when a member failed and no successor handled it; Cancelled when a user cancelled the DAG, or a member that no successor
    handled; otherwise Completed. Members that were skipped change nothing: what skipped them counts.
    """
    stopped = any(ending is Ending.CANCELLED for ending in endings.values())
    if is_cancelled and stopped:
        return DagState.CANCELLED
    uncaught = {ending for number, ending in endings.items() if number not in caught_numbers}
    if Ending.FAILED in uncaught:
        return DagState.FAILED
    return DagState.CANCELLED if Ending.CANCELLED in uncaught else DagState.COMPLETED
