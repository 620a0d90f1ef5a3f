"""The gateway: web pages of running work under /proxy/{id}/{port}/, on a listener and so an origin of its own.

A ticket becomes a cookie that is bound to one path; every request opens a connection to a process of that allocation, and the node
checks each. docs/architecture/forwarding.md.
"""

import asyncio
import contextlib
import logging
import ssl
from socket import socket
from typing import Protocol
from urllib.parse import parse_qsl

from lattice.api.gateway.bodies import BodyReader
from lattice.api.gateway.heads import (
    COOKIE,
    MAX_HEAD,
    BadHead,
    Body,
    Caller,
    RequestHead,
    client_response,
    is_same_origin,
    parse_request,
    parse_response,
    request_body,
    response_body,
    upstream_request,
)
from lattice.api.gateway.tickets import SESSION_S, Grant, Tickets
from lattice.ports.nodes.tunnels import Tunnel, TunnelBroken

HEAD_WITHIN_S = 10.0
IDLE_S = 60.0
MAX_CONNECTIONS = 2_048
PIECE = 1 << 16
TICKET = "lattice-ticket"
_AGAIN = "run `lattice open` again"
_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    502: "Bad Gateway",
    503: "Service Unavailable",
}

_log = logging.getLogger(__name__)


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Work(Protocol):
    """The way to the work, as the leader has it."""

    tickets: Tickets

    async def connect(self, grant: Grant) -> Tunnel:
        """A connection, if the grant still holds. Raises Refused."""
        ...

    def is_token(self, text: str) -> bool:
        """Whether this is a token of ours, which no work may see."""
        ...


class Gateway:
    """`start` on a bound socket, `serve` while this server leads, `stop`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._work: Work | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, TunnelBroken):
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

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, within_s: float) -> bool:
        """One request; whether another may follow."""
        try:
            async with asyncio.timeout(within_s):
                text = await reader.readuntil(b"\r\n\r\n")
            head = parse_request(text)
            return await _Exchange(self, head, reader, writer).run()
        except (BadHead, asyncio.LimitOverrunError) as error:
            await _answer(writer, 400, str(error) if isinstance(error, BadHead) else "the head is too long")
        except Refused as refusal:
            await _answer(writer, refusal.status, str(refusal))
        return False


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, gateway: Gateway, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._gateway = gateway
        self._head = head
        self._reader = reader
        self._writer = writer

    async def run(self) -> bool:
        head, work = self._head, self._gateway.work
        if not is_same_origin(head, self._gateway.scheme):
            raise Refused(403, "a page of another origin may not ask this")
        prefix, rest = split_target(head.target)
        path, _, query = rest.partition("?")
        ticket = dict(parse_qsl(query)).get(TICKET, "")
        body = request_body(head)
        if ticket:
            await self._redeem(work, ticket, prefix, path, query)
            return False
        grant = work.tickets.session(head.cookie(), prefix)
        if grant is None:
            raise Refused(401, f"no session for this page, or it has ended; {_AGAIN}")
        if not rest.startswith("/"):
            await _redirect(self._writer, f"{prefix}/{rest}")
            return False
        tunnel = await work.connect(grant)
        try:
            return await self._pass_on(tunnel, grant, rest, body)
        finally:
            tunnel.close()

    async def _redeem(self, work: Work, ticket: str, prefix: str, path: str, query: str) -> None:
        session = work.tickets.redeem(ticket, prefix)
        if session is None:
            raise Refused(403, f"this ticket was used already, or has expired; {_AGAIN}")
        left = "&".join(each for each in query.split("&") if not each.startswith(f"{TICKET}="))
        secure = "; Secure" if self._gateway.scheme == "https" else ""
        cookie = f"{COOKIE}={session}; Path={prefix}/; Max-Age={SESSION_S:.0f}; HttpOnly; SameSite=Lax{secure}"
        await _redirect(self._writer, f"{prefix}{path or '/'}{f'?{left}' if left else ''}", f"Set-Cookie: {cookie}")

    async def _pass_on(self, tunnel: Tunnel, grant: Grant, rest: str, body: Body) -> bool:
        head, work = self._head, self._gateway.work
        peer = self._writer.get_extra_info("peername") or ("",)
        caller = Caller(grant.user, str(peer[0]), self._gateway.scheme, grant.prefix)
        scheme, _, token = head.one("authorization").partition(" ")
        ours = scheme.lower() == "bearer" and work.is_token(token.strip())
        target = head.target if grant.keeps_path else rest
        try:
            await tunnel.write(upstream_request(head, target, caller, drops_authorization=ours))
        except TunnelBroken as error:
            raise Refused(502, f"the application does not answer: {error}") from None
        asking = asyncio.create_task(self._send_body(tunnel, body))
        try:
            is_framed = await self._answer_with(tunnel, grant)
            # A request whose body was not read to its end is not followed by another one.
            return is_framed and head.is_kept and asking.done() and asking.exception() is None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _send_body(self, tunnel: Tunnel, body: Body) -> None:
        if self._head.is_upgrade:
            return
        reading = BodyReader(body)
        while not reading.is_over:
            data = await self._reader.read(PIECE)
            taken = reading.take(data)
            if not data or taken < len(data):
                raise TunnelBroken("more than the request, or less")
            await tunnel.write(data)

    async def _answer_with(self, tunnel: Tunnel, grant: Grant) -> bool:
        """Passes the answer on; whether its end was clear."""
        text, rest = await self._response_head(tunnel)
        try:
            response = parse_response(text)
            body = response_body(response, self._head.method)
        except BadHead as error:
            raise Refused(502, f"the application does not speak HTTP: {error}") from None
        is_kept = not body.is_endless and self._head.is_kept
        shown = client_response(response, grant.prefix, is_kept=is_kept, is_stripped=not grant.keeps_path)
        self._writer.write(shown)
        if response.status == 101 and self._head.is_upgrade:
            self._writer.write(rest)
            await self._join(tunnel)
            return False
        reading = BodyReader(body)
        while True:
            taken = reading.take(rest)
            self._writer.write(rest[:taken])
            await self._writer.drain()
            if reading.is_over:
                return True
            rest = await tunnel.read()
            if not rest:
                return False

    async def _response_head(self, tunnel: Tunnel) -> tuple[bytes, bytes]:
        """The head of the final answer, and what came behind it; those before it are passed on."""
        text = b""
        while True:
            end = text.find(b"\r\n\r\n")
            if end >= 0:
                head, rest = text[: end + 4], text[end + 4 :]
                if head[9:10] != b"1" or head[9:12] == b"101":
                    return head, rest
                text = rest  # 100 and its kind: the caller did not ask for them to be passed on
                continue
            try:
                piece = await tunnel.read()
            except TunnelBroken as error:
                raise Refused(502, f"the application broke off: {error}") from None
            if not piece or len(text) > MAX_HEAD:
                raise Refused(502, "the application does not answer as a web server does")
            text += piece

    async def _join(self, tunnel: Tunnel) -> None:
        """From here on the bytes of both sides are passed on as they are."""

        async def inward() -> None:
            while data := await self._reader.read(PIECE):
                await tunnel.write(data)
            tunnel.end()

        async def outward() -> None:
            while data := await tunnel.read():
                self._writer.write(data)
                await self._writer.drain()

        tasks = [asyncio.create_task(inward()), asyncio.create_task(outward())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def split_target(target: str) -> tuple[str, str]:
    """`/proxy/a17/8888` and what follows; raises Refused."""
    path, mark, query = target.partition("?")
    words = path.split("/", 4)
    if len(words) < 4 or words[1] != "proxy" or not words[2].isalnum() or not words[3].isdigit():
        raise Refused(404, "nothing here; pages are below /proxy/ID/PORT/")
    rest = f"/{words[4]}" if len(words) > 4 else ""
    return f"/proxy/{words[2]}/{words[3]}", rest + mark + query


async def _answer(writer: asyncio.StreamWriter, status: int, text: str, *headers: str) -> None:
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
    with contextlib.suppress(OSError):
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        await writer.drain()


async def _redirect(writer: asyncio.StreamWriter, location: str, *headers: str) -> None:
    await _answer(writer, 303, "see there", f"Location: {location}", "Referrer-Policy: no-referrer", *headers)
