"""Raises the level of the cluster by itself, where the site wants that: as soon as every server supports the next one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from lattice.control.loop import keep_turning
from lattice.core.machine.commands import RaiseLevel
from lattice.core.machine.levels import NEWEST
from lattice.core.machine.outcomes import Rejected
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import ServerState, level_blocked_by

ACTOR = "upgrade"
EVERY_S = 10.0

_log = logging.getLogger(__name__)


class Finalizing:
    """Runs on the leader; `ask_servers` says what every server supports at this moment."""

    def __init__(
        self, replica: Replica, ask_servers: Callable[[], Awaitable[Sequence[ServerState]]], every_s: float = EVERY_S
    ) -> None:
        self._replica = replica
        self._ask_servers = ask_servers
        self._every_s = every_s

    async def run(self) -> None:
        await keep_turning("finalizing", self._turn)

    async def _turn(self) -> None:
        if not await self.finalize_when_ready():
            await asyncio.sleep(self._every_s)

    async def finalize_when_ready(self) -> bool:
        """Raises the level by one if every server supports the next; whether it did."""
        wanted = self._replica.state.level + 1
        if wanted > NEWEST or level_blocked_by(await self._ask_servers(), wanted):
            return False
        outcome = await self._replica.propose(RaiseLevel(level=wanted), actor=ACTOR)
        if isinstance(outcome, Rejected):
            return False
        _log.warning("the cluster runs at level %d from now on: no server can go back to an earlier release", wanted)
        return True
