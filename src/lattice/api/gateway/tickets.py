"""Tickets that are good once and soon, and the sessions that they are exchanged for. In memory: another leader knows neither."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

TICKET_S = 60.0
SESSION_S = 12 * 3600.0
MAX_TICKETS = 10_000
MAX_SESSIONS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Who may reach which port of which allocation."""

    user: str
    number: int
    name: str  # of the allocation, as in the address
    port: int
    node: str
    keeps_path: bool  # the work sees the whole path, and not what follows the prefix

    @property
    def prefix(self) -> str:
        return f"/proxy/{self.name}/{self.port}"


class Tickets:
    """`now_s` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._tickets: dict[str, tuple[float, Grant]] = {}
        self._sessions: dict[str, tuple[float, Grant]] = {}

    def issue(self, grant: Grant) -> str:
        return self._put(self._tickets, grant, TICKET_S, MAX_TICKETS)

    def redeem(self, ticket: str, prefix: str) -> str | None:
        """A session for the ticket, which is used up by it, whatever happens; None when it is no good there."""
        found = self._tickets.pop(ticket, None)
        if found is None or found[0] <= self._now_s() or found[1].prefix != prefix:
            return None
        return self._put(self._sessions, found[1], SESSION_S, MAX_SESSIONS)

    def session(self, text: str, prefix: str) -> Grant | None:
        """What a session allows at this address; None for one that has ended or is another address's."""
        found = self._sessions.get(text)
        if found is None or found[1].prefix != prefix:
            return None
        if found[0] <= self._now_s():
            del self._sessions[text]
            return None
        return found[1]

    def clear(self) -> None:
        self._tickets.clear()
        self._sessions.clear()

    def _put(self, kept: dict[str, tuple[float, Grant]], grant: Grant, life_s: float, most: int) -> str:
        now_s = self._now_s()
        while kept and (len(kept) >= most or next(iter(kept.values()))[0] <= now_s):
            del kept[next(iter(kept))]
        text = secrets.token_urlsafe(32)
        kept[text] = now_s + life_s, grant
        return text
