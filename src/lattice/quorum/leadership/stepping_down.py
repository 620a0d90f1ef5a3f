"""A leader with a local problem transfers leadership to a server without one.

A server with a full disk can lead: entries go to the members that have space. But it can take no snapshot and archive nothing, so
the log and its memory grow. If all servers have problems, the leader stays: that is better than none.
"""

import asyncio
import logging
from collections.abc import Callable

from lattice.ports.quorum.servers import QuorumView

LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class SteppingDown:
    """Run it while this server leads; `problem` returns its problem, or an empty text."""

    def __init__(
        self, name: str, problem: Callable[[], str], servers: QuorumView, *, every_s: float = LOOK_EVERY_S
    ) -> None:
        self._name = name
        self._problem = problem
        self._servers = servers
        self._every_s = every_s
        self._handover: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Returns after leadership was offered to another server."""
        while True:
            await asyncio.sleep(self._every_s)
            problem = self._problem()
            successor = await self._healthy() if problem else ""
            if successor:
                _log.error("server %s transfers leadership to %s: %s", self._name, successor, problem)
                # Losing leadership cancels this task; the offer to the successor must be written nevertheless.
                self._handover = asyncio.create_task(self._servers.resign(successor))
                await asyncio.shield(self._handover)
                return

    async def _healthy(self) -> str:
        """The server without a problem that has applied the most entries; empty if there is none."""
        replicas = [state.replica for state in await self._servers.ask_all(None) if state.name != self._name]
        fit = [replica for replica in replicas if replica is not None and not replica.problem]
        return max(fit, key=lambda replica: replica.applied_index).name if fit else ""
