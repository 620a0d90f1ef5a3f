"""Links that log a browser in once. Their tickets carry the token, sealed; which of them are unused is in the memory of the leader."""

import secrets
from collections.abc import Callable

from msgspec import Struct

from lattice.web.sealing import Sealer

LINK_S = 60.0
MAX_LINKS = 10_000
PURPOSE = "ticket"


class Ticket(Struct, frozen=True):
    token: str
    code: str
    expires_at: float  # seconds since 1970


class LinkTable:
    """`now_s` is the time since 1970."""

    def __init__(self, sealer: Sealer, now_s: Callable[[], float]) -> None:
        self._sealer = sealer
        self._now_s = now_s
        self._unused: dict[str, tuple[float, str]] = {}  # code: end, user; oldest first

    def make(self, user: str, token: str) -> tuple[str, float]:
        now_s = self._now_s()
        while self._unused and (len(self._unused) >= MAX_LINKS or next(iter(self._unused.values()))[0] <= now_s):
            del self._unused[next(iter(self._unused))]
        code = secrets.token_urlsafe(16)
        self._unused[code] = now_s + LINK_S, user
        return self._sealer.seal(PURPOSE, Ticket(token, code, now_s + LINK_S)), LINK_S

    def use_up(self, user: str, code: str) -> bool:
        found = self._unused.get(code)
        if found is None or found[1] != user:
            return False
        del self._unused[code]
        return found[0] > self._now_s()
