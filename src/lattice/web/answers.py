"""Answers of the page's own addresses, and requests that it makes to the API in memory, as any other client."""

from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lattice.web.sessions import Header

MAX_BODY = 64 << 10
_JSON = (b"content-type", b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
STATUS = {"unauthenticated": 401, "forbidden": 403, "not_found": 404, "invalid": 400, "unavailable": 503}


class ErrorBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    hint: str = ""


class ErrorAnswer(Struct, frozen=True):
    error: ErrorBody


class Refusal(Exception):
    """Becomes an error answer in the form of the API."""

    def __init__(self, code: str, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.body = ErrorBody(code=code, message=message, hint=hint)
        self.status = status or STATUS.get(code, 500)


async def send_body(send: Send, status: int, body: bytes, headers: list[Header]) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, answer: object, *headers: Header) -> None:
    await send_body(send, status, msgspec.json.encode(answer), [_JSON, _NO_STORE, *headers])


async def send_refusal(send: Send, refusal: Refusal, *headers: Header) -> None:
    await send_json(send, refusal.status, ErrorAnswer(refusal.body), *headers)


async def deny_socket(receive: Receive, send: Send, refusal: Refusal) -> None:
    await receive()  # websocket.connect
    body = msgspec.json.encode(ErrorAnswer(refusal.body))
    headers = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def redirect(send: Send, address: str, *headers: Header) -> None:
    await send_body(send, 303, b"", [(b"location", address.encode()), _NO_STORE, *headers])


async def read_body(receive: Receive) -> bytes:
    """Raises Refusal for more than such a request ever needs."""
    pieces, size = [], 0
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY:
            raise Refusal("invalid", "the request is too large", status=413)
        if not message.get("more_body"):
            return b"".join(pieces)


async def ask_api(app: ASGIApp, scope: Scope, method: str, path: str, token: str) -> dict[str, Any]:
    """What the API answers to the bearer of the token. Raises Refusal with what it says."""
    status, pieces = 0, []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        pieces.append(message.get("body", b""))

    address = f"/api/v1{path}"
    asked = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": address,
        "raw_path": address.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {token}".encode())],
        "client": scope.get("client"),
        "scheme": scope["scheme"],
        "server": None,
        "root_path": "",
    }
    await app(asked, receive, send)
    body = b"".join(pieces)
    if 200 <= status < 300:
        found: dict[str, Any] = msgspec.json.decode(body)
        return found
    try:
        said = msgspec.json.decode(body, type=ErrorAnswer).error
    except msgspec.MsgspecError:
        said = ErrorBody(code="unavailable", message="the server could not answer", hint="try again")
    raise Refusal(said.code, said.message, said.hint, status or 503)
