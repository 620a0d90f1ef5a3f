"""An OpenID provider as a person's program sees it: codes, device codes and refresh tokens turned into tokens.

Nothing is followed elsewhere: no redirects, and no address over http where the issuer is https.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from lattice_sdk.errors import LoginFailed
from lattice_sdk.transport import Connection, ProtocolError, parse_endpoint, quote

T = TypeVar("T")
TIMEOUT_S = 10.0
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster wants people to log in."""

    kind: str = ""
    issuer: str | None = None
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    token: str | None = None
    client_secret: str | None = None


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider does what."""

    issuer: str
    token_endpoint: str = ""
    authorization_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider gave."""

    access_token: str = ""
    id_token: str = ""
    refresh_token: str = ""
    expires_in: float = 0


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """What a person types in elsewhere, and how to ask whether it was done."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 600
    interval: float = 5


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""
    error_description: str = ""


class ProviderRefused(LoginFailed):
    """The provider said no; `code` is its word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_provider(issuer: str, ca_file: str = "") -> Provider:
    """What the issuer says of itself; LoginFailed when it cannot be believed."""
    url = issuer.rstrip("/") + "/.well-known/openid-configuration"
    found = _decoded(*_exchange("GET", url, None, ca_file), url, Provider)
    if found.issuer != issuer:
        raise LoginFailed(f"{issuer} calls itself {found.issuer!r}; refusing to log in with another issuer")
    named = (found.token_endpoint, found.authorization_endpoint, found.device_authorization_endpoint)
    for address in (*named, found.revocation_endpoint):
        if address and issuer.startswith("https:") and not address.startswith("https:"):
            raise LoginFailed(f"{issuer} names {address}, which is not https")
    if not found.token_endpoint:
        raise LoginFailed(f"{issuer} gives no tokens: it names no token_endpoint")
    return found


def as_client(form: Mapping[str, str], client_id: str, client_secret: str) -> dict[str, str]:
    """The form with who sends it; few providers want a secret from programs on people's machines."""
    known = {"client_id": client_id, **({"client_secret": client_secret} if client_secret else {})}
    return {**form, **known}


def ask_for_tokens(provider: Provider, form: Mapping[str, str], ca_file: str = "") -> Tokens:
    """Tokens for a code, a device code or a refresh token; ProviderRefused when there are none."""
    return _posted(provider.token_endpoint, form, ca_file, Tokens)


def ask_for_device_code(provider: Provider, form: Mapping[str, str], ca_file: str = "") -> DeviceCode:
    """The beginning of a login on another device."""
    return _posted(provider.device_authorization_endpoint, form, ca_file, DeviceCode)


def revoke(provider: Provider, form: Mapping[str, str], ca_file: str = "") -> bool:
    """Whether the provider took the token back; False where it offers nothing of the kind."""
    if not provider.revocation_endpoint:
        return False
    status, _ = _exchange("POST", provider.revocation_endpoint, form, ca_file)
    return status < 400


def new_verifier() -> tuple[str, str]:
    """A secret and its digest: who has the secret is the one who sent the digest (PKCE, S256)."""
    verifier = _plain_base64(os.urandom(48))
    return verifier, _plain_base64(hashlib.sha256(verifier.encode()).digest())


def authorization_url(provider: Provider, client_id: str, scope: str, redirect: str, state: str, challenge: str) -> str:
    """Where a browser has to go."""
    if not provider.authorization_endpoint:
        raise LoginFailed(f"{provider.issuer} has no page to log in at", hint="try --flow device")
    query = {
        "response_type": "code",
        "client_id": client_id,
        "scope": scope,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    mark = "&" if "?" in provider.authorization_endpoint else "?"
    return provider.authorization_endpoint + mark + _form(query)


def expiry_of(token: str) -> float:
    """When a token says it ends, in seconds since 1970; 0 when it says nothing readable."""
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def is_local(url: str) -> bool:
    """Whether an http address stays on this machine."""
    return parse_endpoint(url).host in LOOPBACK


def _plain_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _form(values: Mapping[str, str]) -> str:
    return "&".join(f"{name}={quote(value)}" for name, value in values.items())


def _posted(url: str, form: Mapping[str, str], ca_file: str, kind: type[T]) -> T:
    if not url:
        raise LoginFailed("the identity provider does not offer this way to log in")
    return _decoded(*_exchange("POST", url, form, ca_file), url, kind)


def _decoded(status: int, body: bytes, url: str, kind: type[T]) -> T:
    try:
        if status == 200:
            return msgspec.json.decode(body, type=kind)
        problem = msgspec.json.decode(body, type=_Problem)
    except msgspec.MsgspecError:
        raise LoginFailed(f"{url} answered {status}, but not as an identity provider does") from None
    why = problem.error_description or problem.error or f"status {status}"
    raise ProviderRefused(problem.error, f"the identity provider refused: {why}")


def _exchange(method: str, url: str, form: Mapping[str, str] | None, ca_file: str) -> tuple[int, bytes]:
    address, _, query = url.partition("?")
    try:
        endpoint = parse_endpoint(address)
    except ValueError as error:
        raise LoginFailed(f"the identity provider's address is not one: {error}") from None
    body = b"" if form is None else _form(form).encode()
    target = (endpoint.prefix or "/") + (f"?{query}" if query else "")
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{endpoint.port}", "Accept: application/json"]
    if form is not None:
        lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, "Connection: close", "", ""]).encode()
    return _sent(lambda: Connection(endpoint, TIMEOUT_S, ca_file), head, body, url)


def _sent(connect: Callable[[], Any], head: bytes, body: bytes, url: str) -> tuple[int, bytes]:
    try:
        connection = connect()
        try:
            answer = connection.ask(head, body)
            return answer.status, answer.read()
        finally:
            connection.close()
    except (OSError, ProtocolError) as error:
        raise LoginFailed(f"the identity provider does not answer at {url}: {error}") from None
