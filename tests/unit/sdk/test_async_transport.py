"""The bytes on the wire of the asynchronous client, both ways."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from ssl import create_default_context

import pytest

from lattice_sdk.asynchronous.transport import BEHIND, AsyncAnswer, AsyncPool
from lattice_sdk.transport import Endpoint, ProtocolError

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"GET / HTTP/1.1\r\n\r\n"


def says(*pieces: bytes) -> Talk:
    """A server that answers each request with these bytes, a piece at a time, and keeps the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return talk


def says_and_leaves(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(answer)

    return talk


async def asked(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.IncompleteReadError:
        return False


def against(talk: Talk, use: Callable[[AsyncPool], Awaitable[None]]) -> int:
    """Uses a pool of connections to such a server; returns how many it took."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            endpoint = Endpoint("http", "127.0.0.1", server.sockets[0].getsockname()[1])
            pool = AsyncPool(endpoint, create_default_context)
            async with asyncio.timeout(30):
                await use(pool)
            pool.close()

    asyncio.run(run())
    return connections


async def ask(pool: AsyncPool, timeout_s: float = 20.0) -> AsyncAnswer:
    return await pool.ask(HEAD, b"", timeout_s)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",),
        (b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 5\r\n\r\nhe", b"llo"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=1\r\nllo\r\n0\r\nX: y\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r", b"\nhe\r\n", b"3\r\nl", b"lo\r\n0\r\n", b"\r\n"),
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",),
    ],
)
def test_an_answer_is_read_however_it_comes_and_its_connection_is_used_again(pieces: tuple[bytes, ...]) -> None:
    async def use(pool: AsyncPool) -> None:
        for _ in range(3):
            answer = await ask(pool)
            assert answer.status == 200
            assert await answer.read() == b"hello"

    assert against(says(*pieces), use) == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_a_connection_that_ends_with_its_answer_is_not_used_again(answer: bytes, body: bytes) -> None:
    async def use(pool: AsyncPool) -> None:
        for _ in range(2):
            assert await (await ask(pool)).read() == body

    assert against(says_and_leaves(answer), use) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 smtp\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
)
def test_what_is_no_whole_answer_is_an_error(answer: bytes) -> None:
    async def use(pool: AsyncPool) -> None:
        with pytest.raises((ProtocolError, ConnectionError)):
            await (await ask(pool)).read()

    against(says_and_leaves(answer), use)


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_without_a_word() -> None:
    heard = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await asked(reader)  # and closes it without an answer
        heard.set()

    async def use(pool: AsyncPool) -> None:
        assert await (await ask(pool)).read() == b"ok"
        assert await (await ask(pool)).read() == b"ok"
        assert heard.is_set()

    assert against(talk, use) == 2


def test_silence_ends_with_the_time_allowed_and_its_connection_is_closed() -> None:
    closed = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        if not await reader.read(1):
            closed.set()

    async def use(pool: AsyncPool) -> None:
        with pytest.raises(TimeoutError):
            await ask(pool, 0.05)
        await closed.wait()

    against(talk, use)


def test_a_task_that_is_cancelled_leaves_its_place_to_others() -> None:
    reached = asyncio.Semaphore(0)

    async def use(pool: AsyncPool) -> None:
        pool.room = asyncio.Semaphore(1)
        for _ in range(2):
            task = asyncio.create_task(ask(pool))
            await reached.acquire()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        reached.release()
        await asked(reader)  # until the client closes

    assert against(silent, use) == 2


def test_a_body_that_is_not_read_is_not_taken_into_memory() -> None:
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async def use(pool: AsyncPool) -> None:
        answer = await ask(pool)
        before = -1
        while before != sent:  # until the server waits
            before = sent
            await asyncio.sleep(0.2)
        assert answer.unread <= 2 * BEHIND
        pieces = answer.chunks()
        taken = 0
        while taken <= before:  # what waited, and more: reading goes on
            taken += len(await anext(pieces))
        answer.close()

    against(talk, use)
    assert sent < 1 << 29


def test_a_socket_in_the_file_system_is_a_server_like_others(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(reader, writer)
        writer.close()

    async def run() -> bytes:
        async with await asyncio.start_unix_server(talk, tmp_path / "s"):
            pool = AsyncPool(Endpoint("unix", str(tmp_path / "s"), 0), create_default_context)
            data = await (await ask(pool)).read()
            pool.close()
            await asyncio.sleep(0.05)  # the server's side ends, too
            return data

    assert asyncio.run(run()) == b"ok"


def test_a_port_without_a_listener_is_told_in_the_words_of_the_system() -> None:
    async def run() -> None:
        pool = AsyncPool(Endpoint("http", "127.0.0.1", 9), create_default_context)
        with pytest.raises(ConnectionRefusedError, match="Connection refused"):
            await ask(pool)

    asyncio.run(run())
