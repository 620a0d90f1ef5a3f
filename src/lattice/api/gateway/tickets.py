"""Tickets that are good once and soon, and the sessions that they are exchanged for.

Tickets are in the memory of the leader that gave them. A session is signed with the cluster's secret and kept by the browser alone, so that the
next leader knows it; what it allows is judged by the state of each request.
"""

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

TICKET_S = 60.0
SESSION_S = 12 * 3600.0
SHARED_SESSION_S = 3600.0
MAX_TICKETS = 10_000
MAX_SESSION = 2_048  # characters
SERVICES = "services"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Who may reach what: a port of an allocation, or a service of a tenant."""

    user: str
    prefix: str  # of its address: /proxy/a17/8888, /proxy/a17/web, /proxy/services/web
    number: int = 0  # of the allocation; 0 = a service
    port: str = ""  # a number, or the name that the allocation gives it; of a service its name
    tenant: str = ""  # of the service
    node: str = ""  # empty = where the work runs, or any
    keeps_path: bool = False  # the work sees the whole path, and not what follows the prefix
    is_own: bool = True  # the work is the user's

    @property
    def name(self) -> str:
        """What it leads to, for people."""
        return f'service "{self.port}"' if not self.number else self.prefix.split("/")[2]

    @property
    def life_s(self) -> float:
        """How long a session for it lasts."""
        return SESSION_S if self.is_own else SHARED_SESSION_S

    @property
    def label(self) -> str:
        """The host below the gateway's domain that shows this work and no other."""
        if self.number:
            return self.prefix.split("/")[2]
        return f"s-{hashlib.sha256(f'{self.tenant}/{self.port}'.encode()).hexdigest()[:24]}"


def port_prefix(allocation: str, port: str) -> str:
    return f"/proxy/{allocation}/{port}"


def service_prefix(name: str) -> str:
    return f"/proxy/{SERVICES}/{name}"


_decoder = msgspec.json.Decoder(tuple[float, Grant])


class Tickets:
    """`now_s` is a clock that never goes back, `wall_s` one that all servers share; `secret` is the cluster's own."""

    def __init__(
        self, now_s: Callable[[], float], secret: bytes = b"", wall_s: Callable[[], float] = time.time
    ) -> None:
        self._now_s, self._wall_s = now_s, wall_s
        self._secret = hmac.digest(secret, b"gateway session", "sha256") if secret else secrets.token_bytes(32)
        self._tickets: dict[str, tuple[float, Grant]] = {}

    def issue(self, grant: Grant) -> str:
        return self._put(self._tickets, grant, TICKET_S, MAX_TICKETS)

    def redeem(self, ticket: str, prefix: str) -> tuple[str, Grant] | None:
        """A session for the ticket, which is used up by it, whatever happens; None when it is no good there."""
        found = self._tickets.pop(ticket, None)
        if found is None or found[0] <= self._now_s() or found[1].prefix != prefix:
            return None
        return self._signed(found[1]), found[1]

    def session(self, text: str, prefix: str) -> Grant | None:
        """What a session allows at this address; None for one that has ended or is another address's."""
        if not text:
            return None
        body, _, code = text.partition(".")
        if len(text) > MAX_SESSION or not hmac.compare_digest(self._code(body).encode(), code.encode()):
            return None
        try:
            until_s, grant = _decoder.decode(urlsafe_b64decode(body))
        except (ValueError, msgspec.DecodeError):
            return None
        return grant if grant.prefix == prefix and until_s > self._wall_s() else None

    def _signed(self, grant: Grant) -> str:
        body = urlsafe_b64encode(msgspec.json.encode((self._wall_s() + grant.life_s, grant))).decode()
        return f"{body}.{self._code(body)}"

    def _code(self, body: str) -> str:
        return hmac.digest(self._secret, body.encode(), "sha256").hex()

    def clear(self) -> None:
        self._tickets.clear()

    def _put(self, kept: dict[str, tuple[float, Grant]], grant: Grant, life_s: float, most: int) -> str:
        now_s = self._now_s()
        while kept and (len(kept) >= most or next(iter(kept.values()))[0] <= now_s):
            del kept[next(iter(kept))]
        text = secrets.token_urlsafe(32)
        kept[text] = now_s + life_s, grant
        return text
