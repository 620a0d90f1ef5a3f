"""How long what is over stays on the node."""

from lattice.agent.machine.state import AgentState, Instruction, RemoveRun
from lattice.ports.nodes.agents import RunKey

REMOVALS_PER_TICK = 50


def pruned(state: AgentState) -> list[Instruction]:
    """Removes kept runs, oldest first, while they are too old or too much."""
    limit = state.retention
    removals: list[Instruction] = []
    while state.kept and len(removals) < REMOVALS_PER_TICK:
        key, run = next(iter(state.kept.items()))
        expired = state.wall_s - run.kept_since_s >= limit.keep_s
        if not (expired or state.kept_bytes > limit.max_bytes or len(state.kept) > limit.max_runs):
            break
        del state.kept[key]
        state.kept_bytes -= run.stored_bytes
        if state.highest.get(key.number) == key.run:
            _lower(state, key)
        removals.append(RemoveRun(key=key))
    return removals


def _lower(state: AgentState, gone: RunKey) -> None:
    """The highest run of its number is not known any more: one before it, which may be kept for longer, is the highest now."""
    for run in range(gone.run - 1, 0, -1):
        if state.find(RunKey(gone.number, run)) is not None:
            state.highest[gone.number] = run
            return
    del state.highest[gone.number]
