"""Judges what is said of data on the hot tier: who wants it, who makes the copy, and which waiting work has what it needs.

Every submission wants its sources compared with what is there: a comparison counts for all that was submitted before it began.
One copy serves everybody who may read the source; who may is found out by the mover, account by account. See
docs/architecture/data.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model.data.copies import (
    MAX_COPIES,
    MAX_SOURCES,
    MAX_TRIES,
    Copy,
    CopyPhase,
    CopyState,
    DataUse,
    key_of,
)
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, TaskGroup

Events = tuple[ev.AnyEvent, ...]
RECHECK = "staging.recheck_s"
RETRY = "staging.retry_s"
_THERE = (CopyState.READY, CopyState.USABLE)
_MOVING = (CopyState.MOVING, CopyState.USABLE)
MAX_BACKOFF = 6  # doublings of the pause before another try


# submissions


def check_sources(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    """Why a submission cannot have its data brought to the hot tier."""
    if not command.data:
        return None
    if len(command.data) > MAX_SOURCES:
        return _invalid(f"an allocation has at most {MAX_SOURCES} sources of data", f"{len(command.data)} sources")
    if vcluster.scheduler == SENSITIVE:
        return Rejected(
            code="forbidden",
            message=f'vCluster "{vcluster.name}" is for sensitive work, which uses no shared tier',
            hint="Mount the source directly, without `hot`.",
        )
    new = sum(key_of(source) not in state.staging.copies for source in command.data)
    if len(state.staging.copies) + new > MAX_COPIES:
        return Rejected(
            code="conflict", message="too many sources are on the hot tier", limit=f"{MAX_COPIES:,} sources"
        )
    return None


def declared(state: State, command: cmd.SubmitAllocation, record: Allocation) -> Allocation:
    """The record with the data that it needs: in Staging unless all of it is known to be there."""
    if not command.data:
        return record
    uses = tuple(DataUse(key_of(source)) for source in command.data)
    waiting = replace(record, data=uses, state=AllocationState.STAGING)
    settled = _settled(state, waiting)
    if settled is None or settled.denied or settled.message:  # what failed is tried again
        return waiting
    return replace(record, data=settled.uses)


def wanted(state: State, command: cmd.SubmitAllocation, at: int) -> Events:
    """The copies of a submission, as it wants them; after its own event."""
    found: list[ev.AnyEvent] = []
    for source in dict.fromkeys(command.data):
        copy = state.staging.copies.get(key_of(source))
        if copy is None:
            copy = Copy(key=key_of(source), source=source, tenant=command.tenant, user=command.user)
        found.append(ev.CopyChanged(copy=_asked_for(state, copy, command.account, at)))
    return tuple(found)


def _asked_for(state: State, copy: Copy, account: str, at: int) -> Copy:
    """A copy that somebody wants from now on. One that failed is tried again, and one that leaves is made again."""
    copy = replace(copy, wanted_at=at, used_at=at)
    if copy.state is CopyState.FAILED:
        return replace(copy, state=CopyState.WANTED, tries=0, retry_at=0, reason="")
    if copy.state is CopyState.LEAVING:
        return replace(copy, state=CopyState.WANTED)
    if copy.state is CopyState.READY and not (account in copy.readers and _is_fresh(state, copy, at)):
        return replace(copy, state=CopyState.WANTED)
    return copy


def want(state: State, command: cmd.WantCopy, at: int) -> Events | Rejected:
    key = key_of(command.source)
    copy = state.staging.copies.get(key)
    if copy is None and len(state.staging.copies) >= MAX_COPIES:
        return Rejected(
            code="conflict", message="too many sources are on the hot tier", limit=f"{MAX_COPIES:,} sources"
        )
    copy = copy or Copy(key=key, source=command.source, tenant=command.tenant, user=command.user)
    asked = _asked_for(state, copy, command.account, at)
    return (ev.CopyChanged(copy=replace(asked, asked_by=command.account)),)


# movers


def claim(state: State, command: cmd.ClaimCopy, at: int) -> Events | Rejected:
    copy = state.staging.copies.get(command.key)
    if copy is None or copy.state is not CopyState.WANTED or copy.retry_at > at:
        return Rejected(code="stale", message="nothing is to be done for this copy now")
    return (ev.CopyChanged(copy=replace(copy, state=CopyState.MOVING, mover=command.mover, claimed_at=at)),)


def report(state: State, command: cmd.ReportCopy, at: int) -> Events | Rejected:
    copy = state.staging.copies.get(command.key)
    if copy is None:
        return ()
    if command.phase is CopyPhase.REMOVED:
        return _removed(copy, command.generation)
    if copy.mover != command.mover or copy.state not in _MOVING or command.generation != copy.next_generation:
        return Rejected(code="stale", message="this mover does not hold the claim on the copy")
    match command.phase:
        case CopyPhase.SIZED:
            sized = replace(copy, size=command.size, files=command.files, checked_at=copy.claimed_at)
            sized = replace(sized, readers=command.readers, denied=command.denied, reason="")
            return _changed(_closed(state, sized) if command.denied and not command.readers else sized)
        case CopyPhase.USABLE:
            return _changed(replace(copy, state=CopyState.USABLE))
        case CopyPhase.READY | CopyPhase.UNCHANGED:
            return _changed(_finished(state, copy, command))
        case CopyPhase.FAILED:
            return _changed(_failed(state, copy, command.reason, at))
        case CopyPhase.FULL:
            pause_ms = _ms(state, RETRY)
            return _changed(
                replace(copy, state=CopyState.WANTED, mover="", retry_at=at + pause_ms, reason=command.reason)
            )
        case CopyPhase.RELEASED:
            return _changed(replace(copy, state=CopyState.WANTED, mover="", reason=command.reason))
        case _:
            assert_never(command.phase)


def _closed(state: State, copy: Copy) -> Copy:
    """None of those who asked may read the source: nothing is copied. Who came after the comparison began may be another."""
    closed = replace(copy, mover="", asked_by="")
    if _is_anybody_left(state, copy):
        return replace(closed, state=CopyState.WANTED)
    if copy.generation:
        return replace(closed, state=CopyState.READY)
    return replace(closed, state=CopyState.FAILED, reason=copy.denied[0][1])


def _finished(state: State, copy: Copy, command: cmd.ReportCopy) -> Copy:
    done = replace(copy, mover="", tries=0, retry_at=0, reason="", asked_by="")
    if command.phase is CopyPhase.READY:
        old = (*copy.old, copy.generation) if copy.generation else copy.old
        done = replace(
            done,
            generation=copy.next_generation,
            next_generation=copy.next_generation + 1,
            version=command.version,
            size=command.size,
            files=command.files,
            old=old,
        )
    # Who came after the comparison began wants another one.
    return replace(done, state=CopyState.WANTED if _is_anybody_left(state, done) else CopyState.READY)


def _is_anybody_left(state: State, copy: Copy) -> bool:
    judged = {*copy.readers, *(account for account, _ in copy.denied)}
    for number in state.staging.users.get(copy.key, ()):
        if number not in state.staging.waiting:
            continue
        group = state.groups.get(number)
        head = group.template if group is not None else state.allocations[number]
        if head.account not in judged or not _is_fresh(state, copy, head.submitted_at):
            return True
    return False


def _failed(state: State, copy: Copy, reason: str, at: int) -> Copy:
    tries = copy.tries + 1
    failed = replace(copy, mover="", tries=tries, reason=reason)
    if tries >= MAX_TRIES:
        return replace(failed, state=CopyState.FAILED)
    pause_ms = _ms(state, RETRY) << min(tries - 1, MAX_BACKOFF)
    return replace(failed, state=CopyState.WANTED, retry_at=at + pause_ms)


def _removed(copy: Copy, generation: int) -> Events:
    old = tuple(each for each in copy.old if each != generation)
    if copy.state is CopyState.LEAVING and not old:
        return (ev.CopyForgotten(key=copy.key),)
    return _changed(replace(copy, old=old)) if old != copy.old else ()


def evict(state: State, command: cmd.EvictCopy) -> Events | Rejected:
    copy = state.staging.copies.get(command.key)
    if copy is None or copy.state is CopyState.LEAVING:
        return ()
    if state.staging.users.get(command.key) or copy.is_claimed:
        return Rejected(
            code="conflict",
            message=f"{copy.source} is in use",
            hint="It can be evicted when no allocation needs it and no copy is being made.",
        )
    old = (*copy.old, copy.generation) if copy.generation else copy.old
    if not old:
        return (ev.CopyForgotten(key=copy.key),)
    return _changed(replace(copy, state=CopyState.LEAVING, generation=0, version="", old=old))


# what waits


class _Settled:
    """What waiting work gets: copies, a message about those that could not be made, or why its user may not have them."""

    def __init__(self, uses: tuple[DataUse, ...], messages: list[str], denied: str) -> None:
        self.uses = uses
        self.message = "; ".join(messages)
        self.denied = denied


def settle(state: State, command: cmd.SettleData) -> Events | Rejected:
    found: list[ev.AnyEvent] = []
    for number in dict.fromkeys(command.numbers):
        group = state.groups.get(number)
        head = group.template if group is not None else state.allocations.get(number)
        if head is None or next_allocation_state(head.state, AllocationTrigger.STAGED) is None:
            continue
        settled = _settled(state, head)
        if settled is None:
            continue
        if settled.denied:
            found.append(_given_up(number, group, settled.denied))
        else:
            found.append(ev.AllocationStaged(number=number, data=settled.uses, message=settled.message))
    return tuple(found)


def _given_up(number: int, group: TaskGroup | None, reason: str) -> ev.AnyEvent:
    """Its user may not read what it needs: it can never run."""
    if group is not None:
        return ev.TasksCancelled(group=number, count=group.pending_count, cause=Cause.LAUNCH)
    return ev.AllocationEnded(
        number=number,
        trigger=AllocationTrigger.FAIL,
        state=AllocationState.FAILED,
        cause=Cause.LAUNCH,
        message=reason,
    )


def is_settled(state: State, head: Allocation) -> bool:
    """Whether `settle` would take it out of Staging."""
    return _settled(state, head) is not None


def _settled(state: State, head: Allocation) -> _Settled | None:
    """None while anything is missing that is still being tried."""
    uses: list[DataUse] = []
    messages: list[str] = []
    for use in head.data:
        copy = state.staging.copies.get(use.key)
        if copy is None:
            return None
        denied = dict(copy.denied).get(head.account)
        if denied is not None and _is_fresh(state, copy, head.submitted_at):
            return _Settled((), [], f"{copy.source}: {denied}")
        if copy.state is CopyState.FAILED:
            messages.append(f"{copy.source} could not be staged after {copy.tries} tries: {copy.reason}")
            uses.append(DataUse(use.key))
        elif copy.state in _THERE and head.account in copy.readers and _is_fresh(state, copy, head.submitted_at):
            is_whole = copy.state is CopyState.READY
            uses.append(DataUse(use.key, copy.generation if is_whole else copy.next_generation))
        else:
            return None
    return _Settled(tuple(uses), messages, "")


def _is_fresh(state: State, copy: Copy, at: int) -> bool:
    """Whether the copy was compared with its source late enough for a request of that time."""
    return bool(copy.checked_at) and copy.checked_at + _ms(state, RECHECK) > at


def _ms(state: State, key: str) -> int:
    return int(float(setting_value(state.settings, key)) * 1000)


def _changed(copy: Copy) -> Events:
    return (ev.CopyChanged(copy=copy),)


def _invalid(message: str, requested: str = "") -> Rejected:
    return Rejected(code="invalid", message=message, requested=requested)
