"""Orders about checkpoints as they follow from the state. Pure: the same state gives the same order, however often it is asked."""

from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.checkpoints import (
    EXTENSION,
    KEEP,
    KEEP_BYTES,
    MAX_DEFERRAL_S,
    ROOT,
    TIMEOUT_S,
    UPLOAD,
    Checkpoint,
    CheckpointPhase,
    CheckpointProtocol,
    Checkpoints,
    OpenCheckpoint,
    base_directory,
    kept_after,
    objects_of,
)
from lattice.ports.nodes.checkpoints import CheckpointOrder, CheckpointSetup
from lattice.ports.nodes.run_keys import RunKey

SLACK_S = 15.0  # for reports that are on their way


def checkpoint_setup(state: State, allocation: Allocation) -> CheckpointSetup | None:
    """What a node needs to know when it starts the run; None for work that has nothing to do with checkpoints."""
    known = allocation.checkpoints
    way, resume = known.way, known.resume_path
    if way is None and not resume:
        return None
    root = setting_value(state.settings, ROOT)
    label = allocation_id(allocation.number)
    return CheckpointSetup(
        strategy="" if way is None else way.strategy.value,
        protocol="" if way is None else way.protocol.value,
        signal=0 if way is None else way.signal,
        port=0 if way is None else way.port,
        directory="" if way is None else base_directory(root, allocation.tenant, allocation.project, label),
        root=root,
        resume_from=resume,
        must_resume=known.newest is None and known.resume_from is not None,
        objects=objects_of(resume) if resume else "",
        is_awaited=_is_being_stored(state, known),
    )


def _is_being_stored(state: State, known: Checkpoints) -> bool:
    """Whether a copy of what it continues from is on its way to the object store."""
    point = known.resume_from
    newest = known.newest
    if newest is None and point is not None:
        other = state.allocations.get(point.number)
        newest = None if other is None else next((each for each in other.checkpoints.kept if each.n == point.n), None)
    return newest is not None and not newest.is_stored and is_on(state)


def is_on(state: State) -> bool:
    """Whether complete checkpoints are copied to the object store."""
    return setting_value(state.settings, UPLOAD) == "true"


def storing_order(record: Allocation, checkpoint: Checkpoint) -> CheckpointOrder:
    """What a node is to do to copy the complete checkpoint to the object store; the grant is still to come."""
    below = f"/{objects_of(checkpoint.path)}"
    return CheckpointOrder(
        key=RunKey(record.number, checkpoint.run),
        n=checkpoint.n,
        root=checkpoint.path.removesuffix(below) or "/",
        path=checkpoint.path,
        user=record.account,
        apart=record.per_node and checkpoint.nodes > 1,
        store=True,
        objects=below[1:],
    )


def checkpoint_orders(state: State, allocation: Allocation, now: int) -> list[tuple[str, CheckpointOrder]]:
    """What each node is to do now for the open checkpoint of the allocation."""
    checkpoint, way = allocation.checkpoints.open, allocation.checkpoints.way
    if checkpoint is None or way is None:
        return []
    label = allocation_id(allocation.number)
    below = base_directory("", allocation.tenant, allocation.project, label)
    order = CheckpointOrder(
        key=RunKey(allocation.number, checkpoint.run),
        n=checkpoint.n,
        root=checkpoint.path.removesuffix(f"{below}/{checkpoint.n}"),
        path=checkpoint.path,
        user=allocation.account,
        timeout_s=max(0.0, (checkpoint.deadline_at - now) / 1000),
        reason=checkpoint.reason.value,
        protocol=way.protocol.value,
        signal=way.signal,
        apart=allocation.per_node and len(allocation.nodes) > 1,
        port=way.port,
        max_deferral_s=deferral_s(state, allocation),
    )
    if checkpoint.sealer:
        return [(checkpoint.sealer, _sealing(state, allocation, checkpoint, order))]
    return [(each.node, order) for each in checkpoint.nodes if each.phase is CheckpointPhase.ASKED]


def _sealing(state: State, allocation: Allocation, open_: OpenCheckpoint, order: CheckpointOrder) -> CheckpointOrder:
    wrote = [each for each in open_.nodes if each.phase is CheckpointPhase.DONE]
    this = Checkpoint(
        n=open_.n,
        run=open_.run,
        path=open_.path,
        asked_at=open_.asked_at,
        ended_at=open_.asked_at,
        bytes=sum(each.bytes for each in wrote),
    )
    count = int(setting_value(state.settings, KEEP))
    stay = kept_after((*allocation.checkpoints.kept, this), count, int(setting_value(state.settings, KEEP_BYTES)))
    return CheckpointOrder(
        key=order.key,
        n=order.n,
        root=order.root,
        path=order.path,
        user=order.user,
        reason=order.reason,
        seal=True,
        keep=tuple(each.n for each in stay if each.n != open_.n),
        nodes=tuple(each.node for each in wrote),
    )


def deferral_s(state: State, allocation: Allocation) -> float:
    """How long the work may put its open checkpoint off; not when it has less time than usual, because a lent node goes back."""
    checkpoint, way = allocation.checkpoints.open, allocation.checkpoints.way
    if checkpoint is None or way is None or way.protocol is not CheckpointProtocol.GRPC:
        return 0.0
    usual_ms = float(setting_value(state.settings, TIMEOUT_S)) * 1000
    is_short = checkpoint.stops and checkpoint.deadline_at - checkpoint.asked_at < usual_ms
    return 0.0 if is_short else float(setting_value(state.settings, MAX_DEFERRAL_S))


def given_up_at(checkpoint: OpenCheckpoint, deferral: float = 0.0) -> int:
    """When no node can have anything more to say: it may take half as long again while it makes progress."""
    limit_ms = checkpoint.deadline_at - checkpoint.asked_at
    return checkpoint.deadline_at + int(limit_ms * EXTENSION + (SLACK_S + deferral) * 1000)
