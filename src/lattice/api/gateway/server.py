"""The gateway: web pages and services of running work under /proxy/, on a listener and so an origin of its own.

A browser comes with a ticket that becomes a cookie, bound to one path and, where the gateway has a domain, to one host; a program
comes with its token. Connections to the work are checked by its node when they are made, and requests by the state of their moment.
docs/architecture/forwarding.md.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from socket import socket
from typing import NamedTuple
from urllib.parse import parse_qsl

from lattice.api.gateway.exchange import Exchange, Writer, drained
from lattice.api.gateway.heads import (
    COOKIE,
    MAX_HEAD,
    MAX_REPEATED,
    REPEATED,
    BadHead,
    Body,
    RequestHead,
    is_asked_by_others,
    is_same_origin,
    parse_request,
    request_body,
)
from lattice.api.gateway.tickets import Grant
from lattice.api.gateway.work import Address, Refused, Work, split_target
from lattice.ports.nodes.tunnels import TunnelBroken

HEAD_WITHIN_S = 10.0
IDLE_S = 60.0
MAX_CONNECTIONS = 2_048
TICKET = "lattice-ticket"
TENANT = "x-lattice-tenant"
_AGAIN = "run `lattice open` again"
_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    421: "Misdirected Request",
    502: "Bad Gateway",
    503: "Service Unavailable",
}

_log = logging.getLogger(__name__)

Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


class Request(NamedTuple):
    """What a head asks for, as far as it alone says that."""

    head: RequestHead
    address: Address
    rest: str  # of the target, behind the address
    body: Body


def read_request(text: bytes, scheme: str) -> Request:
    """Raises BadHead and Refused."""
    head = parse_request(text)
    if not is_same_origin(head, scheme) or is_asked_by_others(head):
        raise Refused(403, "a page of another origin may not ask this")
    address, rest = split_target(head.target)
    return Request(head, address, rest, request_body(head))


class _Patience:
    """Ends the wait for a head, by a timer that is moved seldom: one for each request would cost as much as reading it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._until_s: float | None = None  # None = nothing is waited for
        self._timer: asyncio.TimerHandle | None = None

    async def head(self, within_s: float) -> bytes:
        """The next head; raises TimeoutError, after which nothing can be read any more."""
        self._until_s = self._loop.time() + within_s
        if self._timer is None or self._timer.when() > self._until_s:
            self.close()
            self._timer = self._loop.call_at(self._until_s, self._look)
        try:
            return await self._reader.readuntil(b"\r\n\r\n")
        finally:
            self._until_s = None

    def _look(self) -> None:
        self._timer = None
        if self._until_s is None:
            return
        if self._loop.time() < self._until_s:
            self._timer = self._loop.call_at(self._until_s, self._look)
        else:
            self._reader.set_exception(TimeoutError())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Caller:
    """One connection to the gateway. What a caller says again is not read again."""

    def __init__(self, reader: asyncio.StreamReader, writer: Writer, scheme: str) -> None:
        self.writer = writer
        self.patience = _Patience(reader)
        self.exchange = Exchange(reader, writer, scheme)
        self._scheme = scheme
        self._read_again = lru_cache(REPEATED)(read_request)

    async def request(self, within_s: float) -> Request:
        """The next one; raises BadHead, Refused and TimeoutError."""
        text = await self.patience.head(within_s)
        read = self._read_again if len(text) <= MAX_REPEATED else read_request
        return read(text, self._scheme)


class Gateway:
    """`start` on a bound socket, `serve` while this server leads, `stop`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._work: Work | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._carry: Carry | None = None

    @property
    def scheme(self) -> str:
        return "http" if self._tls is None else "https"

    def serve(self, work: Work | None) -> None:
        """Who answers from now on; None = this server does not lead, and pages are refused."""
        self._work = work

    @property
    def work(self) -> Work:
        """Raises Refused."""
        if self._work is None:
            raise Refused(503, f"this server does not lead; {_AGAIN}")
        return self._work

    async def start(self, bound: socket) -> None:
        self._server = await asyncio.start_server(self._connected, sock=bound, limit=MAX_HEAD, ssl=self._tls)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def is_serving(self) -> bool:
        """Whether this server leads, and pages are served here."""
        return self._work is not None

    def carry_by(self, carry: Carry | None) -> None:
        """What takes connections to the leader while this server follows."""
        self._carry = carry

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carry = self._carry
        await self.attend(reader, writer, None if carry is None else lambda: carry(reader, writer))

    async def attend(
        self, reader: asyncio.StreamReader, writer: Writer, elsewhere: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """One connection, from its first request to its end; by `elsewhere`, if that takes it, while this server follows."""
        task = asyncio.current_task()
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, TunnelBroken):
                if self._work is None and elsewhere is not None and await elsewhere():
                    return
                caller = _Caller(reader, writer, self.scheme)
                with contextlib.closing(caller.patience):
                    within_s = HEAD_WITHIN_S
                    while await self._exchange(caller, within_s):
                        within_s = IDLE_S
        except asyncio.CancelledError:
            return
        except Exception:  # noqa: BLE001 - the edge: one connection's trouble stays its own
            _log.exception("a connection to the gateway failed")
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, caller: _Caller, within_s: float) -> bool:
        """One request; whether another may follow."""
        try:
            return await self._take(await caller.request(within_s), caller)
        except (BadHead, asyncio.LimitOverrunError) as error:
            await _answer(caller.writer, 400, str(error) if isinstance(error, BadHead) else "the head is too long")
        except Refused as refusal:
            await _answer(caller.writer, refusal.status, str(refusal))
        return False

    async def _take(self, request: Request, caller: _Caller) -> bool:
        work, writer = self.work, caller.writer
        head, address, rest, body = request
        if TICKET in rest:
            path, _, query = rest.partition("?")
            ticket = dict(parse_qsl(query)).get(TICKET, "")
            if ticket:
                await self._redeem(work, head, ticket, address, path, query, writer)
                return False
        grant, is_by_token = await self._grant(work, head, address, writer)
        if not rest.startswith("/"):
            await _redirect(writer, f"{address.prefix}/{rest}")
            return False
        drops = is_by_token or _has_token(work, head)
        return await caller.exchange.run(work, head, grant, rest, body, drops_authorization=drops)

    async def _grant(self, work: Work, head: RequestHead, address: Address, writer: Writer) -> tuple[Grant, bool]:
        """By the browser's session or, without one, by the program's token; and whether it was that."""
        grant = work.tickets.session(head.cookie(), address.prefix)
        if grant is not None:
            _check_host(work, head, grant)
            return grant, False
        authorization = head.one("authorization")
        if authorization:
            return await work.authorized(authorization, head.one(TENANT), address, _source(writer)), True
        raise Refused(401, f"no session for this page, or it has ended; {_AGAIN}, or send a token")

    async def _redeem(
        self,
        work: Work,
        head: RequestHead,
        ticket: str,
        address: Address,
        path: str,
        query: str,
        writer: Writer,
    ) -> None:
        found = work.tickets.ticket(ticket, address.prefix)
        if found is None:
            raise Refused(403, f"this ticket has expired, or is not for this page; {_AGAIN}")
        grant = found.grant
        _check_host(work, head, grant)
        if not await work.use_up(found, _source(writer)):
            raise Refused(403, f"this ticket was used already; {_AGAIN}")
        session = work.tickets.begin(grant)
        left = "&".join(each for each in query.split("&") if not each.startswith(f"{TICKET}="))
        secure = "; Secure" if self.scheme == "https" else ""
        cookie = f"{COOKIE}={session}; Path={grant.prefix}/; Max-Age={grant.life_s:.0f}; HttpOnly; SameSite=Lax{secure}"
        await _redirect(writer, f"{grant.prefix}{path or '/'}{f'?{left}' if left else ''}", f"Set-Cookie: {cookie}")


def _source(writer: Writer) -> str:
    """The caller's address."""
    peer = writer.get_extra_info("peername") or ("",)
    return str(peer[0])


def _has_token(work: Work, head: RequestHead) -> bool:
    """Whether the caller sends a token of ours, which the work must not see."""
    scheme, _, token = head.one("authorization").partition(" ")
    return scheme.lower() == "bearer" and work.is_token(token.strip())


def _check_host(work: Work, head: RequestHead, grant: Grant) -> None:
    """A page is shown on the host that is its own, so that no script of another page shares its origin. Raises Refused."""
    if not work.domain:
        if not grant.is_own:
            raise Refused(403, "pages of others are not shown here: all pages of this gateway share one origin")
        return
    host = head.one("host").lower().rpartition(":")[0] or head.one("host").lower()
    if host != f"{grant.label}.{work.domain}":
        raise Refused(421, f"this page has a host of its own; {_AGAIN}")


async def _answer(writer: Writer, status: int, text: str, *headers: str) -> None:
    body = f"{text}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'See Other')}",
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    await drained(writer, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


async def _redirect(writer: Writer, location: str, *headers: str) -> None:
    await _answer(writer, 303, "see there", f"Location: {location}", "Referrer-Policy: no-referrer", *headers)
