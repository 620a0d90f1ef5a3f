"""The steps of a job as rows: the batch script itself, then what was launched inside."""

from collections.abc import Iterator, Sequence

from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.efficiency import finite
from lattice.core.model.work.steps import StepRecord
from lattice.ports.nodes.steps import StepView
from lattice.slurm.listings.rows import StepRow
from lattice.slurm.text.states import State

SIGTERM = 15
OOM = 125  # what Slurm shows as the signal of a step that ran out of memory
# Ends that come to a job from outside end its steps by a signal.
_STOPPED = (State.CANCELLED, State.TIMEOUT, State.PREEMPTED, State.DEADLINE)
_SIGNALLED = 128


def steps_of(record: Allocation, state: State, live: Sequence[StepView], batch_cpus: int) -> Iterator[StepRow]:
    """Nothing of a job that never ran."""
    if state.is_waiting or not record.started_at:
        return
    has_batch = record.asked is None or record.asked.program == "sbatch"
    if has_batch:
        yield _batch(record, state, batch_cpus)
    known = {step.step for step in record.steps}
    for step in record.steps:
        yield _ended(step, state)
    for view in live:
        if view.step not in known and view.layout is not None:
            yield _live(view)


def _batch(record: Allocation, state: State, cpus: int) -> StepRow:
    code, signal = (record.exit_code or 0, 0) if not record.signal else (0, record.signal)
    shown = state
    if state in _STOPPED:
        shown, code, signal = State.CANCELLED, 0, SIGTERM
    elif state is State.OUT_OF_MEMORY:
        code, signal = 0, OOM
    elif state.is_active:
        shown, code, signal = State.RUNNING, 0, 0
    return StepRow(
        name="batch",
        command="batch",
        state=shown,
        nodes=record.nodes[:1],
        cpus=cpus,
        started_at=record.started_at / 1000,
        ended_at=record.ended_at / 1000 if record.ended_at else None,
        exit_code=code,
        signal=signal,
        cpu_s=max(0.0, finite(record.cpu_s - sum(step.cpu_s for step in record.steps))),
        peak_memory_mb=record.peak_memory_mb,
        read_bytes=max(0, record.usage.read_bytes - sum(step.usage.read_bytes for step in record.steps)),
        written_bytes=max(0, record.usage.written_bytes - sum(step.usage.written_bytes for step in record.steps)),
    )


def _ended(step: StepRecord, state: State) -> StepRow:
    code, signal = (step.exit_code, 0) if step.exit_code < _SIGNALLED else (0, step.exit_code - _SIGNALLED)
    shown = State.COMPLETED if not step.exit_code else State.FAILED
    if step.lost:
        shown = State.NODE_FAIL
    elif step.usage.is_oom:
        shown, code, signal = State.OUT_OF_MEMORY, 0, OOM
    elif signal and state in _STOPPED:
        shown, code, signal = State.CANCELLED, 0, SIGTERM
    return StepRow(
        name=str(step.step),
        command=step.name,
        state=shown,
        nodes=step.nodes,
        ntasks=step.tasks,
        cpus=step.tasks,
        started_at=step.started_at / 1000,
        ended_at=step.ended_at / 1000,
        exit_code=code,
        signal=signal,
        cpu_s=finite(step.cpu_s),
        peak_memory_mb=step.peak_memory_mb,
        read_bytes=step.usage.read_bytes,
        written_bytes=step.usage.written_bytes,
    )


def _live(view: StepView) -> StepRow:
    nodes = () if view.layout is None else view.layout.nodes
    return StepRow(
        name=str(view.step),
        command=view.name,
        state=State.RUNNING,
        nodes=nodes,
        ntasks=view.tasks,
        cpus=view.tasks,
        started_at=view.started_at / 1000,
    )
