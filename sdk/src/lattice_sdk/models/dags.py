"""DAGs as the API returns them."""

from msgspec import Struct, field

from lattice_sdk.models.html import Shown
from lattice_sdk.models.moments import Timed

DAG_END_STATES = frozenset({"Completed", "Failed", "Cancelled"})


class DagCounts(Struct, frozen=True, kw_only=True):
    size: int = 0
    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class DagMember(Struct, frozen=True, kw_only=True):
    """One allocation or task group of a DAG; `ref` is its name there, `depends_on` what it needs, by such names."""

    ref: str
    id: str
    number: int
    name: str = ""
    state: str = ""
    reason: str = ""
    cause: str | None = None
    message: str = ""
    exit_code: int | None = None
    nodes: list[str] = []
    started_at: str | None = None
    completed_at: str | None = None
    depends_on: str = ""
    task_count: int | None = None


class Dag(Shown, Timed, Struct, frozen=True, kw_only=True):
    """A DAG; lists leave `allocations` empty."""

    id: str
    number: int
    name: str = ""
    state: str = ""
    user: str = ""
    tenant: str = ""
    submitted_at: str | None = None
    completed_at: str | None = None
    cancelled_by: str = ""
    counts: DagCounts = field(default_factory=DagCounts)
    archived: bool = False
    allocations: list[DagMember] = []
    warnings: list[str] = []  # of a submission: what members asked for and will not get

    @property
    def is_ended(self) -> bool:
        return self.state in DAG_END_STATES


class DagNode(Struct, frozen=True, kw_only=True):
    ref: str
    id: str
    state: str = ""
    depth: int = 0


class DagEdge(Struct, frozen=True, kw_only=True):
    """Edges with the same `clause` of one target are alternatives."""

    source: str
    target: str
    condition: str = "success"
    clause: int = 0
    delay_s: int = 0


class DagGraph(Struct, frozen=True, kw_only=True):
    """`text` is a drawing for a terminal."""

    id: str
    name: str = ""
    state: str = ""
    allocations: list[DagNode] = []
    edges: list[DagEdge] = []
    text: str = ""
