"""One request and its answer: from a connection of a caller over a connection to the work, and back."""

import asyncio
import contextlib
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from lattice.api.gateway.bodies import BodyReader
from lattice.api.gateway.heads import (
    MAX_HEAD,
    MAX_REPEATED,
    REPEATED,
    BadHead,
    Body,
    Caller,
    RequestHead,
    read_answer,
    upstream_request,
)
from lattice.api.gateway.tickets import Grant
from lattice.api.gateway.work import Link, Refused, Work
from lattice.api.streams.pumping import until_either_ends
from lattice.ports.nodes.tunnels import Tunnel, TunnelBroken

BODY_WITHIN_S = 30.0
PIECE = 1 << 16
MAX_TRIES = 3
# What may be asked twice when the first answer never came (RFC 9110, 9.2.2).
REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Unanswered(Exception):
    """The work broke off before the first byte of an answer."""


class Asked(NamedTuple):
    """A request that may be passed on. `start` is the first part of its body, of which `body` tells the end."""

    head: RequestHead
    grant: Grant
    target: str
    body: Body
    start: bytes
    is_whole: bool
    drops_authorization: bool


class Writer(Protocol):
    """What the gateway needs of a connection, be it of its own listener or carried by another server."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    def get_extra_info(self, name: str) -> Any: ...  # noqa: ANN401 - as asyncio says it


class _Sent(NamedTuple):
    """A head that the work got, and what it was made of."""

    head: RequestHead
    target: str
    caller: Caller
    drops_authorization: bool
    text: bytes


class Exchange:
    """The requests of one connection, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: Writer, scheme: str) -> None:
        self._reader = reader
        self._writer = writer
        self._scheme = scheme
        peer = writer.get_extra_info("peername") or ("",)
        self._address = str(peer[0])
        self._sent: _Sent | None = None
        self._read_again = lru_cache(REPEATED)(read_answer)

    async def run(
        self, work: Work, head: RequestHead, grant: Grant, rest: str, body: Body, *, drops_authorization: bool = False
    ) -> bool:
        """Whether another request may follow. Raises Refused when nothing was answered."""
        start = await self._first_part(head, body)
        is_whole = not body.is_chunked and len(start) == body.length
        target = head.target if grant.keeps_path else rest
        asked = Asked(head, grant, target, body, start, is_whole, drops_authorization)
        is_safe = head.method in REPEATABLE and is_whole and not head.is_upgrade
        for attempt in range(1, MAX_TRIES + 1):
            link = await work.connect(grant, is_safe=is_safe, is_again=attempt > 1)
            is_good = False
            try:
                is_good, is_kept = await self._pass_on(link, asked)
                return is_kept
            except _Unanswered as error:
                link.failed()
                if not is_safe or attempt == MAX_TRIES:
                    raise Refused(502, f"the application broke off: {error}") from None
            finally:
                link.done(is_good=is_good)
        raise AssertionError("unreachable")

    async def _first_part(self, head: RequestHead, body: Body) -> bytes:
        """A small body is read before the work is asked, so that it waits for no slow caller."""
        if (body.length or body.is_chunked) and head.one("expect").lower() == "100-continue":
            self._writer.write(_CONTINUE)
        if not body.length or body.length > PIECE or head.is_upgrade:
            return b""
        async with asyncio.timeout(BODY_WITHIN_S):
            return await self._reader.readexactly(body.length)

    async def _pass_on(self, link: Link, asked: Asked) -> tuple[bool, bool]:
        """Whether the work's connection is good for another request, and whether the caller's is."""
        head, tunnel = asked.head, link.tunnel
        shown = self._upstream(asked)
        try:
            await tunnel.write(shown + asked.start if asked.start else shown)
        except TunnelBroken as error:
            raise _Unanswered(str(error)) from None
        if asked.is_whole or head.is_upgrade:
            return await self._answer(tunnel, asked)
        sending = asyncio.create_task(self._send_body(tunnel, asked.body))
        try:
            is_good, is_kept = await self._answer(tunnel, asked)
            # A request whose body was not read to its end is not followed by another one, on either side.
            is_sent = sending.done() and not sending.cancelled() and sending.exception() is None
            return is_good and is_sent, is_kept and is_sent
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def _upstream(self, asked: Asked) -> bytes:
        """The head that the work gets; the one that it got last where nothing has changed."""
        caller = Caller(asked.grant.user, self._address, self._scheme, asked.grant.prefix)
        sent, drops = self._sent, asked.drops_authorization
        # A head that was said again is the same object.
        if sent is None or sent.head is not asked.head or sent[1:4] != (asked.target, caller, drops):
            text = upstream_request(asked.head, asked.target, caller, drops_authorization=drops)
            sent = self._sent = _Sent(asked.head, asked.target, caller, drops, text)
        return sent.text

    async def _send_body(self, tunnel: Tunnel, body: Body) -> None:
        reading = BodyReader(body)
        while not reading.is_over:
            data = await self._reader.read(PIECE)
            taken = reading.take(data)
            if not data or taken < len(data):
                raise TunnelBroken("more than the request, or less")
            await tunnel.write(data)

    async def _answer(self, tunnel: Tunnel, asked: Asked) -> tuple[bool, bool]:
        """Passes the answer on; whether the work's connection is good for another request, and whether the caller's is.

        The caller's is whenever its head says so: a caller that was promised more sends the next request at once.
        """
        text, rest = await _response_head(tunnel)
        read = self._read_again if len(text) <= MAX_REPEATED else read_answer
        head, grant = asked.head, asked.grant
        try:
            answer = read(text, head.method, head.is_kept, "" if grant.keeps_path else grant.prefix)
        except BadHead as error:
            raise Refused(502, f"the application does not speak HTTP: {error}") from None
        shown, is_kept = answer.shown, answer.is_kept
        if answer.head.status == 101 and head.is_upgrade:
            self._writer.write(shown + rest)
            await self._join(tunnel)
            return False, False
        reading = BodyReader(answer.body)
        taken = reading.take(rest)
        self._writer.write(shown + (rest if taken == len(rest) else rest[:taken]))
        while not reading.is_over:
            await self._writer.drain()
            rest = await tunnel.read()
            if not rest:
                # The end of the connection is the end of such a body, and of the caller's connection.
                return False, False
            taken = reading.take(rest)
            self._writer.write(rest if taken == len(rest) else rest[:taken])
        await self._writer.drain()
        return answer.head.is_kept and taken == len(rest), is_kept

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

        await until_either_ends(inward(), outward())


async def _response_head(tunnel: Tunnel) -> tuple[bytes, bytes]:
    """The head of the final answer, and what came behind it; interim ones are not passed on."""
    text = b""
    while True:
        end = text.find(b"\r\n\r\n")
        if end >= 0:
            head, rest = text[: end + 4], text[end + 4 :]
            if head[9:10] != b"1" or head[9:12] == b"101":
                return head, rest
            text = rest
            continue
        piece = b""
        broken = "it closed the connection"
        try:
            piece = await tunnel.read()
        except TunnelBroken as error:
            broken = str(error)
        if not piece and not text:
            raise _Unanswered(broken)
        if not piece or len(text) > MAX_HEAD:
            raise Refused(502, "the application does not answer as a web server does")
        text += piece


async def drained(writer: Writer, data: bytes) -> None:
    with contextlib.suppress(OSError):
        writer.write(data)
        await writer.drain()
