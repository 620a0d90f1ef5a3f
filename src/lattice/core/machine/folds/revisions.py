"""Folds what services run. See docs/architecture/services.md."""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.services.rollouts import Rollout, RolloutPhase, ServiceRevision
from lattice.core.model.work.allocations import Allocation

RevisionEvent = ev.ServiceRevised | ev.RolloutChanged


def evolve_revision(state: State, event: RevisionEvent) -> None:
    match event:
        case ev.ServiceRevised():
            _revised(state, event)
        case ev.RolloutChanged():
            _changed(state, event)
        case _:
            assert_never(event)


def _revised(state: State, event: ev.ServiceRevised) -> None:
    old = state.allocations[event.number]
    if not state.revisions.of(event.number):
        state.revisions.put(_original(state, old))
    state.revisions.put(event.revision)
    state.revisions.trim(event.number, (event.rollout.target, event.rollout.former))
    _follow(state, old, event.rollout)


def _original(state: State, record: Allocation) -> ServiceRevision:
    """What the service was submitted with."""
    return ServiceRevision(
        number=record.number,
        revision=record.revision,
        at=record.submitted_at,
        by=record.user,
        payload=state.payloads[record.number],
        probed=record.probed,
        note="submitted",
    )


def _changed(state: State, event: ev.RolloutChanged) -> None:
    rollout = event.rollout
    if rollout.phase is RolloutPhase.TAKING_BACK:
        failed = state.revisions.of(event.number)[rollout.target]
        state.revisions.put(replace(failed, taken_back=rollout.reason))
    _follow(state, state.allocations[event.number], rollout)


def _follow(state: State, old: Allocation, rollout: Rollout) -> None:
    """What is started from now on is the wanted revision."""
    wanted = state.revisions.of(old.number)[rollout.wanted]
    state.put_payload(old.number, wanted.payload)
    state.put_allocation(replace(old, revision=wanted.revision, probed=wanted.probed, rollout=rollout))
