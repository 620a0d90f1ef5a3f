"""What the leader sees of the servers while it upgrades them, and how it hands leadership over."""

import asyncio
from collections.abc import Mapping

from lattice.core.server_upgrades import ServerSeen
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import QuorumView, ServerState


class OtherServers:
    """`name` is this server, the leader."""

    def __init__(self, name: str, quorum: QuorumView, replica: Replica) -> None:
        self.name = name
        self._quorum = quorum
        self._replica = replica
        self._handover: asyncio.Task[None] | None = None
        self.addresses: Mapping[str, str] = {}  # as of the last look

    async def look(self) -> dict[str, ServerSeen]:
        """Every server as it answers now, this one included."""
        mine = self._quorum.replica_at(None)
        states = await self._quorum.ask_all(mine.applied_index)
        self.addresses = {state.name: state.address for state in states}
        return {state.name: _seen(state, mine.applied_index, mine.digest) for state in states}

    async def hand_over(self, successor: str) -> None:
        """Offers leadership to this server; the loops of this one end with it."""
        # Losing leadership cancels the caller; the offer to the successor must be written nevertheless.
        self._handover = asyncio.create_task(self._quorum.resign(successor))
        await asyncio.shield(self._handover)


def _seen(state: ServerState, index: int, digest: str | None) -> ServerSeen:
    replica = state.replica
    if replica is None:
        return ServerSeen(problem=state.problem or "it does not answer")
    problem = replica.problem
    if not problem and digest and replica.digest and replica.digest != digest:
        problem = f"its state at entry {index} differs from that of the leader"
    return ServerSeen(release=replica.release, problem=problem, lag=max(0, index - replica.applied_index))
