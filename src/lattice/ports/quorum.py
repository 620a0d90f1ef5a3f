"""The servers that share a log, as one of them sees them."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct


class ReplicaAt(Struct, frozen=True, kw_only=True):
    """How far one server has come; `digest` is that at the index asked for, None when it does not know it."""

    name: str
    leads: bool
    applied_index: int
    digest: str | None = None


class ServerState(Struct, frozen=True, kw_only=True):
    """One server: `replica` is None when it does not answer, and `problem` says why."""

    name: str
    replica: ReplicaAt | None = None
    problem: str = ""


class QuorumView(Protocol):
    @property
    def leader_name(self) -> str:
        """The server that leads; empty while there is none."""
        ...

    def replica_at(self, index: int | None) -> ReplicaAt:
        """This server's own replica, with its digest at `index`, or at its newest entry."""
        ...

    async def resign(self, successor: str) -> None:
        """Gives leadership up, when it is here; `successor`, where one is named, has the first chance."""
        ...

    def hand_over(self) -> AsyncIterator[bytes]:
        """This server's newest snapshot with its archive, piece by piece."""
        ...

    async def ask_all(self, index: int | None) -> list[ServerState]:
        """The same of every server."""
        ...
