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
from socket import socket
from urllib.parse import parse_qsl

from lattice.api.gateway.exchange import Exchange, Writer, drained
from lattice.api.gateway.heads import (
    COOKIE,
    MAX_HEAD,
    BadHead,
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
                is_first = True
                while await self._exchange(reader, writer, HEAD_WITHIN_S if is_first else IDLE_S):
                    is_first = False
        except asyncio.CancelledError:
            return
        except Exception:  # noqa: BLE001 - the edge: one connection's trouble stays its own
            _log.exception("a connection to the gateway failed")
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: Writer, within_s: float) -> bool:
        """One request; whether another may follow."""
        try:
            async with asyncio.timeout(within_s):
                text = await reader.readuntil(b"\r\n\r\n")
            return await self._take(parse_request(text), reader, writer)
        except (BadHead, asyncio.LimitOverrunError) as error:
            await _answer(writer, 400, str(error) if isinstance(error, BadHead) else "the head is too long")
        except Refused as refusal:
            await _answer(writer, refusal.status, str(refusal))
        return False

    async def _take(self, head: RequestHead, reader: asyncio.StreamReader, writer: Writer) -> bool:
        work = self.work
        if not is_same_origin(head, self.scheme) or is_asked_by_others(head):
            raise Refused(403, "a page of another origin may not ask this")
        address, rest = split_target(head.target)
        body = request_body(head)
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
        return await Exchange(work, reader, writer, self.scheme).run(head, grant, rest, body, drops_authorization=drops)

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
