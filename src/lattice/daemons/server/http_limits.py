"""Limits of a listener per connection, per address and in total.

A head has limits for its size, its number of headers and its time; a body that stalls is aborted; connections are counted per address
and in total, so that descriptors are left for the log, the snapshots and the agents. At the limit, the connection that has been
sending its head for longest is closed: clients that hold half-sent requests open cannot lock others out.
"""

import asyncio
import resource
from dataclasses import dataclass

from lattice.api.rest.responses import HttpConnection
from lattice.config.sections.front import ConnectionLimits

SWEEP_S = 1.0
# Parts of the descriptors that are left to connections; together they are all of them.
REST_SHARE, LOCAL_SHARE, GRPC_SHARE, AGENT_SHARE = 0.25, 0.125, 0.125, 0.5
MAX_DESCRIPTORS = 1 << 20
# The whole body may take this many times its idle time-out.
_WHOLE_BODY = 10
_EXPECT_LENGTH = len("expect")
_STATUS = {
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Times in seconds, sizes in bytes."""

    head_bytes: int = 64 << 10
    headers: int = 100
    head_s: float = 10.0
    body_idle_s: float = 30.0
    connections: int = 16_384
    per_address: int = 4_096
    descriptors_kept: int = 256
    share: float = REST_SHARE

    @property
    def room(self) -> int:
        """The number of connections that the process's descriptors allow."""
        return min(self.connections, descriptors(self.share, self.descriptors_kept))


def descriptors(share: float, kept: int) -> int:
    """How many of this process's descriptors a listener may use, after `kept` of them."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        most = MAX_DESCRIPTORS
    return max(1, int((most - kept) * share))


def grpc_shares(*, has_agent_port: bool) -> tuple[float, float]:
    """Of the public gRPC port, and of the agents' own one: most of all is for agents, wherever they connect."""
    return (GRPC_SHARE, AGENT_SHARE) if has_agent_port else (GRPC_SHARE + AGENT_SHARE, 0.0)


def use_all_descriptors() -> None:
    """Raises the limit of this process as far as it may go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def http_limits(said: ConnectionLimits) -> HttpLimits:
    return HttpLimits(
        head_bytes=said.head_bytes,
        headers=said.headers,
        head_s=said.head_timeout,
        body_idle_s=said.body_idle_timeout,
        connections=said.connections,
        per_address=said.connections_per_address,
        descriptors_kept=said.descriptors_kept,
    )


class Gate:
    """The connections of one listener."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self._room = limits.room
        self._by_address: dict[str, int] = {}
        self._open: set[BoundedProtocol] = set()
        self._heads: dict[BoundedProtocol, None] = {}  # the oldest first
        self._sweeping: asyncio.TimerHandle | None = None

    def enter(self, connection: "BoundedProtocol") -> bool:
        """Whether the connection is admitted."""
        address = connection.address
        if address and self._by_address.get(address, 0) >= self.limits.per_address:
            return False
        if len(self._open) >= self._room:
            oldest = next(iter(self._heads), None)
            if oldest is None:
                return False
            oldest.drop()
        self._open.add(connection)
        self._by_address[address] = self._by_address.get(address, 0) + 1
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        return True

    def leave(self, connection: "BoundedProtocol") -> None:
        self._heads.pop(connection, None)
        if connection not in self._open:
            return
        self._open.discard(connection)
        left = self._by_address[connection.address] - 1
        if left:
            self._by_address[connection.address] = left
        else:
            del self._by_address[connection.address]

    def head_began(self, connection: "BoundedProtocol") -> None:
        self._heads[connection] = None

    def head_ended(self, connection: "BoundedProtocol") -> None:
        self._heads.pop(connection, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._open):
            connection.check_time(now)
        self._sweeping = loop.call_later(SWEEP_S, self._sweep) if self._open else None


class BoundedProtocol(HttpConnection):
    """One connection within the limits of `gate`."""

    gate: Gate
    address = ""
    _is_in_head = False
    _is_in_body = False
    _is_refused = False
    _is_small = False  # what is being parsed begins with a head and is too small to exceed its limits
    _head_bytes = 0
    _header_bytes = 0
    _framing_bytes = 0  # read since the last piece of a body: sizes and extensions of chunks, trailers
    _since = 0.0  # when the head, or the body, started
    _heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.gate.enter(self):
            self._heard = self.loop.time()
            self._begin_head()
        else:
            self._answer(503, "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gate.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._heard = self.loop.time()
        if self._early is not None:
            super().data_received(data)
            return
        size, limits = len(data), self.gate.limits
        if not self._is_in_head and not self._is_in_body:
            self._begin_head()
        is_first = self._is_in_head and not self._head_bytes
        self._is_small = is_first and 2 * size <= limits.head_bytes and data.count(b"\n") <= limits.headers
        self._framing_bytes += size
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += size
            if self._head_bytes > limits.head_bytes:
                self._refuse_head()
        elif self._is_in_body and self._framing_bytes > limits.head_bytes:
            self.drop()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_small and len(name) != _EXPECT_LENGTH:
            self.headers.append((name.lower(), value))
            return
        size = self._header_bytes = self._header_bytes + len(name) + len(value) + 4
        limits, headers = self.gate.limits, self.headers
        if self._is_refused or size + len(self.url) > limits.head_bytes or len(headers) >= limits.headers:
            self._refuse_head()
        elif len(name) == _EXPECT_LENGTH:
            super().on_header(name, value)
        else:
            headers.append((name.lower(), value))  # what uvicorn does with every header but Expect

    def on_headers_complete(self) -> None:
        self._end_head()
        self._is_in_body = True
        self._framing_bytes = 0
        if not self._is_refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if not self._is_refused:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """The connection continues as another protocol, and counts until that one ends."""
        self._is_in_head = self._is_in_body = False
        super().handle_websocket_upgrade()
        upgraded = self.transport.get_protocol()
        ended = upgraded.connection_lost

        def connection_lost(error: Exception | None) -> None:
            self.gate.leave(self)
            ended(error)

        upgraded.connection_lost = connection_lost  # type: ignore[assignment, method-assign] # nothing else tells its end

    def check_time(self, now: float) -> None:
        """Closes it when its head, or the next part of its body, is overdue."""
        limits = self.gate.limits
        if self._is_in_head:
            if now - self._since > limits.head_s:
                self._answer(408, "the request was not received in time")
        elif self._is_in_body and not self.flow.read_paused:
            is_still = now - self._heard > limits.body_idle_s
            if is_still or now - self._since > _WHOLE_BODY * limits.body_idle_s:
                self.drop()

    def drop(self) -> None:
        """Closes it without a response."""
        self._is_refused = True
        self.gate.leave(self)
        self.transport.abort()

    def _begin_head(self) -> None:
        self._is_in_head = True
        self._head_bytes = self._header_bytes = 0
        self._since = self._heard
        self.gate.head_began(self)

    def _end_head(self) -> None:
        self._is_in_head = False
        self._head_bytes = self._header_bytes = 0
        self._since = self._heard
        self.gate.head_ended(self)

    def _refuse_head(self) -> None:
        if not self._is_refused:
            limits = self.gate.limits
            self._answer(
                431, f"the request head is limited to {limits.head_bytes:,} bytes and {limits.headers} headers"
            )

    def _answer(self, status: int, message: str) -> None:
        self._is_refused = True
        self.gate.leave(self)
        body = f'{{"error":{{"code":"too_large","message":"{message}"}}}}'.encode()
        if status != 431:
            body = f'{{"error":{{"code":"unavailable","message":"{message}"}}}}'.encode()
        self.transport.write(
            _STATUS[status]
            + b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            + body
        )
        self.transport.close()


def bounded(base: type[BoundedProtocol], limits: HttpLimits) -> type[BoundedProtocol]:
    """The protocol class of one listener, whose connections share one count."""
    return type(base.__name__, (base,), {"gate": Gate(limits)})
