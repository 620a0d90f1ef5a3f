"""Steps that are over: which of them are news. A record that is known, too old to be kept, or of an allocation that is gone
changes nothing, so that reports may be repeated. See docs/architecture/steps.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.work.steps import KEPT_STEPS, StepRecord


def record(state: State, command: cmd.RecordSteps) -> tuple[ev.AnyEvent, ...]:
    """An event for the allocation if any of the records are new."""
    allocation = state.allocations.get(command.number)
    if allocation is None:
        return ()
    fresh = tuple(step for step in command.steps if _is_new(allocation.steps, step))
    return (ev.StepsRecorded(number=command.number, steps=fresh),) if fresh else ()


def _is_new(known: tuple[StepRecord, ...], step: StepRecord) -> bool:
    if len(known) >= KEPT_STEPS and step.step < known[0].step:
        return False
    return all(record.step != step.step for record in known)
