"""Folds what happened to baselines and to nodes that differ from them. Part of `evolve`: it cannot refuse and may not fail."""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State

DriftEvent = ev.DriftNoted | ev.DriftEscalated | ev.DriftVerified | ev.DriftCleared | ev.BaselineSet | ev.BaselineUnset


def evolve_drift(state: State, event: DriftEvent, at: int) -> None:
    book = state.drift
    match event:
        case ev.DriftNoted():
            book.put(event.drift)
        case ev.DriftEscalated():
            book.put(replace(book.drifts[event.node], escalated_at=at))
        case ev.DriftVerified():
            book.put(replace(book.drifts[event.node], verified_at=at))
        case ev.DriftCleared():
            book.drop(event.node)
        case ev.BaselineSet():
            book.put_baseline(event.baseline)
        case ev.BaselineUnset():
            book.drop_baseline(event.vcluster)
        case _:
            assert_never(event)
