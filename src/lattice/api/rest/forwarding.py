"""A follower's forwarder: hands requests on to the leader as they are, and its answers back piece by piece.

Every write has a request id before it leaves, given by us where the client gave none, so that it may be sent again, also to the next
leader, when no answer came. A request is forwarded once: a server that another asks and that does not lead refuses.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lattice.api.errors import ApiError, ErrorAnswer
from lattice.api.rest.app import choose_consistency
from lattice.api.rest.endpoint import RETRY, STALE, send_error, send_json
from lattice.api.rest.exchange import Exchange, LeaderLost, Pool
from lattice.api.rest.lines import NAME, UPGRADE
from lattice.api.rest.peers import PEER
from lattice.api.rest.requests import ClientGone, Headers, read_body, source_of
from lattice.api.rest.tunnel_forwarding import LeaderLine, upgraded

NOT_LEADING = b"x-lattice-not-leading"
GIVE_UP_S = 10.0
_PAUSE_S = 0.05
# A leader that steps down ends its streams by itself; one that hangs never does.
PARTING_S = 5.0
# The follower answers these from what it has itself.
_OWN = frozenset(
    {
        "/healthz",
        "/metrics",
        "/metrics/tenants",
        "/v1/auth/discovery",
        "/v1/version",
        "/v1/raft/status",
        "/v1/metrics/history",
        "/v1/admin/diagnostics",
    }
)
_HOP = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"host", b"content-length", b"expect"}
)


class Leader(Protocol):
    """Where the leader is reached, as this server knows it."""

    @property
    def url(self) -> str:
        """The address that it keeps for other servers; empty while there is none, or when it is this server."""
        ...

    @property
    def app(self) -> ASGIApp | None:
        """What answers here, when this server leads."""
        ...

    def moved(self) -> "asyncio.Future[None]":
        """Done when the leader changed after this call."""
        ...


class LeaderPlace(Protocol):
    """Who leads among the servers, as this one sees them."""

    @property
    def url(self) -> str: ...

    def moved(self) -> "asyncio.Future[None]": ...

    def wake(self) -> None:
        """Everyone who waits for the leader to move looks again."""
        ...


class LeaderHere:
    """Implements `Leader`: another server at its place, or this one from `lead_by` on."""

    def __init__(self, place: LeaderPlace) -> None:
        self._place = place
        self.app: ASGIApp | None = None  # set by `lead_by` alone

    @property
    def url(self) -> str:
        return self._place.url

    def moved(self) -> "asyncio.Future[None]":
        return self._place.moved()

    def lead_by(self, app: ASGIApp | None) -> None:
        """Requests that wait for a leader are answered by `app` from now on, or wait for another one."""
        self.app = app
        self._place.wake()


CheckToken = Callable[[str, str], Awaitable[None]]


class Forwarding:
    """An ASGI application; `local` answers what needs no leader, `check` looks at a token before anything else is read.

    While `outage` gives a reason, a request that finds no leader is refused at once: no other is about to be elected.
    """

    def __init__(
        self,
        local: ASGIApp,
        leader: Leader,
        pool: Pool,
        check: CheckToken | None = None,
        outage: Callable[[], str] = lambda: "",
    ) -> None:
        self._check = check
        self._outage = outage
        self._local = local
        self._leader = leader
        self._pool = pool
        self._is_closed = False

    def close(self) -> None:
        """Refuses from now on, and when the leader is next said to have moved also what waits for an answer."""
        self._is_closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._local(scope, receive, send)
            return
        path: str = scope["path"].removeprefix("/api")
        if b"consistency=" in scope["query_string"]:
            choose_consistency(scope)
        if scope.get(STALE) or path in _OWN:
            await self._local(scope, receive, send)
            return
        headers = Headers(scope)
        body = b""
        try:
            if PEER in scope:
                await _refuse(send, headers)
                return
            if UPGRADE in scope:
                await self._forward_tunnel(scope, headers, send)
                return
            if scope["method"] not in ("GET", "HEAD"):
                if self._check is not None:
                    await self._check(headers.authorization, source_of(scope))
                body = await read_body(receive, headers)
            await self._forward(self._request(scope, body, headers), receive, send)
        except _LeadsHere as here:
            await here.app(scope, _replayed(body, receive), send)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the edge: everything becomes an answer
            await send_error(send, error, headers.request_id, "forward")

    def _request(self, scope: Scope, body: bytes, headers: Headers) -> bytes:
        # uvicorn itself leaves the body of an answer to HEAD away.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        target: bytes = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        lines = [b"%s %s HTTP/1.1" % (method.encode(), target), b"host: lattice"]
        lines += [b"%s: %s" % (name, value) for name, value in scope["headers"] if name not in _HOP]
        if not headers.request_id:
            lines.append(b"x-request-id: %s" % secrets.token_hex(16).encode())
        lines += [b"content-length: %d" % len(body), b"", b""]
        return b"\r\n".join(lines) + body

    async def _forward(self, request: bytes, receive: Receive, send: Send) -> None:
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            moved = self._leader.moved()
            if self._leader.app is not None:
                raise _LeadsHere(self._leader.app)
            if self._is_closed:
                raise ApiError("unavailable", "this server is stopping", hint="repeat it under the same request_id")
            url = self._leader.url
            if url:
                try:
                    exchange = await self._begin(url, request, moved)
                except LeaderLost:
                    exchange = None
                if exchange is not None:
                    await self._relay(url, exchange, receive, send)
                    return
            left = deadline - time.monotonic()
            if left <= 0 or self._outage():
                raise no_leader()
            await asyncio.wait((moved,), timeout=min(left, _PAUSE_S if url else left))

    async def _forward_tunnel(self, scope: Scope, headers: Headers, send: Send) -> None:
        """Hands the caller's connection to the leader; one that ends there ends here."""
        head = self._request(scope, b"", headers).removesuffix(b"\r\n")
        request = head + b"connection: upgrade\r\nupgrade: %s\r\n\r\n" % NAME
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            moved = self._leader.moved()
            if self._leader.app is not None:
                raise _LeadsHere(self._leader.app)
            url = self._leader.url
            answer = None
            if url:
                with contextlib.suppress(LeaderLost):
                    answer = await upgraded(url, request, self._pool.tls)
            if isinstance(answer, LeaderLine):
                await answer.carry(scope[UPGRADE]())
                return
            if answer is not None and not any(name == NOT_LEADING for name, _ in answer.headers):
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
                await send({"type": "http.response.body", "body": answer.body})
                return
            left = deadline - time.monotonic()
            if left <= 0 or self._outage() or self._is_closed:
                raise no_leader()
            await asyncio.wait((moved,), timeout=min(left, _PAUSE_S if url else left))

    async def _begin(self, url: str, request: bytes, moved: "asyncio.Future[None]") -> Exchange | None:
        """The exchange once its answer has begun; None when that server does not lead."""
        beginning = asyncio.create_task(self._pool.begin(url, request))
        await asyncio.wait((beginning, moved), return_when=asyncio.FIRST_COMPLETED)
        if not beginning.done():
            # The new leader answers; the old one may hang for a long time.
            beginning.cancel()
            await asyncio.gather(beginning, return_exceptions=True)
            return None
        exchange = beginning.result()
        if any(name.lower() == NOT_LEADING for name, _ in exchange.headers):
            exchange.abandon()
            return None
        return exchange

    async def _relay(self, url: str, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Hands the answer on. One that is not over a while after another server began to lead breaks off."""
        if exchange.is_complete:
            await exchange.relay(receive, send)
            return
        relaying = asyncio.create_task(exchange.relay(receive, send))
        try:
            while not relaying.done() and self._leader.url in ("", url) and self._leader.app is None:
                await asyncio.wait((relaying, self._leader.moved()), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((relaying,), timeout=PARTING_S)
            if relaying.done():
                relaying.result()
        finally:
            if not relaying.done():
                exchange.abandon()
                relaying.cancel()
                await asyncio.gather(relaying, return_exceptions=True)


class _LeadsHere(Exception):
    """This server was elected while the request waited."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__()
        self.app = app


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The request's body once more, then whatever comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def no_leader() -> ApiError:
    return ApiError(
        "unavailable",
        "no server leads now: a majority of the servers cannot be reached, or they are electing one",
        hint="repeat it under the same request_id; reads with consistency=stale (`lattice --stale`) are answered from what this server has",
    )


async def _refuse(send: Send, headers: Headers) -> None:
    await send_json(send, 503, ErrorAnswer(no_leader().view), headers.request_id, RETRY, (NOT_LEADING, b"1"))
