"""Changes of work that still waits: what it asks of the machine, where it runs, and what it waits for.

See docs/architecture/core.md.
"""

from msgspec import Struct

from lattice.core.model.work.allocations import Request
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.dependencies import Clauses, EndedWork, TaskWait


class Revision(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a command changes; None = as it was. Figures are those of `Request`."""

    vcluster: str | None = None
    nodes: int | None = None
    max_nodes: int | None = None
    cpus: int | None = None
    memory_mb: int | None = None
    min_memory_mb: int | None = None
    gpus: int | None = None
    eligible_at: int | None = None  # 0 = immediately
    depends_on: Clauses | None = None  # () = nothing any more
    ended: tuple[EndedWork, ...] = ()  # predecessors that had ended when it was proposed
    asked: Asked | None = None  # of work of a Slurm command: all of it as it reads from now on


class Revised(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a revision leads to: everything that it may change, as it is from now on."""

    vcluster: str
    request: Request
    eligible_at: int
    depends_on: Clauses = ()
    waits_for: Clauses = ()
    task_waits: tuple[TaskWait, ...] = ()  # of a group
    asked: Asked | None = None
