"""What a submission says of checkpoints: how the work is asked for one, and what it continues from.

See docs/architecture/checkpoints.md.
"""

import re

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.checkpoints.requests import no_root
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.checkpoints import MAX_PATH, NO_CHECKPOINTS, ROOT, Checkpoints, ResumePoint

_DIRECTORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LAST_SIGNAL = 64
_NOT_CAUGHT = (9, 19)  # SIGKILL, SIGSTOP


def check(state: State, command: cmd.SubmitAllocation) -> Rejected | None:
    if command.checkpoint is None and command.resume_from is None:
        return None
    return _check_way(state, command) or _check_resume(state, command)


def _check_way(state: State, command: cmd.SubmitAllocation) -> Rejected | None:
    way = command.checkpoint
    if way is None:
        return None
    if not 0 < way.signal <= _LAST_SIGNAL or way.signal in _NOT_CAUGHT:
        return Rejected(
            code="invalid", message=f"signal {way.signal} cannot ask for a checkpoint: nothing can catch it"
        )
    if not setting_value(state.settings, ROOT):
        return no_root()
    if command.project and not _DIRECTORY.fullmatch(command.project):
        return Rejected(
            code="invalid",
            message="the project's name cannot be the name of a directory, in which the checkpoints would lie",
            hint="Name the project with letters, digits, dots, dashes and underscores.",
        )
    return None


def _check_resume(state: State, command: cmd.SubmitAllocation) -> Rejected | None:
    """What the API found is judged again as far as the state still has it: a checkpoint may have gone meanwhile."""
    point = command.resume_from
    if point is None:
        return None
    if command.tasks:
        return Rejected(code="invalid", message="a task group cannot continue from one checkpoint")
    if not 0 < len(point.path) <= MAX_PATH:
        return Rejected(code="invalid", message="the path of the checkpoint is not possible")
    record = state.find(point.number)
    if record is None:
        return None  # archived; its record does not change any more
    label = allocation_id(point.number)
    if (record.user, record.tenant) != (command.user, command.tenant):
        return Rejected(code="not_found", message=f"no allocation {label}")
    if not any(each.n == point.n and each.path == point.path for each in record.checkpoints.kept):
        return Rejected(code="conflict", message=f"checkpoint {point.n} of {label} is not there any more")
    return None


def checkpoints_of(command: cmd.SubmitAllocation, at: int) -> Checkpoints:
    """What the new record knows of checkpoints."""
    point = command.resume_from
    if command.checkpoint is None and point is None:
        return NO_CHECKPOINTS
    since = None if point is None else ResumePoint(number=point.number, n=point.n, path=point.path, at=at)
    return Checkpoints(way=command.checkpoint, resume_from=since)
