"""The API over a real socket: uvicorn, kept connections, streams, callers who hang up or send nonsense."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import msgspec
import uvicorn

from tests.integration.api.world import World, in_world, soon


class QuietServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(world: World) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(world.app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    server = QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await soon(lambda: server.started)
    try:
        yield listener.getsockname()[1]
    finally:
        world.services.feed.close()
        server.should_exit = True
        async with asyncio.timeout(10):
            await task
        listener.close()


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self.reader, self.writer, self.token = reader, writer, token

    def send(self, method: str, path: str, body: bytes = b"", *, more: str = "") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n{more}\r\n".encode() + body)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join([chunk async for chunk in self.chunks()])
        return status, headers, await self.reader.readexactly(int(headers["content-length"]))

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(10):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, _, value in pairs}

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def dial(world: World, port: int) -> Caller:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return Caller(reader, writer, world.alice)


@in_world
async def test_kept_connection_serves_one_request_after_the_other(world: World) -> None:
    async with serving(world) as port:
        caller = await dial(world, port)
        for number in range(1, 4):
            caller.send("POST", "/v1/allocations", b'{"entrypoint": ["true"]}')
            status, headers, body = await caller.answer()
            assert (status, msgspec.json.decode(body)["number"]) == (201, number)
            assert headers["content-type"] == "application/json"
        caller.send("GET", "/v1/allocations/a9")
        assert (await caller.answer())[0] == 404
        caller.send("GET", "/v1/allocations/a1")
        assert (await caller.answer())[0] == 200
        await caller.close()


@in_world
async def test_output_comes_in_chunks_and_the_connection_lives_on(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"x" * 300_000)
    async with serving(world) as port:
        caller = await dial(world, port)
        caller.send("GET", "/v1/allocations/a1/logs")
        status, _, body = await caller.answer()
        assert (status, len(body)) == (200, 300_000)
        caller.send("GET", "/v1/whoami")
        assert (await caller.answer())[0] == 200
        await caller.close()


@in_world
async def test_events_arrive_one_by_one_and_hanging_up_ends_the_stream(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    async with serving(world) as port:
        before = len(asyncio.all_tasks())
        caller = await dial(world, port)
        caller.send("GET", "/v1/allocations/a1/logs/stream")
        status, headers = await caller.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        chunks = caller.chunks()
        assert await anext(chunks) == b": stream\n\n"
        world.links.write("n1", 1, 1, "stdout", b"hello\n")
        event = await anext(chunks)
        assert b'"data":"hello\\n"' in event
        await caller.close()
        await soon(lambda: len(asyncio.all_tasks()) <= before)


@in_world
async def test_too_large_a_body_gets_its_answer(world: World) -> None:
    async with serving(world) as port:
        caller = await dial(world, port)
        caller.send("POST", "/v1/allocations", b"x" * (6 << 20))
        status, headers, _ = await caller.answer()
        assert (status, headers["connection"]) == (413, "close")
        await caller.close()


@in_world
async def test_nonsense_harms_nobody(world: World) -> None:
    async with serving(world) as port:
        for nonsense in (b"\x00\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"POST /v1/allocations HTTP/1.1\r\nHost: x\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(nonsense)
            writer.write_eof()
            async with asyncio.timeout(10):
                await reader.read()
            writer.close()
        caller = await dial(world, port)
        caller.send("GET", "/v1/whoami")
        assert (await caller.answer())[0] == 200
        await caller.close()


@in_world
async def test_caller_who_leaves_in_the_middle_of_a_body_changes_nothing(world: World) -> None:
    async with serving(world) as port:
        caller = await dial(world, port)
        head = f"POST /v1/allocations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice}\r\n"
        caller.writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        await caller.writer.drain()
        await caller.close()
        other = await dial(world, port)
        other.send("GET", "/v1/allocations/count")
        assert msgspec.json.decode((await other.answer())[2])["total"] == 0
        await other.close()


@in_world
async def test_stopping_server_lets_go_of_streams_and_waits(world: World) -> None:
    await world.submit()
    async with serving(world) as port:
        streaming, waiting = await dial(world, port), await dial(world, port)
        streaming.send("GET", "/v1/events")
        await streaming.head()
        waiting.send("GET", "/v1/allocations/a1/wait?timeout=60")
        await soon(lambda: 1 in world.services.feed._waiters)
    status, _, body = await waiting.answer()
    assert (status, msgspec.json.decode(body)["state"]) == (200, "Pending")
    assert b": stream" in b"".join([chunk async for chunk in streaming.chunks()])
    await streaming.close()
    await waiting.close()
