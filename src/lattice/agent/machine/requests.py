"""What is asked of a run while it is there: another limit, a signal, a pause. Part of `decide`, under the same rules.

A shim that makes a process of a run does not hear of it yet, and one whose launch waits knows nothing of it. So what is asked then is
kept in the run, or in its order, and passed on when the process is there. A signal is not kept: it is for what runs now.
See docs/architecture/agent.md.
"""

import msgspec

from lattice.agent.machine.state import (
    AgentState,
    Instruction,
    PauseRun,
    RenewToken,
    SignalRun,
    StopRun,
    UpdateRun,
)
from lattice.ports.nodes.agents import Phase, RunKey, UpdateOrder


def update_asked(state: AgentState, asked: UpdateOrder) -> list[Instruction]:
    key = asked.key
    run = state.runs.get(key)
    if run is None or run.phase is Phase.ENDED:
        return []
    if not run.launched:
        order = state.waiting[key.number]
        token = asked.token or order.token
        state.waiting[key.number] = msgspec.structs.replace(order, walltime_s=asked.walltime_s, token=token)
        return []
    state.change(key, walltime_s=asked.walltime_s)
    if run.phase is Phase.STARTING:
        state.change(key, token=asked.token or run.token)
        return []
    update = UpdateRun(key=key, walltime_s=asked.walltime_s)
    return [update, RenewToken(key=key, token=asked.token)] if asked.token else [update]


def signal_asked(state: AgentState, key: RunKey, signal: int, to: str) -> list[Instruction]:
    """For what runs now; a run that has not begun or has ended does not hear it. Nodes without a run may have steps."""
    run = state.find(key)
    if run is not None and run.phase not in (Phase.RUNNING, Phase.STOPPING):
        return []
    return [SignalRun(key=key, signal=signal, to=to)]


def pause_asked(state: AgentState, key: RunKey, *, is_paused: bool) -> list[Instruction]:
    run = state.find(key)
    if run is not None:
        if run.phase is Phase.ENDED:
            return []
        state.change(key, is_paused=is_paused)
        if run.phase is Phase.STARTING:
            return []
    return [PauseRun(key=key, is_paused=is_paused)]


def pass_on_requests(state: AgentState, key: RunKey) -> list[Instruction]:
    """What was asked while the shim could not hear it."""
    run = state.runs[key]
    instructions: list[Instruction] = []
    if run.walltime_s is not None:
        instructions.append(UpdateRun(key=key, walltime_s=run.walltime_s))
    if run.is_paused:
        instructions.append(PauseRun(key=key, is_paused=True))
    if run.token:
        state.change(key, token="")
        instructions.append(RenewToken(key=key, token=run.token))
    if run.stop is not None:
        state.change(key, phase=Phase.STOPPING)
        instructions.append(StopRun(key=key, grace_s=run.stop.grace_s, why=run.stop.why))
    return instructions
