"""Tickets that are good once and soon, and the sessions that they are exchanged for.

Both are signed with the cluster's secret and kept by the browser alone, so that the next leader knows them. That a ticket was used is in the log
(`Work.use_up`). What a session allows is judged by the state of each request.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")

TICKET_S = 60.0
SESSION_S = 12 * 3600.0
SHARED_SESSION_S = 3600.0
MAX_TEXT = 2_048  # characters of a ticket or session
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


class Ticket(NamedTuple):
    """A ticket that is good, unless it was used: `code` is its own, and what is noted when it is used."""

    until_s: float
    code: str
    grant: Grant


class _Session(NamedTuple):
    until_s: float
    grant: Grant


class Tickets:
    """`now_s` is the log's time, which never goes back from one leader to the next; `secret` is the cluster's own."""

    def __init__(self, now_s: Callable[[], float], secret: bytes = b"") -> None:
        self._now_s = now_s
        secret = secret or secrets.token_bytes(32)
        self._tickets = _Signing(hmac.digest(secret, b"gateway ticket", "sha256"), Ticket)
        self._sessions = _Signing(hmac.digest(secret, b"gateway session", "sha256"), _Session)

    def issue(self, grant: Grant) -> str:
        return self._tickets.sign(Ticket(self._now_s() + TICKET_S, secrets.token_urlsafe(16), grant))

    def ticket(self, text: str, prefix: str) -> Ticket | None:
        """What a ticket says, which may have been used already; None for one that has ended or is another address's."""
        found = self._tickets.read(text)
        return found if found is not None and self._is_good(found, prefix) else None

    def begin(self, grant: Grant) -> str:
        """A session."""
        return self._sessions.sign(_Session(self._now_s() + grant.life_s, grant))

    def session(self, text: str, prefix: str) -> Grant | None:
        """What a session allows at this address; None for one that has ended or is another address's."""
        found = self._sessions.read(text)
        return found.grant if found is not None and self._is_good(found, prefix) else None

    def _is_good(self, found: Ticket | _Session, prefix: str) -> bool:
        return found.grant.prefix == prefix and found.until_s > self._now_s()


class _Signing(Generic[T]):
    """Records as text that only this cluster can have written."""

    def __init__(self, key: bytes, kind: type[T]) -> None:
        self._key = key
        self._decoder = msgspec.json.Decoder(kind)

    def sign(self, record: T) -> str:
        body = urlsafe_b64encode(msgspec.json.encode(record)).decode().rstrip("=")  # which means more in an address
        return f"{body}.{self._code(body)}"

    def read(self, text: str) -> T | None:
        body, _, code = text.partition(".")
        if len(text) > MAX_TEXT or not hmac.compare_digest(self._code(body).encode(), code.encode()):
            return None
        try:
            return self._decoder.decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValueError, msgspec.DecodeError):
            return None

    def _code(self, body: str) -> str:
        return hmac.digest(self._key, body.encode(), "sha256").hex()
