"""Terminals of a running allocation. They are followed, fed and resized as the steps they are."""

from lattice.api.context import Context
from lattice.api.running.terminal_launch import TerminalFields, open_terminal
from lattice.wire.work.steps import StepInfo


async def attach(context: Context, request: TerminalFields) -> StepInfo:
    """Open a terminal on a node of a running allocation; it takes no CPUs and outlives its client."""
    return await open_terminal(context, request)
