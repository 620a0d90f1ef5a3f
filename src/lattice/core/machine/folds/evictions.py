"""Folds events about evictions. See docs/architecture/preemption.md."""

from typing import assert_never

from lattice.core.machine import events as ev
from lattice.core.machine.state import State

EvictionEvent = ev.EvictionBegan | ev.EvictionChanged | ev.EvictionEnded


def evolve_eviction(state: State, event: EvictionEvent) -> None:
    match event:
        case ev.EvictionBegan() | ev.EvictionChanged():
            state.evictions.put(event.eviction)
        case ev.EvictionEnded():
            state.evictions.drop(event.number)
        case _:
            assert_never(event)
