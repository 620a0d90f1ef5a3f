"""The web page of a server: its files at `/`, its login below `/web/`, and the API for browsers that are logged in.

Everything that the page shows or does is a request to the REST API. A request with a session gets its token here and is then like
any other; requests with a token of their own pass unchanged.
"""

from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.web.answers import Refusal, deny_socket, send_body, send_refusal
from lattice.web.files import File
from lattice.web.login import Logins, Settings
from lattice.web.origins import check_origin
from lattice.web.provider import ProviderLogin
from lattice.web.sealing import Sealer
from lattice.web.sessions import (
    PAGE_HEADER,
    PAGE_PROTOCOL,
    Header,
    NoSession,
    cookies,
    has_cookie,
    is_of_browser,
    read_session,
    without_cookies,
)

# The first word of every address at which the page shows something; the page itself knows the rest.
VIEWS = frozenset({"", "login", "allocations", "submit", "timeline", "nodes", "dags", "services", "usage", "admin"})
INDEX = "/assets/index.html"
POLICY = (
    b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    b"frame-ancestors 'none'"
)
_SAFE: list[Header] = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
NOT_INSTALLED = (
    b"The API is served below /api/v1. The web page is not installed on this server:\n"
    b"run `make web` in a source tree, or install the wheel, which contains it.\n"
)


class WebPage:
    """An ASGI application in front of the server's own. Without files it serves the API alone and says how to add the page."""

    def __init__(
        self,
        app: ASGIApp,
        files: Mapping[str, File],
        sealer: Sealer,
        settings: Settings,
        provider: ProviderLogin | None,
        now_s: Callable[[], float],
    ) -> None:
        self._app = app
        self._files = files
        self._sealer = sealer
        self._now_s = now_s
        self._logins = Logins(app, sealer, settings, provider, now_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith(("/api/", "/v1/")):
            if is_of_browser(scope["headers"]):
                await self._as_user(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        elif kind == "http" and path.startswith("/web/"):
            await self._logins(scope, receive, send)
        elif kind == "http" and scope["method"] in ("GET", "HEAD") and self._address(path):
            await self._file(scope, send, self._address(path))
        else:
            await self._app(scope, receive, send)

    def _address(self, path: str) -> str:
        """Of the file that is shown there; empty where there is none."""
        if path.startswith("/assets/"):
            return path if path in self._files else ""
        return INDEX if path.removeprefix("/").partition("/")[0] in VIEWS else ""

    async def _file(self, scope: Scope, send: Send, address: str) -> None:
        file = self._files.get(address)
        if file is None:
            await send_body(send, 404, NOT_INSTALLED, [(b"content-type", b"text/plain; charset=utf-8"), *_SAFE])
            return
        asked = dict(scope["headers"])
        # Files keep their names from release to release, so they are asked for each time and seldom sent.
        headers: list[Header] = [(b"etag", file.tag), (b"cache-control", b"no-cache"), *_SAFE]
        if asked.get(b"if-none-match") == file.tag:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        headers += [(b"content-type", file.kind.encode()), (b"vary", b"accept-encoding")]
        body = file.plain
        if file.compressed and b"gzip" in asked.get(b"accept-encoding", b""):
            body = file.compressed
            headers.append((b"content-encoding", b"gzip"))
        await send_body(send, 200, body, headers)

    async def _as_user(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request on, with the token of its session where it has one and no token of its own."""
        headers: list[Header] = scope["headers"]
        is_socket = scope["type"] == "websocket"
        page_key = _protocol_key(headers) if is_socket else _header(headers, PAGE_HEADER)
        found = cookies(headers)
        # A request without the page's key comes from no page of ours: its cookies are no concern of it.
        if not page_key or not has_cookie(found) or _header(headers, b"authorization"):
            await self._app({**scope, "headers": without_cookies(headers)}, receive, send)
            return
        try:
            if is_socket or scope["method"] not in ("GET", "HEAD"):
                check_origin(scope)
            session = read_session(self._sealer, found, page_key, self._now_s())
        except NoSession as error:
            await _refuse(is_socket, receive, send, Refusal("unauthenticated", str(error), "log in again"))
            return
        except Refusal as refusal:
            await _refuse(is_socket, receive, send, refusal)
            return
        bearer = (b"authorization", f"Bearer {session.token}".encode())
        await self._app({**scope, "headers": [*without_cookies(headers), bearer]}, receive, send)


async def _refuse(is_socket: bool, receive: Receive, send: Send, refusal: Refusal) -> None:
    if is_socket:
        await deny_socket(receive, send, refusal)
    else:
        await send_refusal(send, refusal)


def _header(headers: list[Header], name: bytes) -> str:
    return next((value.decode("latin-1") for each, value in headers if each == name), "")


def _protocol_key(headers: list[Header]) -> str:
    """The page's key among the subprotocols: a page cannot set headers of a WebSocket."""
    for word in _header(headers, b"sec-websocket-protocol").split(","):
        if word.strip().startswith(PAGE_PROTOCOL):
            return word.strip().removeprefix(PAGE_PROTOCOL)
    return ""
