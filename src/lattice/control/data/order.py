"""Pure choices about the hot tier: which copy comes next, which ones leave, and what is said of a full one."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lattice.core.machine.state import State
from lattice.core.model.data.copies import Copy, CopyState
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation

_NEVER = 1 << 62
_SHOWN = 5


class Watermarks(Struct, frozen=True, kw_only=True):
    """Of the tier's capacity: nothing is added above `high`; then the copies used longest ago leave until `low`."""

    high: float = 0.9
    low: float = 0.7


def heads_of(state: State, key: str) -> list[Allocation]:
    """The live work that needs the copy; for a group its template."""
    found = []
    for number in state.staging.users.get(key, ()):
        group = state.groups.get(number)
        found.append(group.template if group is not None else state.allocations[number])
    return found


def claimable(state: State, now: int, shares: Mapping[str, float]) -> list[Copy]:
    """Copies to be made or compared now, those first whose work can be expected to start first: that may start now, of the highest
    class; then small ones, then those of tenants below their share, then the oldest request.

    `shares` is what a tenant uses of its share (above 1 = more than that).
    """

    def rank(copy: Copy) -> tuple[int, int, int, float, int, str]:
        heads = [head for head in heads_of(state, copy.key) if head.number in state.staging.waiting]
        start = min((max(head.eligible_at, now) for head in heads), default=_NEVER)
        best = max((head.preemption_class for head in heads), default=0)
        # What is there needs a comparison alone, which takes no time.
        size = 0 if copy.generation else copy.size
        return start, -best, size, shares.get(copy.tenant, 0.0), copy.wanted_at, copy.key

    wanted = [copy for copy in state.staging.copies.values() if copy.state is CopyState.WANTED and copy.retry_at <= now]
    return sorted(wanted, key=rank)


def used_bytes(copies: Iterable[Copy], tenant: str = "") -> int:
    """What the copies have, or will have when they are made."""
    return sum(copy.size for copy in copies if not tenant or copy.tenant == tenant)


def to_evict(state: State, wanted: int, room: int, tenant: str = "") -> list[str]:
    """Keys of copies to give up, the one used longest ago first, so that `wanted` bytes are free beyond `room`."""
    free = [
        copy
        for copy in state.staging.copies.values()
        if copy.state in (CopyState.READY, CopyState.FAILED, CopyState.WANTED)
        and copy.generation
        and copy.key not in state.staging.users
        and (not tenant or copy.tenant == tenant)
    ]
    chosen: list[str] = []
    for copy in sorted(free, key=lambda copy: (copy.used_at, -copy.size, copy.key)):
        if room >= wanted:
            break
        chosen.append(copy.key)
        room += copy.size
    return chosen


def full_sentence(state: State, copy: Copy, used: int, capacity: int) -> str:
    """That there is no room, and who has it; names only within the tenant of the copy."""
    own: list[int] = []
    others = 0
    for key in state.staging.users:
        if key == copy.key:
            continue
        for head in heads_of(state, key):
            if head.tenant == copy.tenant:
                own.append(head.number)
            else:
                others += 1
    named = ", ".join(allocation_id(number) for number in sorted(set(own))[:_SHOWN])
    more = f" and {len(set(own)) - _SHOWN} more of this tenant" if len(set(own)) > _SHOWN else ""
    whose = [f"{named}{more}"] if named else []
    whose += [f"{others} of other tenants"] if others else []
    users = f"; in use by {' and '.join(whose)}" if whose else ""
    return f"the hot tier is full: {copy.size:,} bytes are needed, {used:,} of {capacity:,} are used{users}"
