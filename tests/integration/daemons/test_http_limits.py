"""Connections that send too much, too slowly or are too many, against a listener as the servers have it."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from socket import create_server

import pytest
from starlette.types import Receive, Scope, Send

from lattice.api.auth.tokens import TokenVerifier
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.server import build_server
from lattice.api.rest.server import RestServer, server_settings
from lattice.daemons.server import http_limits
from lattice.daemons.server.http_limits import (
    LOCAL_SHARE,
    BoundedProtocol,
    HttpLimits,
    bounded,
    descriptors,
    grpc_shares,
)
from lattice.ports.clock import SystemClock
from lattice.testing import scenario

LATE_S = 20.0
HALF = b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: "


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), bool(message.get("more_body"))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def listener(limits: HttpLimits) -> AsyncIterator[int]:
    bound = create_server(("127.0.0.1", 0))
    server = RestServer(server_settings(application, bounded(BoundedProtocol, limits), patience_s=1))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.001)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await task


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int, data: bytes) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def rest_of(connection: Connection) -> bytes:
    """All that comes until the other side closes."""
    reader, writer = connection
    try:
        async with asyncio.timeout(LATE_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def answers(port: int) -> bool:
    found = await rest_of(await connect(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    return found.startswith(b"HTTP/1.1 200")


def with_listener(limits: HttpLimits) -> Callable[[Callable[[int], Awaitable[None]]], Callable[[], None]]:
    def decorate(test: Callable[[int], Awaitable[None]]) -> Callable[[], None]:
        async def scenario() -> None:
            async with listener(limits) as port:
                await test(port)

        def run() -> None:
            asyncio.run(scenario())

        return run

    return decorate


@pytest.fixture(autouse=True)
def _quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "SWEEP_S", 0.02)


@with_listener(HttpLimits())
async def test_a_head_without_end_is_refused(port: int) -> None:
    _, writer = await connect(port, b"GET / HTTP/1.1\r\n")
    sent = 0
    with suppress(ConnectionError):
        while sent < 64 << 20:
            writer.write(b"x-a: " + b"b" * 4000 + b"\r\n")
            await writer.drain()
            sent += 4007
    assert sent < 16 << 20
    assert await answers(port)


@with_listener(HttpLimits())
async def test_one_header_without_end_is_refused(port: int) -> None:
    found = await rest_of(await connect(port, HALF + b"a" * (70 << 10)))
    assert found == b"" or found.startswith(b"HTTP/1.1 431")
    assert await answers(port)


@pytest.mark.parametrize("start", [b"0\r\nx-late: ", b"5;name="], ids=["trailer", "chunk extension"])
def test_what_surrounds_the_chunks_of_a_body_has_an_end(start: bytes) -> None:
    @with_listener(HttpLimits())
    async def attack(port: int) -> None:
        _, writer = await connect(port, b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + start)
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 << 20:
                writer.write(b"b" * 4096)
                await writer.drain()
                sent += 4096
        assert sent < 16 << 20
        writer.close()
        assert await answers(port)

    attack()


@with_listener(HttpLimits())
async def test_a_body_in_many_small_chunks_is_read(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    found = await rest_of(await connect(port, head + b"1\r\nb\r\n" * 100_000 + b"0\r\n\r\n"))
    assert found.startswith(b"HTTP/1.1 200")


@with_listener(HttpLimits())
async def test_more_than_a_hundred_headers_are_refused(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    many = await rest_of(await connect(port, head + b"a: b\r\n" * 99 + b"\r\n"))
    assert many.startswith(b"HTTP/1.1 431")
    assert (await rest_of(await connect(port, head + b"a: b\r\n" * 98 + b"\r\n"))).startswith(b"HTTP/1.1 200")


@with_listener(HttpLimits(head_s=0.2))
async def test_half_a_head_is_given_up(port: int) -> None:
    assert (await rest_of(await connect(port, HALF))).startswith(b"HTTP/1.1 408")


@with_listener(HttpLimits(head_s=0.3))
async def test_a_head_that_drips_is_given_up(port: int) -> None:
    reader, writer = await connect(port, HALF)

    async def drip() -> None:
        while True:
            writer.write(b"a")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    try:
        assert (await rest_of((reader, writer))).startswith(b"HTTP/1.1 408")
    finally:
        dripping.cancel()


@with_listener(HttpLimits(head_s=0.2))
async def test_the_second_head_of_a_connection_has_its_time_too(port: int) -> None:
    reader, writer = await connect(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert await reader.readuntil(b"ok")
    writer.write(HALF)
    assert (await rest_of((reader, writer))).startswith(b"HTTP/1.1 408")


@with_listener(HttpLimits(body_idle_s=0.2))
async def test_a_body_at_a_standstill_is_given_up(port: int) -> None:
    started = await connect(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc")
    assert await rest_of(started) == b""


@with_listener(HttpLimits(per_address=3))
async def test_an_address_has_so_many_connections(port: int) -> None:
    held = [await connect(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(3)]
    for reader, _ in held:
        await reader.readuntil(b"ok")
    assert (await rest_of(await connect(port, b""))).startswith(b"HTTP/1.1 503")
    held[0][1].close()
    async with asyncio.timeout(LATE_S):
        while not await answers(port):  # noqa: ASYNC110 - the other side has to notice
            await asyncio.sleep(0.01)
    for _, writer in held:
        writer.close()


@with_listener(HttpLimits(connections=20))
async def test_half_sent_requests_keep_nobody_out(port: int) -> None:
    held = [await connect(port, HALF) for _ in range(100)]
    for _ in range(30):
        assert await answers(port)
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize("most", [300, 1024, 20_000, 1 << 20])
@pytest.mark.parametrize("has_agent_port", [True, False])
def test_descriptors_are_kept_back(monkeypatch: pytest.MonkeyPatch, most: int, has_agent_port: bool) -> None:
    """Whatever all listeners together accept leaves so many for the log and the snapshots."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (most, most))
    kept = HttpLimits().descriptors_kept
    shares = (LOCAL_SHARE, *grpc_shares(has_agent_port=has_agent_port))
    used = HttpLimits().room + sum(descriptors(share, kept) for share in shares if share)
    assert 4 <= used <= most - kept


def test_without_any_to_spare_there_is_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (100, 100))
    assert HttpLimits().room == 1


@scenario
async def test_grpc_has_so_many_connections() -> None:
    verifier = TokenVerifier(b"0" * 32, SystemClock())
    server, port = build_server(AgentService(verifier), "127.0.0.1:0", connections=3)
    await server.start()
    held = [await connect(port, b"") for _ in range(5)]
    greetings = [await reader.read(1) for reader, _ in held]
    assert sorted(greetings) == [b"", b"", *[b"\0"] * 3]
    for _, writer in held:
        writer.close()
    await server.stop(0)
