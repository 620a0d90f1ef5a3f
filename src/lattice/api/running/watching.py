"""Who may watch a terminal without owning it: members of the tenant that its owner names. One judgement for every way in."""

from lattice.api.auth.rbac import Permission, Reach, reach_in
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find, find_hot
from lattice.api.running.step_launch import single
from lattice.core.model.ids import allocation_id, parse_allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.steps import Watcher, step_id

HINT = (
    "only the owner of the allocation, and whom the owner names with `lattice attach --share`, may watch its terminals"
)


async def find_watched(context: Context, text: str, step: int, permission: Permission = Permission.READ) -> Allocation:
    """The allocation, as `find` gives it, also for those who may see nothing of it but a terminal that is shared with them."""
    try:
        return single(await find(context, text, permission))
    except ApiError:
        number = parse_allocation_id(text)
        found = None if number is None else find_hot(context, number)
        if found is None or not isinstance(found.record, Allocation) or not may_watch(context, found.record, step):
            raise
        return found.record


def may_watch(context: Context, allocation: Allocation, step: int) -> bool:
    """Whether the terminal is shared with the caller now; what is sensitive never is."""
    current = context.state.allocations.get(allocation.number)
    return (
        current is not None
        and Watcher(step, context.user) in current.watchers
        and current.tenant in context.identity.tenants
        and current.vcluster not in context.state.audit.sensitive
        and reach_in(context.identity, Permission.READ_OUTPUT, current.tenant) is not Reach.NONE
    )


def check_watches(context: Context, allocation: Allocation, step: int) -> None:
    """Raises ApiError for everybody but the owner and those who may watch."""
    if allocation.user != context.user and not may_watch(context, allocation, step):
        name = step_id(allocation_id(allocation.number), step)
        raise ApiError("forbidden", f"{name} is a terminal, and it is not shared with you", hint=HINT)


def watchers_of(context: Context, allocation: Allocation, step: int) -> tuple[str, ...]:
    """Whom a terminal is shared with; for its owner alone."""
    current = context.state.allocations.get(allocation.number)
    if current is None or current.user != context.user:
        return ()
    return tuple(each.user for each in current.watchers if each.step == step)
