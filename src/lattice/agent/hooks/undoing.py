"""Undoing what hooks made: for a run that ended, and for starts that never happened."""

import asyncio
import logging
from collections.abc import Collection

from lattice.agent.hooks.runner import HookRunner
from lattice.agent.machine.state import Run
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.recovery import never_started
from lattice.ports.nodes.agents import RunKey

_log = logging.getLogger(__name__)


async def undo_run(hooks: HookRunner, run: Run | None, *, has_started: bool) -> str:
    """What could not be undone of the run; empty when all was."""
    if run is None:
        return ""
    problem = await hooks.undo(run.key, run.allocation_id, has_started=has_started)
    if problem:
        _log.error(
            "%s", problem, extra={"allocation_id": run.allocation_id, "number": run.key.number, "run": run.key.run}
        )
    return problem


async def undo_unstarted(hooks: HookRunner, folders: RunFolders, listed: Collection[RunKey], shim_id: str) -> None:
    """Undoes it before the record of it goes with the run's folder; `listed` are the runs that this shim knows.

    What another shim was to start may have run and left results: its end is settled as any other, when a server is there to sign for them.
    """
    if hooks.needs_undo:
        unstarted = [each for each in folders.found() if never_started(each, listed, shim_id)]
        await asyncio.gather(
            *(hooks.undo(each.key, each.order.allocation_id if each.order else "") for each in unstarted)
        )
