"""Login by the site's OpenID provider: authorization code with PKCE. The code is exchanged by the server, never by the browser."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from lattice.web.answers import Refusal
from lattice.web.sealing import NotSealed, Sealer

PURPOSE = "login"
WITHIN_S = 600.0


class Endpoints(Protocol):
    """The provider, as the server reaches it."""

    def address(self, name: str) -> str:
        """An address of its description; empty while it is not known. Raises OSError for one that may not be used."""
        ...

    async def ask(self, name: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of a POST. Raises OSError."""
        ...


class Client(NamedTuple):
    """This cluster, as the provider knows it."""

    client_id: str
    scopes: tuple[str, ...]
    token: str  # which of the provider's tokens the cluster takes
    secret: str = ""  # of providers that want one of public clients


class Begun(Struct, frozen=True):
    """What a login that has begun must be finished with; sealed, in a cookie of the browser that began it."""

    state: str
    verifier: str
    page: str
    to: str
    redirect: str
    expires_at: float


class Tokens(NamedTuple):
    token: str
    refresh: str


class ProviderLogin:
    def __init__(self, endpoints: Endpoints, client: Client, sealer: Sealer) -> None:
        self._endpoints = endpoints
        self._client = client
        self._sealer = sealer

    def begin(self, page: str, to: str, redirect: str, now_s: float) -> tuple[str, str]:
        """Where the browser goes, and what it keeps meanwhile. Raises Refusal."""
        try:
            address = self._endpoints.address("authorization_endpoint")
        except OSError as error:
            raise Refusal("unavailable", str(error)) from None
        if not address:
            raise Refusal("unavailable", "the identity provider cannot be reached", "try again in a moment")
        begun = Begun(secrets.token_urlsafe(24), secrets.token_urlsafe(48), page, to, redirect, now_s + WITHIN_S)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self._client.scopes),
            "state": begun.state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in address else "?"
        return address + mark + urlencode(query), self._sealer.seal(PURPOSE, begun)

    async def finish(self, kept: str, query: Mapping[str, str], now_s: float) -> tuple[Begun, Tokens]:
        """The tokens of the person that the provider sent back. Raises Refusal."""
        try:
            begun = self._sealer.open(PURPOSE, kept, Begun)
        except NotSealed:
            raise Refusal("unauthenticated", "this login was not begun in this browser", "begin again") from None
        if begun.expires_at <= now_s or not hmac.compare_digest(begun.state, query.get("state", "")):
            raise Refusal("unauthenticated", "this login is too old, or another one was begun since", "begin again")
        if "code" not in query:
            why = query.get("error_description") or query.get("error") or "no code"
            raise Refusal("unauthenticated", f"the identity provider did not log you in: {why[:200]}")
        form = {"grant_type": "authorization_code", "code": query["code"], "redirect_uri": begun.redirect}
        return begun, await self._tokens({**form, "code_verifier": begun.verifier})

    async def renew(self, refresh: str) -> Tokens:
        """The next token of a session. Raises Refusal."""
        found = await self._tokens({"grant_type": "refresh_token", "refresh_token": refresh})
        return found if found.refresh else Tokens(found.token, refresh)

    async def _tokens(self, form: Mapping[str, str]) -> Tokens:
        whole = {**form, "client_id": self._client.client_id}
        if self._client.secret:
            whole["client_secret"] = self._client.secret
        try:
            status, body = await self._endpoints.ask("token_endpoint", whole)
        except OSError as error:
            raise Refusal("unavailable", f"the identity provider cannot be reached: {error}", "try again") from None
        try:
            fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError:
            fields = {}
        token = fields.get(self._client.token)
        if status != 200 or not isinstance(token, str):
            why = str(fields.get("error", f"status {status}"))[:200]
            raise Refusal("unauthenticated", f"the identity provider gave no token: {why}", "log in again")
        refresh = fields.get("refresh_token", "")
        return Tokens(token, refresh if isinstance(refresh, str) else "")
