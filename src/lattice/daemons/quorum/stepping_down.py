"""A leader in trouble of its own lets another one lead, as long as there is one without.

A full disk keeps no server from leading: entries go to the members that have room. But such a leader can take no snapshot and archive
nothing, so that the log grows and its memory with it. Where all are in trouble, the leader stays: that is better than none.
"""

import asyncio
import logging
from collections.abc import Callable

from lattice.ports.quorum.servers import QuorumView

LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class SteppingDown:
    """Run it while this server leads; `problem` says what is wrong with it, nothing while all is well."""

    def __init__(
        self, name: str, problem: Callable[[], str], servers: QuorumView, *, every_s: float = LOOK_EVERY_S
    ) -> None:
        self._name = name
        self._problem = problem
        self._servers = servers
        self._every_s = every_s
        self._handover: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Returns when another server was asked to lead."""
        while True:
            await asyncio.sleep(self._every_s)
            problem = self._problem()
            successor = await self._healthy() if problem else ""
            if successor:
                _log.error("server %s lets %s lead: %s", self._name, successor, problem)
                # The end of the leadership cancels us; the offer to the successor has to be written all the same.
                self._handover = asyncio.create_task(self._servers.resign(successor))
                await asyncio.shield(self._handover)
                return

    async def _healthy(self) -> str:
        """The server that has come furthest among those without a problem; empty when there is none."""
        replicas = [state.replica for state in await self._servers.ask_all(None) if state.name != self._name]
        fit = [replica for replica in replicas if replica is not None and not replica.problem]
        return max(fit, key=lambda replica: replica.applied_index).name if fit else ""
