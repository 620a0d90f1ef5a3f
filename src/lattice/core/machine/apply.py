"""apply = decide, then evolve: the one entry by which a committed command reaches the state.

Deterministic: the same envelopes in the same order give the same state, answers and digest on every replica. A command
with an id that was seen lately gets its first answer again and changes nothing; the memory of ids is bounded by their
age and number, both taken from the commands themselves. See docs/architecture/core.md.
"""

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.commands import AnyCommand, Envelope, ReviseService, SubmitAllocation, SubmitDag
from lattice.core.machine.decide import decide
from lattice.core.machine.evolve import evolve
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.rules.capacity import evictions
from lattice.core.machine.rules.site import audit
from lattice.core.machine.rules.site.changes import Change, changes_of
from lattice.core.machine.rules.work import dependencies, notifications
from lattice.core.machine.state import Recent, State
from lattice.core.model.site.audit import chained

_encode = msgspec.msgpack.Encoder().encode


def apply(state: State, envelope: Envelope) -> Outcome:
    """Carries out one command. `envelope.at` must not lie before `state.last_at`."""
    if envelope.at < state.last_at:
        raise AssertionError(f"time ran backwards: {envelope.at} < {state.last_at}")
    state.last_at = envelope.at
    if not envelope.command_id:
        return _carry_out(state, envelope)
    fingerprint = blake2b(_encode(_requested(envelope.command)), digest_size=8).digest()
    recent = state.recent.get(envelope.command_id)
    if recent is not None:
        return _answer_again(recent, fingerprint)
    outcome = _carry_out(state, envelope)
    rejected = outcome if isinstance(outcome, Rejected) else None
    number = outcome.number if isinstance(outcome, Accepted) else 0
    state.put_recent(Recent(envelope.command_id, envelope.at, fingerprint, number, rejected))
    return outcome


def _requested(command: AnyCommand) -> AnyCommand:
    """The command as its sender means it: what was looked up for it may differ when it is repeated."""
    match command:
        case SubmitAllocation() if command.ended or command.resume_from is not None:
            point = command.resume_from
            return replace(command, ended=(), resume_from=None if point is None else replace(point, n=0, path=""))
        case SubmitDag():
            members = tuple(replace(each, submission=replace(each.submission, ended=())) for each in command.members)
            return replace(command, members=members)
        case ReviseService():
            return replace(command, base=0, note="")
        case _:
            return command


def _carry_out(state: State, envelope: Envelope) -> Outcome:
    decision = decide(state, envelope)
    if isinstance(decision, Rejected):
        return decision
    changed = changes_of(state, envelope.command) if state.audit.is_on else ()
    events = told = _fold(state, decision, envelope.at)
    # What depends on what happened follows in the same command, and what depends on that.
    while told:
        follows = (*dependencies.settle(state, told, envelope.at), *evictions.settle(state, told, envelope.at))
        told = _fold(state, follows, envelope.at)
        events += told
    if state.audit.is_on:
        events += _record(state, envelope, events, changed)
    return Accepted(events=events, number=_number_of(decision))


def _fold(state: State, events: tuple[ev.AnyEvent, ...], at: int) -> tuple[ev.AnyEvent, ...]:
    """The events, now part of the state, and the notifications that they gave rise to."""
    told: tuple[ev.AnyEvent, ...] = ()
    for event in events:
        subject = notifications.subject_of(state, event)
        evolve(state, event, at)
        if subject is not None:
            told += _tell(state, subject, event, at)
    return events + told


def _tell(state: State, subject: notifications.Subject, event: ev.AnyEvent, at: int) -> tuple[ev.AnyEvent, ...]:
    """Those who want to hear of the event will, whatever becomes of this server."""
    told = notifications.notices(state, subject, event, at)
    for notice in told:
        evolve(state, notice, at)
    return told


def _record(
    state: State, envelope: Envelope, events: tuple[ev.AnyEvent, ...], changed: tuple[Change, ...]
) -> tuple[ev.AnyEvent, ...]:
    """The entries of the audit chain that the command gives rise to, now part of the state like all else that it did."""
    recorded: tuple[ev.AnyEvent, ...] = ()
    for note in audit.notes_of(state, envelope, events, changed):
        entry = ev.AuditRecorded(added=chained(state.audit.head, note, envelope.at))
        evolve(state, entry, envelope.at)
        recorded += (entry,)
    return recorded


def _number_of(events: tuple[ev.AnyEvent, ...]) -> int:
    match events[:1]:
        case (ev.AllocationSubmitted() as submitted,):
            return submitted.allocation.number
        case (ev.TaskGroupSubmitted() as submitted,):
            return submitted.group.number
        case (ev.DagSubmitted() as submitted,):
            return submitted.dag.number
        case _:
            return 0


def _answer_again(recent: Recent, fingerprint: bytes) -> Outcome:
    if recent.fingerprint != fingerprint:
        return Rejected(
            code="conflict",
            message="this request_id was used for another request",
            hint="Use a fresh request_id for each request; repeat one only with the same content.",
        )
    return recent.rejected or Accepted(number=recent.number, repeated=True)
