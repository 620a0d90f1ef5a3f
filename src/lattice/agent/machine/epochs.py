"""What an agent does when the cluster it serves was restored: which runs are still meant, and which servers are of the past.

A restore rewinds history: numbers are given again, and what ended may be running once more. A run belongs to the history in which it
was started. When a later one begins, the agent registers with everything it still knows, ends acknowledged or not; what the server
names is taken over, all else leaves no trace, so that a new run of the same number finds nothing in its place. A server
of an earlier history is not served any more.
"""

import enum
from collections.abc import Collection

import msgspec

from lattice.agent.machine.state import AgentState, PurgeRun, Run
from lattice.ports.nodes.agents import Phase, RunKey

# Runs of agents that knew no histories yet.
_BEFORE_ALL = 1


class History(enum.Enum):
    """The history that a server speaks for, beside the newest that the agent has served."""

    SAME = "same"
    LATER = "later"
    FORMER = "former"


def judge_epoch(state: AgentState, epoch: int) -> History:
    if not epoch or not state.epoch or epoch == state.epoch:
        return History.SAME
    return History.LATER if epoch > state.epoch else History.FORMER


def begin_epoch(state: AgentState, epoch: int) -> None:
    """Enters a later history: nothing of what the former one acknowledged counts any more."""
    state.epoch = epoch
    for run in (*state.runs.values(), *state.kept.values()):
        state.runs[run.key] = msgspec.structs.replace(run, acknowledged_seq=0, epoch=run.epoch or _BEFORE_ALL)
    state.kept.clear()
    state.kept_bytes = 0


def is_former(state: AgentState, run: Run) -> bool:
    """Whether the run was started in another history and was not taken over into this one."""
    return bool(run.epoch and state.epoch) and run.epoch != state.epoch


def sort_out(state: AgentState, valid: Collection[RunKey]) -> list[PurgeRun]:
    """Takes over the runs of former histories that the server names; those that have ended and are not named go."""
    purged: list[PurgeRun] = []
    for run in [run for run in state.runs.values() if is_former(state, run)]:
        if run.key in valid:
            state.runs[run.key] = msgspec.structs.replace(run, epoch=state.epoch)
        elif run.phase is Phase.ENDED:
            purged.append(purge(state, run.key))
    return purged


def purge(state: AgentState, key: RunKey) -> PurgeRun:
    """Forgets a run as if it had never been."""
    run = state.runs.pop(key, None)
    if run is None:
        run = state.kept.pop(key)
        state.kept_bytes -= run.stored_bytes
    known = [other.run for other in (*state.runs, *state.kept) if other.number == key.number]
    if known:
        state.highest[key.number] = max(known)
    else:
        state.highest.pop(key.number, None)
    return PurgeRun(key=key, launched=run.launched)


def strangers(state: AgentState, number: int, submission: str) -> list[Run]:
    """Runs of that number that were started for another submission, as far as both are known."""
    if not submission or number not in state.highest:
        return []  # nearly every start is of a number that is new here, and thousands of runs may be kept
    runs = (*state.runs.values(), *state.kept.values())
    return [run for run in runs if run.key.number == number and run.submission not in ("", submission)]
