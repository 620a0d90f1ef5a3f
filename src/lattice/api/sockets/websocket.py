"""Terminals over WebSocket: `GET /allocations/{id}/attach` and `GET /sessions/{id}/terminal`, upgraded.

Binary frames are bytes of the terminal, text frames the other messages. The rules for browsers: a page of another origin is refused,
and the token may come as a subprotocol, because a page cannot set headers.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Collection, Mapping
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.errors import ApiError, ErrorAnswer
from lattice.api.limits import MAX_ADDRESS
from lattice.api.sockets.bridge import TerminalBridge
from lattice.api.sockets.inner import InnerCalls
from lattice.api.sockets.messages import (
    AttachStart,
    BadMessage,
    ClientMessage,
    Error,
    ExitCode,
    ServerMessage,
    checked,
    encode,
    read_message,
)

PROTOCOL = "lattice.terminal.v1"
BEARER = "lattice.bearer."
NORMAL, BAD_MESSAGE, INTERNAL, OF_REFUSALS = 1000, 1007, 1011, 4000
MAX_REASON = 120
_ADDRESS = re.compile(r"(?:/api)?/v1/(allocations/([^/]+)/attach|sessions/([^/]+)/terminal)")
_TEXTS = frozenset({"node", "command", "term", "client"})


class Sockets:
    """An ASGI application: WebSockets are answered here, by requests to `app`, and everything else by `app` itself."""

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        await receive()  # websocket.connect
        headers = _headers(scope)
        try:
            path = _path(scope)
            self._check_origin(headers)
            start = read_start(scope["query_string"])
            authorization = authorization_of(headers)
        except ApiError as error:
            await _deny(send, error)
            return
        offered = _words(headers.get("sec-websocket-protocol", ""))
        accept = {"type": "websocket.accept", "subprotocol": PROTOCOL if PROTOCOL in offered else None}
        await send(accept)
        calls = InnerCalls(self._app, authorization, scope.get("client"), headers.get("x-lattice-tenant", ""))
        await _Conversation(receive, send).serve(calls, path, start)

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Only browsers name an origin; a page from elsewhere must not use what its reader may do here."""
        origin = headers.get("origin", "").rstrip("/").lower()
        if not origin or origin in self._allowed:
            return
        if urlsplit(origin).netloc != headers.get("host", "").lower():
            raise ApiError(
                "forbidden",
                f"pages of {origin[:80]} may not open terminals here",
                hint="an administrator can name the origin in api.allowed_origins",
            )


class _Conversation:
    """One client, once it was accepted."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._to_client = send
        self._is_over = False

    async def serve(self, calls: InnerCalls, path: str, start: AttachStart) -> None:
        try:
            await TerminalBridge(calls, path, start, self._send).run(self._incoming())
            await self._close(NORMAL, "")
        except BadMessage as error:
            await self._say(Error(400, "invalid", str(error), "docs/reference/terminal-protocol.md"))
            await self._close(BAD_MESSAGE, str(error))
        except OSError:
            self._is_over = True  # the client is gone
        except Exception:
            await self._close(INTERNAL, "the server failed")
            raise

    async def _incoming(self) -> AsyncIterator[ClientMessage]:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                self._is_over = True
                return
            data = message.get("bytes")
            yield checked(data) if data is not None else read_message(message["text"])

    async def _send(self, message: ServerMessage, data: bytes) -> None:
        if self._is_over:
            return
        await self._say(message)
        if data:
            await self._to_client({"type": "websocket.send", "bytes": data})
        if isinstance(message, ExitCode):
            await self._close(NORMAL, f"exited with code {message.code}")
        elif isinstance(message, Error):
            await self._close(OF_REFUSALS + message.status, message.message)

    async def _say(self, message: ServerMessage) -> None:
        if not self._is_over:
            await self._to_client({"type": "websocket.send", "text": encode(message).decode()})

    async def _close(self, code: int, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            short = reason.encode()[:MAX_REASON].decode(errors="ignore")
            await asyncio.shield(_quietly(self._to_client, {"type": "websocket.close", "code": code, "reason": short}))


async def _quietly(send: Send, message: dict[str, object]) -> None:
    try:
        await send(message)
    except (OSError, RuntimeError):
        return  # the client is gone


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; those that came twice are joined."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    found = _ADDRESS.fullmatch(path)
    if found is None or len(path) + len(scope["query_string"]) > MAX_ADDRESS:
        raise ApiError(
            "not_found",
            f"nothing at {path[:80]} speaks WebSocket",
            hint="terminals are at /api/v1/allocations/{id}/attach and /api/v1/sessions/{id}/terminal",
        )
    name = quote(found[2] or found[3], safe="")
    return f"/allocations/{name}/attach" if found[2] else f"/sessions/{name}/terminal"


def authorization_of(headers: Mapping[str, str]) -> str:
    """The header of that name or, from a browser, the token in the subprotocol. Raises ApiError."""
    if "authorization" in headers:
        return headers["authorization"]
    for word in _words(headers.get("sec-websocket-protocol", "")):
        if word.startswith(BEARER):
            text = word.removeprefix(BEARER)
            try:
                token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            except (binascii.Error, ValueError):
                raise ApiError(
                    "unauthenticated", "the token in Sec-WebSocket-Protocol is not base64url", hint=f"{BEARER}TOKEN"
                ) from None
            return f"Bearer {token}"
    return ""


def read_start(query: bytes) -> AttachStart:
    """Raises ApiError for what is no parameter of a terminal."""
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=32))
    values = {name: value if name in _TEXTS else _plain(value) for name, value in given.items()}
    try:
        return msgspec.convert(values, AttachStart).checked()
    except (msgspec.ValidationError, BadMessage) as error:
        raise ApiError("invalid", str(error), hint="docs/reference/terminal-protocol.md lists the parameters") from None


def _plain(text: str) -> object:
    """A number or a truth value, where the text is one."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


async def _deny(send: Send, error: ApiError) -> None:
    body = msgspec.json.encode(ErrorAnswer(error.view))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
