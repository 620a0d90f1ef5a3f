"""Logging a person in: with a browser here, with one elsewhere, or by hand. Where the result is kept is the caller's business.

browser   a page is opened, and the answer comes back to a port of this machine (authorization code with PKCE)
device    a code is typed in on another device, and the provider is asked until that is done
manual    the address that the browser ends at is pasted
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import compare_digest, token_urlsafe
from time import monotonic, sleep, time
from urllib.parse import parse_qs, urlsplit

import msgspec

from lattice_sdk.auth import no_token
from lattice_sdk.errors import LoginFailed
from lattice_sdk.provider import (
    DEVICE_GRANT,
    Discovery,
    Provider,
    ProviderRefused,
    Tokens,
    as_client,
    ask_for_device_code,
    ask_for_tokens,
    authorization_url,
    find_provider,
    is_local,
    new_verifier,
)
from lattice_sdk.retry import RetryPolicy
from lattice_sdk.session import PREFIX, Request, Session
from lattice_sdk.token_cache import Login, ends_at
from lattice_sdk.transport import parse_endpoints

PORT = 8400
WITHIN_S = 300.0
FLOWS = ("browser", "device", "manual")
_DONE = b"You are logged in to Lattice. This page may be closed.\n"
_FAILED = b"The login failed; the terminal says why. This page may be closed.\n"


@dataclass(frozen=True, kw_only=True)
class Person:
    """How the person is spoken to: `show` prints a line, `ask` reads one, `open_page` opens a browser and says whether it did."""

    show: Callable[[str], None]
    ask: Callable[[str], str]
    open_page: Callable[[str], bool]
    warn: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is agreed with the provider."""

    provider: Provider
    client_id: str
    scope: str
    client_secret: str = ""
    ca_file: str = ""
    port: int = PORT
    within_s: float = WITHIN_S

    def signed(self, form: Mapping[str, str]) -> dict[str, str]:
        return as_client(form, self.client_id, self.client_secret)


def log_in(discovery: Discovery, person: Person, *, flow: str, ca_file: str = "", port: int = PORT) -> Login:
    """A login by this flow; an empty one is chosen. LoginFailed when there is none."""
    if discovery.kind != "oidc" or not discovery.issuer or not discovery.client_id:
        raise LoginFailed(
            "this cluster has no identity provider to log in with",
            hint="ask its administrator for a token, and point LATTICE_TOKEN_FILE at it",
        )
    if discovery.issuer.startswith("http:") and not is_local(discovery.issuer):
        person.warn(f"{discovery.issuer} is not https: anyone in between can read your credentials")
    provider = find_provider(discovery.issuer, ca_file)
    scope = " ".join(discovery.scopes) or "openid"
    terms = Terms(
        provider=provider,
        client_id=discovery.client_id,
        client_secret=discovery.client_secret or "",
        scope=scope,
        ca_file=ca_file,
        port=port,
    )
    tokens = _flow(flow or choose_flow(provider, os.environ))(terms, person)
    kind = discovery.token or "access_token"
    token = getattr(tokens, kind, "")
    if not token:
        raise LoginFailed(f"the identity provider gave no {kind}, which this cluster wants")
    return Login(
        issuer=discovery.issuer,
        client_id=discovery.client_id,
        token=token,
        kind=kind,
        expires_at=ends_at(token, tokens.expires_in, time),
        refresh_token=tokens.refresh_token,
        client_secret=terms.client_secret,
        ca_file=ca_file,
    )


def choose_flow(provider: Provider, environment: Mapping[str, str]) -> str:
    """A browser where there is one, else a code for another device, else by hand."""
    is_remote = bool(environment.get("SSH_CONNECTION")) and not environment.get("DISPLAY")
    has_page = any(environment.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    if provider.authorization_endpoint and has_page and not is_remote:
        return "browser"
    return "device" if provider.device_authorization_endpoint else "manual"


def _flow(name: str) -> Callable[[Terms, Person], Tokens]:
    return {"browser": by_browser, "device": by_device, "manual": by_hand}[name]


def by_browser(terms: Terms, person: Person) -> Tokens:
    """Waits for the browser to come back to this machine."""
    with _listening(terms.port) as listener:
        redirect = f"http://localhost:{listener.getsockname()[1]}/callback"
        state, (verifier, challenge) = token_urlsafe(24), new_verifier()
        url = authorization_url(terms.provider, terms.client_id, terms.scope, redirect, state, challenge)
        if not person.open_page(url):
            person.show(f"Open this address in a browser on this machine:\n  {url}")
        query = _answer(listener, terms.within_s, state)
    return _with_code(terms, query, redirect, verifier)


def by_hand(terms: Terms, person: Person) -> Tokens:
    """The person carries the answer over."""
    redirect = f"http://localhost:{terms.port}/callback"
    state, (verifier, challenge) = token_urlsafe(24), new_verifier()
    url = authorization_url(terms.provider, terms.client_id, terms.scope, redirect, state, challenge)
    person.show(f"Open this address in any browser and log in:\n  {url}")
    person.show(f"It ends at a page that cannot be shown, at {redirect}?...")
    pasted = person.ask("Paste the address of that page here: ").strip()
    try:
        query = _query_of(pasted)
    except ValueError:
        query = {}
    if not _is_state(query, state):
        raise LoginFailed(
            "what was pasted does not belong to this login", hint="paste the whole address, and from this try"
        )
    return _with_code(terms, query, redirect, verifier)


def by_device(terms: Terms, person: Person) -> Tokens:
    """The person types a code in elsewhere; the provider is asked until that is done."""
    code = ask_for_device_code(terms.provider, terms.signed({"scope": terms.scope}), terms.ca_file)
    person.show(f"Open {code.verification_uri} on any device and enter the code {code.user_code}")
    if code.verification_uri_complete:
        person.show(f"or open {code.verification_uri_complete}")
    interval_s, deadline = max(code.interval, 0.05), monotonic() + min(code.expires_in, 3600)
    form = terms.signed({"grant_type": DEVICE_GRANT, "device_code": code.device_code})
    while monotonic() < deadline:
        sleep(interval_s)
        try:
            return ask_for_tokens(terms.provider, form, terms.ca_file)
        except ProviderRefused as refusal:
            match refusal.code:
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval_s += 5
                case "access_denied":
                    raise LoginFailed("the login was declined on the other device") from None
                case "expired_token":
                    break
                case _:
                    raise
    raise LoginFailed("the code was not entered in time", hint="run the command again for a new one")


def _with_code(terms: Terms, query: Mapping[str, str], redirect: str, verifier: str) -> Tokens:
    if "code" not in query:
        why = query.get("error_description") or query.get("error") or "no code came back"
        raise LoginFailed(f"the identity provider refused: {why}")
    form = {
        "grant_type": "authorization_code",
        "code": query["code"],
        "redirect_uri": redirect,
        "code_verifier": verifier,
    }
    return ask_for_tokens(terms.provider, terms.signed(form), terms.ca_file)


def _listening(port: int) -> socket.socket:
    """On this machine alone; another port when the usual one is taken."""
    for number in (port, 0):
        try:
            return socket.create_server(("127.0.0.1", number))
        except OSError:
            continue
    raise LoginFailed("no port of this machine is free for the browser's answer", hint="try --flow device")


def _answer(listener: socket.socket, within_s: float, state: str) -> dict[str, str]:
    """The query of the first request that belongs to this login; others, as for an icon, are sent away."""
    deadline = monotonic() + within_s
    while (left_s := deadline - monotonic()) > 0:
        listener.settimeout(left_s)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            break
        with connection:
            connection.settimeout(5.0)
            query = _served(connection, state)
        if query is not None:
            return query
    raise LoginFailed("no browser came back in time", hint="try --flow device")


def _served(connection: socket.socket, state: str) -> dict[str, str] | None:
    try:
        words = connection.recv(65536).split(b"\r\n", 1)[0].split()
        target = words[1].decode("ascii") if len(words) > 1 else ""
        query = _query_of(target)
        is_ours = urlsplit(target).path == "/callback" and _is_state(query, state)
        body = _DONE if is_ours and "code" in query else _FAILED
        status = b"200 OK" if is_ours else b"404 Not Found"
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % (status, len(body)) + body)
    except (OSError, ValueError):
        return None
    return query if is_ours else None


def _is_state(query: Mapping[str, str], state: str) -> bool:
    """In bytes: of texts only those in ASCII can be compared, and any process that reaches the port can send any bytes."""
    return compare_digest(query.get("state", "").encode(errors="replace"), state.encode())


def _query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def discover(
    endpoints: str, *, ca_file: str = "", policy: RetryPolicy | None = None, insecure_http: bool = False
) -> Discovery:
    """How the cluster wants people to log in; asked without a token."""
    servers = parse_endpoints(endpoints.split(","), insecure_http=insecure_http)
    session = Session(servers, no_token, policy=policy or RetryPolicy(), timeout_s=10.0, ca_file=ca_file)
    try:
        return msgspec.json.decode(session.call(Request(method="GET", path=f"{PREFIX}/auth/discovery")), type=Discovery)
    except msgspec.MsgspecError:
        raise LoginFailed("the server does not say how to log in") from None
    finally:
        session.close()
