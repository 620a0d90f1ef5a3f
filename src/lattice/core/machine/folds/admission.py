"""Folds what was decided about who may be a node. Part of `evolve`: it cannot refuse and may not fail.

See docs/architecture/nodes.md.
"""

from typing import assert_never

from lattice.core.machine import events as ev
from lattice.core.machine.state import State

AdmissionEvent = ev.NodeJudged | ev.NodeEnrolled


def evolve_admission(state: State, event: AdmissionEvent, at: int) -> None:
    match event:
        case ev.NodeJudged():
            state.admission.put(event.admission)
        case ev.NodeEnrolled():
            state.admission.forget_expired(at)
            state.admission.put_enrolment(event.enrolment)
        case _:
            assert_never(event)
