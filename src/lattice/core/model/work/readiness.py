"""Which instances of a service are ready: the state, and what nodes say. See docs/architecture/services.md."""

from lattice.core.model.nodes.readiness import ReadinessBoard, Standing
from lattice.core.model.work.allocations import ACTIVE, Allocation, Part, PartPhase


def standing_of(board: ReadinessBoard, allocation: Allocation, part: Part) -> Standing | None:
    """What was said of this very instance; None if nothing."""
    told = board.get(allocation.number, part.node)
    is_meant = told is not None and told.run == allocation.run and told.instance == part.instance
    return told if is_meant else None


def is_ready(board: ReadinessBoard, allocation: Allocation, part: Part) -> bool:
    """Whether requests may go to it: it runs, and its probes pass; without probes it is ready when it runs."""
    if part.phase is not PartPhase.RUNNING or allocation.state not in ACTIVE:
        return False
    told = standing_of(board, allocation, part)
    return not _is_probed(allocation, part) if told is None else told.ready


def _is_probed(allocation: Allocation, part: Part) -> bool:
    rollout = allocation.rollout
    return allocation.probed if rollout is None else rollout.is_probed(allocation.revision_of(part.node))


def ready_count(board: ReadinessBoard, allocation: Allocation) -> int:
    """How many of its instances are ready."""
    return sum(is_ready(board, allocation, part) for part in allocation.launched)
