"""What `scontrol` does to jobs and nodes: hold, release, requeue, update. Silent when it worked, as Slurm is."""

from collections.abc import Awaitable, Callable, Mapping

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find_tasks
from lattice.api.slurm.answering import complained
from lattice.api.slurm.commands.scontrol_reservations import create, delete
from lattice.api.slurm.commands.scontrol_updates import update
from lattice.core.machine.commands import (
    AnyCommand,
    HoldAllocation,
    PauseAllocation,
    ReleaseAllocation,
    RequeueAllocation,
)
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Hold
from lattice.slurm.listings.listing import ListingLine
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand
from lattice.wire.text.problems import BadField

UNKNOWN = "Invalid job id specified"
DENIED = "Access/permission denied"
DONE = "Job/step already completing or completed"

Verb = Callable[[Context, SlurmCommand, ListingLine], Awaitable[SlurmAnswer]]
Change = Callable[[Context, Found, Intervals], AnyCommand]


def _hold(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    held_by = Hold.USER if found.head.user == context.user else Hold.OPERATOR
    return HoldAllocation(number=found.number, hold=held_by, positions=positions)


def _hold_as_user(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    return HoldAllocation(number=found.number, hold=Hold.USER, positions=positions)


def _release(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    as_operator = context.reach_in(Permission.CHANGE, found.head.tenant) > Reach.OWN
    return ReleaseAllocation(number=found.number, as_operator=as_operator, positions=positions)


def _requeue(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    return RequeueAllocation(number=found.number, positions=positions)


def _requeue_held(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    return RequeueAllocation(number=found.number, hold=True, positions=positions)


def _suspend(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    return PauseAllocation(number=found.number, is_paused=True)


def _resume(context: Context, found: Found, positions: Intervals) -> AnyCommand:
    return PauseAllocation(number=found.number, is_paused=False)


def _each(change: Change, keyword: str, *, twice: bool = False) -> Verb:
    """A keyword with a list of jobs; `twice` = Slurm says what is wrong in two lines."""

    async def run(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
        names = [name for word in line.words for name in _split(word)]
        if not names:
            return complained(f"too few arguments for keyword:{keyword}")
        failed: list[str] = []
        for name in names:
            why = await _changed(context, command, name, change)
            if why:
                failed.append(f"{why} for job {name}")
                failed += [f"slurm_suspend error: {why}"] if twice else []
        return complained(*failed, code=1 if failed else 0)

    return run


def _split(word: str) -> list[str]:
    """`17,18_[2-4]` at commas outside of brackets."""
    parts, current, depth = [], "", 0
    for char in word:
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [part for part in (*parts, current) if part]


async def _changed(context: Context, command: SlurmCommand, name: str, change: Change) -> str:
    """What went wrong; empty when nothing did."""
    try:
        found, positions = await find_tasks(context, our_id(name), Permission.CHANGE)
        if found.is_ended and found.is_archived:
            return UNKNOWN
        await context.carry_out(change(context, found, positions), command.request_id, part=name)
    except BadField:
        return UNKNOWN
    except ApiError as problem:
        return in_slurms_words(problem)
    return ""


def our_id(name: str) -> str:
    """`17_[2-4]` as `a17_[2-4]`."""
    return f"a{name}" if "_" in name else name


def in_slurms_words(problem: ApiError) -> str:
    """Raises what is the server's own trouble."""
    if problem.status >= 500:
        raise problem
    if problem.code in ("not_found", "invalid"):
        return UNKNOWN
    if problem.code == "forbidden":
        return DENIED
    message = problem.view.message
    if "is Pending" in message:
        return "Job is pending execution"
    is_over = any(word in message for word in ("already", "is Completed", "is Failed", "is Cancelled", "is Stopping"))
    return DONE if is_over else message


VERBS: Mapping[str, Verb] = {
    "create": create,
    "delete": delete,
    "hold": _each(_hold, "hold", twice=True),
    "uhold": _each(_hold_as_user, "uhold", twice=True),
    "release": _each(_release, "release", twice=True),
    "requeue": _each(_requeue, "requeue"),
    "requeuehold": _each(_requeue_held, "requeuehold"),
    "resume": _each(_resume, "resume"),
    "suspend": _each(_suspend, "suspend"),
    "update": update,
}
