"""The next steps of an update: which instances are replaced now, whether it is over, or taken back.

Instances go one after the other, `max_unavailable` at a time: the next one when the last is ready. An instance of the new revision that is
not ready in time takes the whole update back; then order matters less than speed, and what is not ready goes first, all at once.
The rules of the commands judge every proposal again. See docs/architecture/services.md.
"""

from lattice.core.machine.commands import EndRollout, RenewInstance, TurnRollout
from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.services.rollouts import Rollout, RolloutPhase
from lattice.core.model.work.allocations import Allocation, Part, PartPhase
from lattice.core.model.work.readiness import is_ready, standing_of

Step = RenewInstance | TurnRollout | EndRollout


def next_steps(record: Allocation, board: ReadinessBoard, now: int, heard_since: int) -> list[Step]:
    """What is due. `heard_since` = since when nodes tell this server what is ready: before that nothing counts as late."""
    rollout = record.rollout
    if rollout is None or not rollout.is_open or not record.is_running:
        return []
    ready = frozenset(part.node for part in record.parts if is_ready(board, record, part))
    waits_since = max(rollout.stepped_at, rollout.began_at, record.started_at, heard_since)
    is_late = now - waits_since > rollout.ready_within_s * 1000
    if rollout.phase is RolloutPhase.TAKING_BACK:
        return _steps_back(record, rollout, ready, is_late=is_late)
    slow = next((part for part in record.parts if part.node in rollout.updated and part.node not in ready), None)
    if slow is not None and is_late:
        reason = _why(record, board, slow, rollout)
        return [TurnRollout(number=record.number, revision=rollout.target, reason=reason)]
    return _steps_forward(record, rollout, ready)


def _steps_forward(record: Allocation, rollout: Rollout, ready: frozenset[str]) -> list[Step]:
    old = [part for part in record.parts if part.node not in rollout.updated]
    if not old:
        is_over = all(part.node in ready for part in record.parts)
        return [EndRollout(number=record.number, revision=rollout.target)] if is_over else []
    under_way = len(rollout.renewing) + sum(node not in ready for node in rollout.updated)
    free = max(0, rollout.max_unavailable - under_way)
    waiting = [part for part in old if part.phase is not PartPhase.LEAVING]
    idle = [part for part in waiting if part.node not in ready][:free]
    # An instance that takes requests goes only while few enough others do not.
    missing = max(record.size, len(record.parts)) - len(ready)
    spare = max(0, min(free - len(idle), rollout.max_unavailable - missing))
    busy = [part for part in waiting if part.node in ready][:spare]
    return _renewals(record, [*idle, *busy])


def _steps_back(record: Allocation, rollout: Rollout, ready: frozenset[str], *, is_late: bool) -> list[Step]:
    old = [part for part in record.parts if part.node in rollout.updated]
    if not old:
        is_over = not rollout.renewing
        return [EndRollout(number=record.number, revision=rollout.former)] if is_over else []
    waiting = [part for part in old if part.phase is not PartPhase.LEAVING]
    idle = [part for part in waiting if part.node not in ready]
    missing = max(record.size, len(record.parts)) - len(ready)
    # The former revision may be broken as well by now: what is late then does not hold the others up.
    spare = max(int(is_late), rollout.max_unavailable - missing)
    busy = [part for part in waiting if part.node in ready][: max(0, spare)]
    return _renewals(record, [*idle, *busy])


def _renewals(record: Allocation, parts: list[Part]) -> list[Step]:
    return [
        RenewInstance(number=record.number, run=record.run, node=part.node, revision=record.revision) for part in parts
    ]


def _why(record: Allocation, board: ReadinessBoard, part: Part, rollout: Rollout) -> str:
    """In the words of its node, where it gave any."""
    told = standing_of(board, record, part)
    how = told.text if told is not None else ""
    if part.phase is PartPhase.RESTARTING:
        ended = part.message or (f"signal {part.signal}" if part.signal else f"exit code {part.exit_code}")
        how = f"it ends with {ended}"
    late = f"the instance on node {part.node} was not ready within {rollout.ready_within_s} s"
    return f"{late}: {how}" if how else late
