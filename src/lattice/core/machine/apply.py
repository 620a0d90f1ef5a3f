"""apply = decide, then evolve: the one entry by which a committed command reaches the state.

Deterministic: the same envelopes in the same order give the same state, answers and digest on every replica. A command
with an id that was seen lately gets its first answer again and changes nothing; the memory of ids is bounded by their
age and number, both taken from the commands themselves.
"""

from hashlib import blake2b

import msgspec

from lattice.core.machine import events as ev
from lattice.core.machine.commands import Envelope
from lattice.core.machine.decide import decide
from lattice.core.machine.evolve import evolve
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.rules import notifications
from lattice.core.machine.state import Recent, State

_encode = msgspec.msgpack.Encoder().encode


def apply(state: State, envelope: Envelope) -> Outcome:
    """Carries out one command. `envelope.at` must not lie before `state.last_at`."""
    if envelope.at < state.last_at:
        raise AssertionError(f"time ran backwards: {envelope.at} < {state.last_at}")
    state.last_at = envelope.at
    if not envelope.command_id:
        return _carry_out(state, envelope)
    fingerprint = blake2b(_encode(envelope.command), digest_size=8).digest()
    recent = state.recent.get(envelope.command_id)
    if recent is not None:
        return _answer_again(recent, fingerprint)
    outcome = _carry_out(state, envelope)
    rejected = outcome if isinstance(outcome, Rejected) else None
    number = outcome.number if isinstance(outcome, Accepted) else 0
    state.put_recent(Recent(envelope.command_id, envelope.at, fingerprint, number, rejected))
    return outcome


def _carry_out(state: State, envelope: Envelope) -> Outcome:
    decision = decide(state, envelope)
    if isinstance(decision, Rejected):
        return decision
    told: tuple[ev.AnyEvent, ...] = ()
    for event in decision:
        subject = notifications.subject_of(state, event)
        evolve(state, event, envelope.at)
        if subject is not None:
            told += _tell(state, subject, event, envelope.at)
    return Accepted(events=decision + told, number=_number_of(decision))


def _tell(state: State, subject: notifications.Subject, event: ev.AnyEvent, at: int) -> tuple[ev.AnyEvent, ...]:
    """Those who want to hear of the event will, whatever becomes of this server."""
    told = notifications.notices(state, subject, event, at)
    for notice in told:
        evolve(state, notice, at)
    return told


def _number_of(events: tuple[ev.AnyEvent, ...]) -> int:
    match events[:1]:
        case (ev.AllocationSubmitted() as submitted,):
            return submitted.allocation.number
        case (ev.TaskGroupSubmitted() as submitted,):
            return submitted.group.number
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
