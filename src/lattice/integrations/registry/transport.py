"""HTTP as registries speak it: GET with a range, tokens by challenge, and redirects that do not take credentials along.

The calls wait and are made in threads. Credentials go to the host that they belong to, and to the place that it names for tokens.
"""

import base64
import http.client
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

TIMEOUT_S = 20.0
MAX_REDIRECTS = 5
MAX_TOKEN_ANSWER = 256 << 10
CHUNK = 1 << 20
AGENT = "lattice"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class HttpFailed(Exception):
    """No answer, or one that is not understood; the text is a sentence."""


class Login(NamedTuple):
    """Who this site is for one host. The password is fetched when it is needed."""

    user: str
    password: Callable[[], str]


class Answer:
    """The head of an answer; its body is read piece by piece."""

    def __init__(self, response: http.client.HTTPResponse, url: str) -> None:
        self._response = response
        self.url = url
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.headers.get(name) or ""

    def pieces(self) -> Iterator[bytes]:
        """Raises HttpFailed when the connection ends before the body does."""
        said, done = self.header("Content-Length"), 0
        try:
            while piece := self._response.read1(CHUNK):  # what is there now: a slow registry is heard all the same
                done += len(piece)
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise HttpFailed(f"{host_of(self.url)} stopped in the middle: {_why(error)}") from error
        # A connection that was lost looks like the end.
        if said.isdigit() and done < int(said):
            raise HttpFailed(f"{host_of(self.url)} stopped in the middle")

    def body(self, most: int) -> bytes:
        """Raises HttpFailed for one that is larger."""
        data = bytearray()
        for piece in self.pieces():
            data += piece
            if len(data) > most:
                raise HttpFailed(f"{host_of(self.url)} answered with too much")
        return bytes(data)


class Transport:
    """`logins` by host and port, as they stand in references."""

    def __init__(
        self, logins: Mapping[str, Login] = {}, trust: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._logins = dict(logins)
        self._trust = trust
        self._timeout_s = timeout_s
        self._tokens: dict[tuple[str, str], str] = {}  # of a host, for a path's first parts
        self._lock = threading.Lock()

    @contextmanager
    def get(
        self, url: str, headers: Mapping[str, str] = {}, method: str = "GET", body: bytes = b""
    ) -> Iterator[Answer]:
        """The last answer, after redirects and tokens. Raises HttpFailed."""
        origin = urlsplit(url)
        scope = _scope_of(origin)
        for attempt in range(2):
            authorization = self._tokens.get((origin.netloc, scope), "")
            with self._follow(url, headers, authorization, method, body) as answer:
                challenge = answer.header("WWW-Authenticate")
                if answer.status != 401 or attempt or not challenge:
                    yield answer
                    return
            token = self._answer_challenge(origin, challenge)
            if not token:
                with self._follow(url, headers, "", method, body) as answer:
                    yield answer
                return
            with self._lock:
                self._tokens[origin.netloc, scope] = token

    @contextmanager
    def _follow(
        self, url: str, headers: Mapping[str, str], authorization: str, method: str, body: bytes
    ) -> Iterator[Answer]:
        origin = urlsplit(url)
        for _ in range(MAX_REDIRECTS + 1):
            at = urlsplit(url)
            own = {"User-Agent": AGENT, "Host": at.netloc, **headers}
            if authorization and (at.scheme, at.netloc) == (origin.scheme, origin.netloc):
                own["Authorization"] = authorization
            connection = self._connection(at)
            try:
                # Closed by itself: an answer that ends its connection is no longer the connection's to close.
                with self._ask(connection, at, own, method, body) as response:
                    place = response.headers.get("Location") or ""
                    if response.status not in (301, 302, 303, 307, 308) or not place:
                        yield Answer(response, url)
                        return
                url = urljoin(url, place)
                if urlsplit(url).scheme not in ("http", "https") or (at.scheme == "https" and not is_secure(url)):
                    raise HttpFailed(f"{host_of(url)}: it leads to a place that is not secure")
            finally:
                connection.close()
        raise HttpFailed(f"{host_of(url)} leads from place to place without end")

    def _connection(self, at: SplitResult) -> http.client.HTTPConnection:
        try:
            host, port = at.hostname or "", at.port
        except ValueError as error:
            raise HttpFailed(f"{at.netloc} is not a host") from error
        if at.scheme == "https":
            trust = self._trust or ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=trust)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    @staticmethod
    def _ask(
        connection: http.client.HTTPConnection, at: SplitResult, headers: Mapping[str, str], method: str, body: bytes
    ) -> http.client.HTTPResponse:
        try:
            target = (at.path or "/") + (f"?{at.query}" if at.query else "")
            connection.request(method, target, body=body or None, headers=dict(headers))
            return connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise HttpFailed(f"{at.netloc} does not answer: {_why(error)}") from error

    def _answer_challenge(self, origin: SplitResult, challenge: str) -> str:
        """What to say instead, empty where there is nothing. Raises HttpFailed."""
        login = self._logins.get(origin.netloc)
        kind = challenge.partition(" ")[0].lower()
        basic = f"Basic {_basic(login)}" if login is not None else ""
        if kind == "basic":
            return basic
        if kind != "bearer":
            return ""
        told = dict(_PARAMETER.findall(challenge))
        realm = told.get("realm", "")
        at = urlsplit(realm)
        if not is_secure(realm) and (at.scheme, at.netloc) != (origin.scheme, origin.netloc):
            raise HttpFailed(f"{origin.netloc} wants tokens from a place that is not secure")
        query = urlencode({name: told[name] for name in ("service", "scope") if name in told})
        with self._follow(f"{realm}?{query}", {}, basic, "GET", b"") as answer:
            if answer.status != 200:
                raise HttpFailed(f"{origin.netloc} refused to give a token (HTTP {answer.status})")
            token = _token_in(answer.body(MAX_TOKEN_ANSWER))
        if not token:
            raise HttpFailed(f"{origin.netloc} gave no token")
        return f"Bearer {token}"


def is_secure(url: str) -> bool:
    """Whether no third party can read or change what is sent there."""
    at = urlsplit(url)
    return at.scheme == "https" or (at.scheme == "http" and at.hostname in _LOOPBACK)


def is_loopback(host: str) -> bool:
    return urlsplit(f"//{host}").hostname in _LOOPBACK


def host_of(url: str) -> str:
    return urlsplit(url).netloc


def _scope_of(url: SplitResult) -> str:
    """Tokens hold for one repository: everything before what is asked of it."""
    return re.split(r"/(?:manifests|blobs|tags)/", url.path, maxsplit=1)[0]


def _token_in(body: bytes) -> str:
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    token = (told.get("token") or told.get("access_token")) if isinstance(told, dict) else ""
    return token if isinstance(token, str) and token.isprintable() and token.isascii() else ""


def _basic(login: Login) -> str:
    return base64.b64encode(f"{login.user}:{login.password()}".encode()).decode("ascii")


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
