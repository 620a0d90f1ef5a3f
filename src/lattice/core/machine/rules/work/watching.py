"""Who may watch a terminal: its owner names users, and takes it back. Only while the allocation runs, and never for sensitive work.

Terminals are not in the log before they end, so whether the step exists is the API's to know; one that is recorded has ended.
A repeated request changes nothing. See docs/architecture/terminals.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.steps import MAX_WATCHERS, Watcher, step_id

Events = tuple[ev.AnyEvent, ...]


def share(state: State, command: cmd.ShareTerminal) -> Events | Rejected:
    name = allocation_id(command.number)
    record = state.allocations.get(command.number)
    if record is None:
        return Rejected(code="not_found", message=f"no running allocation {name}")
    is_known = Watcher(command.step, command.user) in record.watchers
    if is_known == command.is_shared:
        return ()
    if command.is_shared and (refusal := _refusal(state, record, command)) is not None:
        return refusal
    return (
        ev.TerminalShared(number=command.number, step=command.step, user=command.user, is_shared=command.is_shared),
    )


def _refusal(state: State, record: Allocation, command: cmd.ShareTerminal) -> Rejected | None:
    name = allocation_id(record.number)
    if record.vcluster in state.audit.sensitive:
        return Rejected(
            code="forbidden", message=f"{name} is sensitive work, and no other user may watch its terminals"
        )
    if not (record.is_running or record.state is AllocationState.STARTING):
        return Rejected(code="conflict", message=f"{name} is {record.state} and has no open terminals")
    if not command.user or command.user == record.user:
        return Rejected(code="invalid", message="a terminal is shared with another user", hint="Name that user.")
    if any(step.step == command.step for step in record.steps):
        return Rejected(code="conflict", message=f"{step_id(name, command.step)} has ended")
    if len(record.watchers) >= MAX_WATCHERS:
        return Rejected(
            code="conflict",
            message=f"the terminals of {name} are shared with too many users",
            current=f"{len(record.watchers)}",
            limit=f"{MAX_WATCHERS}",
            hint="Take one of them back first: lattice attach ID --terminal T --unshare USER.",
        )
    return None


def notes_of(state: State, events: Events, actor: str) -> tuple[AuditNote, ...]:
    """Who was let in to which terminal is recorded for all work."""
    return tuple(
        AuditNote(
            kind="terminal.share" if event.is_shared else "terminal.unshare",
            actor=actor,
            subject=step_id(allocation_id(event.number), event.step),
            user=state.allocations[event.number].user,
            tenant=state.allocations[event.number].tenant,
            allocation=event.number,
            detail=event.user,
        )
        for event in events
        if isinstance(event, ev.TerminalShared)
    )
