"""What servers ask each other, over the listener that only they can use: how far they have come, a copy of the state, certificates.

User requests forwarded by another server arrive here as well, and are answered as if they had come directly: they carry their
user's own token. A caller without a certificate of this quorum may do one thing, show an invitation.
"""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.errors import ApiError, starting
from lattice.api.rest.endpoint import send_error, send_json
from lattice.api.rest.requests import ClientGone, Headers, read_body
from lattice.ports.clock import Clock
from lattice.ports.quorum.servers import MembershipRefused, PeerService
from lattice.wire.admin.quorum import replica_view

# Set in the scope of every request that comes in here: the server that asks; None for a caller without a certificate.
PEER = "lattice.peer"
JOIN = "/peer/join"
REPLICA = "/peer/replica"
SNAPSHOT = "/peer/snapshot"
RENEW = "/peer/certificates"
BACKUPS = "/peer/backups"
VERIFY = "/peer/backups/verify"
FILE = "/peer/backups/file"
FETCH = "/peer/backups/fetch"
_MAX_DIGITS = 18
_OCTETS = (b"content-type", b"application/octet-stream")


class PeerApp:
    """An ASGI application; `users` answers forwarded requests."""

    def __init__(self, users: ASGIApp, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self.service: PeerService | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope)
        try:
            if scope["path"] == JOIN:
                await self._join(scope, receive, send, headers)
                return
            await self._check(scope)
            if scope["path"].startswith("/peer/"):
                await self._answer(scope, send, headers)
                return
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the edge: everything becomes an answer
            await send_error(send, _translated(error), headers.request_id, "peer")
            return
        await self._users(scope, receive, send)

    def _service(self) -> PeerService:
        if self.service is None:
            raise starting()
        return self.service

    async def _check(self, scope: Scope) -> None:
        name: str | None = scope.get(PEER)
        if name is None:
            raise ApiError(
                "forbidden",
                "this address is for the servers of the cluster: a certificate of theirs is needed",
                hint="clients use the REST address",
            )
        if await self._service().is_member(name):
            return
        said = f'server "{name}" does not belong to this cluster, or no longer'
        if not scope["path"].startswith("/peer/"):
            # A user's request that it forwarded is as good as ever: another server takes it.
            raise ApiError("unavailable", said, hint="ask another server")
        raise ApiError("forbidden", said)

    async def _join(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if scope["method"] != "POST":
            raise ApiError("method_not_allowed", "an invitation is shown with POST")
        body = await self._service().admit(await read_body(receive, headers))
        await _send_bytes(send, body)

    async def _answer(self, scope: Scope, send: Send, headers: Headers) -> None:
        service = self._service()
        match scope["method"], scope["path"]:
            case "GET", path if path == REPLICA:
                view = replica_view(service.replica_at(_number(scope, "index")), self._clock.now_ms())
                await send_json(send, 200, view, headers.request_id)
            case "GET", path if path == SNAPSHOT:
                await _send_pieces(send, service.hand_over())
            case "GET", path if path == BACKUPS:
                await send_json(send, 200, await service.backups(), headers.request_id)
            case "POST", path if path == VERIFY:
                await send_json(send, 200, await service.verify_backup(_asked(scope, "path")), headers.request_id)
            case "GET", path if path == FILE:
                await _send_pieces(
                    send,
                    service.backup_file(_asked(scope, "path"), _asked(scope, "name"), _number(scope, "offset") or 0),
                )
            case "POST", path if path == FETCH:
                fetched = await service.fetch_backup(_asked(scope, "path"), _asked(scope, "server"))
                await send_json(send, 200, fetched, headers.request_id)
            case "POST", path if path == RENEW:
                await send_json(send, 200, await service.renew(), headers.request_id)
            case _:
                raise ApiError("not_found", f"nothing at {scope['path'][:80]}")


async def _send_pieces(send: Send, pieces: AsyncIterator[bytes]) -> None:
    first = await anext(pieces, b"")
    await send({"type": "http.response.start", "status": 200, "headers": [_OCTETS]})
    await send({"type": "http.response.body", "body": first, "more_body": True})
    # A failure from here on cuts the answer off, and the receiver notices.
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _asked(scope: Scope, name: str) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return parse_qs(query).get(name, [""])[0]


def _number(scope: Scope, name: str) -> int | None:
    value = _asked(scope, name)
    return int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else None


def _translated(error: Exception) -> Exception:
    return ApiError(error.code, str(error), hint=error.hint) if isinstance(error, MembershipRefused) else error


async def _send_bytes(send: Send, body: bytes) -> None:
    headers = [_OCTETS, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
