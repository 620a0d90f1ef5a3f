"""An OpenID provider as a server sees it: its description and its keys, fetched without following anybody elsewhere.

What the provider says is believed only from its own addresses: no redirects, the description has to name the configured issuer,
and everything it points to has to be https where the issuer is.
"""

import asyncio
import http.client
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import msgspec

from lattice.ports.clock import Clock

ASK_AGAIN_S = 10.0  # minimum interval between key requests triggered by tokens
WITHIN_S = 5.0
MAX_BYTES = 1 << 20
MIN_RSA_BITS = 2048
WELL_KNOWN = "/.well-known/openid-configuration"

_log = logging.getLogger(__name__)


class IssuerUnusable(Exception):
    """The provider cannot be reached, or says what cannot be right."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


# address, form (a POST) or None (a GET), bearer token or "" -> what came back
Fetch = Callable[[str, Mapping[str, str] | None, str], Awaitable[Reply]]


def fetcher(ca_file: str = "") -> Fetch:
    """Fetches over http and https; trusts the system's authorities, or those in the file."""
    context = ssl.create_default_context(cafile=ca_file or None)

    async def fetch(url: str, form: Mapping[str, str] | None = None, token: str = "") -> Reply:
        try:
            return await asyncio.to_thread(_ask, url, form, token, context)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise IssuerUnusable(f"{url} does not answer: {str(error) or type(error).__name__}") from error

    return fetch


def _ask(url: str, form: Mapping[str, str] | None, token: str, context: ssl.SSLContext) -> Reply:
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, parts.port, timeout=WITHIN_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=WITHIN_S)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        body = None if form is None else urlencode(form)
        connection.request("GET" if form is None else "POST", target, body=body, headers=headers)
        with connection.getresponse() as answer:
            data = answer.read(MAX_BYTES + 1)
    finally:
        connection.close()
    if len(data) > MAX_BYTES:
        raise ValueError(f"the answer is larger than {MAX_BYTES} bytes")
    return Reply(answer.status, data)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key and the algorithm it is for; no other is ever tried with it."""

    algorithm: str
    key: Any


class Issuer:
    """Its keys, by their ids. `generation` rises when they change."""

    def __init__(self, url: str, fetch: Fetch, clock: Clock, *, algorithms: tuple[str, ...]) -> None:
        self.url = url
        self.keys: dict[str, SigningKey] = {}
        self.generation = 0
        self.description: dict[str, Any] = {}
        self._fetch = fetch
        self._clock = clock
        self._algorithms = algorithms
        self._asked_s: float | None = None
        self._asking: asyncio.Task[None] | None = None

    async def learn(self) -> None:
        """Fetches the keys, unless that was done a moment ago; concurrent callers share one request. Never raises."""
        if self._asking is None:
            if self._asked_s is not None and self._clock.monotonic_s() - self._asked_s < ASK_AGAIN_S:
                return
            self._asked_s = self._clock.monotonic_s()
            self._asking = asyncio.create_task(self._learn())
        await asyncio.shield(self._asking)

    async def _learn(self) -> None:
        try:
            await self.refresh()
        except IssuerUnusable as error:
            _log.warning("keys of %s could not be fetched; those known stay in use: %s", self.url, error)
        finally:
            self._asking = None

    async def refresh(self) -> None:
        """Fetches description and keys. Raises IssuerUnusable; then what was known stays."""
        description = await self._json(self.url.rstrip("/") + WELL_KNOWN)
        if description.get("issuer") != self.url:
            raise IssuerUnusable(f"{self.url} calls itself {str(description.get('issuer'))[:200]!r}")
        address = self.endpoint(description, "jwks_uri")
        if not address:
            raise IssuerUnusable(f"{self.url} does not say where its keys are")
        found = _signing_keys(await self._json(address), self._algorithms)
        if not found:
            raise IssuerUnusable(f"{address} has no key for {', '.join(self._algorithms)}")
        self.description = description
        if _fingerprint(found) != _fingerprint(self.keys):
            self.keys = found
            self.generation += 1
            _log.info("%d keys of %s are known", len(found), self.url)

    def endpoint(self, description: Mapping[str, Any], name: str) -> str:
        """An address that the description names; empty without one. Never plain http where the issuer is https."""
        address = description.get(name, "")
        if not isinstance(address, str) or not address:
            return ""
        scheme = urlsplit(address).scheme
        if scheme not in ("http", "https") or (self.url.startswith("https:") and scheme != "https"):
            raise IssuerUnusable(f"{self.url} names {address[:200]!r} as {name}, which is not https")
        return address

    async def ask(self, name: str, form: Mapping[str, str] | None, token: str = "") -> Reply | None:
        """What an endpoint of the description answers; None when it has none. Raises IssuerUnusable."""
        address = self.endpoint(self.description, name)
        return await self._fetch(address, form, token) if address else None

    async def _json(self, url: str) -> dict[str, Any]:
        reply = await self._fetch(url, None, "")
        if reply.status != 200:
            raise IssuerUnusable(f"{url} answered {reply.status}")
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise IssuerUnusable(f"{url} did not answer with a JSON object") from error


def _signing_keys(document: Mapping[str, Any], algorithms: tuple[str, ...]) -> dict[str, SigningKey]:
    entries = document.get("keys")
    found: dict[str, SigningKey] = {}
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        key = _signing_key(entry)
        if key is not None and key.algorithm in algorithms:
            found[str(entry.get("kid", ""))] = key
    return found


def _signing_key(entry: dict[str, Any]) -> SigningKey | None:
    """The key, if it is of a kind that is ever accepted: a shared secret among public keys is not."""
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(entry.get("kty")))
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    if algorithm == "ES256" and entry.get("crv") != "P-256":
        return None
    try:
        key = jwt.PyJWK.from_dict(entry, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if algorithm == "RS256" and key.key_size < MIN_RSA_BITS:
        return None
    return SigningKey(algorithm, key)


def _fingerprint(keys: Mapping[str, SigningKey]) -> dict[str, object]:
    return {kid: (each.algorithm, each.key.public_numbers()) for kid, each in keys.items()}
