"""A follower's entrance: hands on once, to whoever leads, under one request id; answers itself what needs no leader."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lattice.api.rest import forwarding
from lattice.api.rest.exchange import Pool
from lattice.api.rest.forwarding import Forwarding
from lattice.api.rest.lines import UPGRADE
from lattice.api.rest.peers import PEER
from lattice.ports.site.identity import Unauthenticated

Answer = Callable[["Seen"], bytes]


class Seen:
    """A request as it arrived at a server."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = dict(line.split(": ", 1) for line in lines if line)
        self.body = body


class OtherServer:
    """Speaks just enough HTTP to be taken for a leader."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.seen: list[Seen] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                seen = Seen(head.removesuffix(b"\r\n\r\n"), await reader.readexactly(length))
                self.seen.append(seen)
                reply = self._answer(seen)
                if not reply:
                    break
                writer.write(reply)
                await writer.drain()
                if b"connection: close" in reply:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def says(text: str, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "content-type: text/plain", f"content-length: {len(text)}", *headers, "", text]
    return "\r\n".join(lines).encode()


@asynccontextmanager
async def other_server(answer: Answer) -> AsyncIterator[OtherServer]:
    server = OtherServer(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()


class Leading:
    """Implements `Leader`."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.app: ASGIApp | None = None
        self._moved: asyncio.Future[None] | None = None

    def moved(self) -> "asyncio.Future[None]":
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def change(self, url: str = "", app: ASGIApp | None = None) -> None:
        self.url, self.app = url, app
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)


async def local(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.body", "body": b"here " + body})


async def ask(
    app: ASGIApp, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes], peer: str = ""
) -> tuple[int, dict[bytes, bytes], bytes]:
    """One request; status, headers and body of its answer."""
    path, _, query = path.partition("?")
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    answer: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        answer.append(message)

    asked = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": list(headers)}
    await app({**asked, PEER: peer} if peer else asked, receive, send)
    content = b"".join(message.get("body", b"") for message in answer[1:])
    return answer[0]["status"], dict(answer[0]["headers"]), content


_pools: list[Pool] = []


def follower(leading: Leading) -> Forwarding:
    _pools.append(Pool())
    return Forwarding(local, leading, _pools[-1])


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        try:
            await asyncio.wait_for(scenario, 20)
        finally:
            while _pools:
                _pools.pop().close()
            await asyncio.sleep(0)

    asyncio.run(whole())


def test_a_request_reaches_the_leader_as_it_is_with_a_request_id() -> None:
    async def scenario() -> None:
        async with other_server(lambda seen: says("done", "201 Created", "x-more: 1")) as leader:
            app = follower(Leading(leader.url))
            mine = ((b"authorization", b"Bearer T"), (b"connection", b"keep-alive"), (b"host", b"me"))
            status, headers, body = await ask(app, "POST", "/api/v1/allocations?dry_run=true", b'{"a": 1}', *mine)
            assert (status, body, headers[b"x-more"]) == (201, b"done", b"1")
            seen = leader.seen[0]
            assert (seen.method, seen.target, seen.body) == ("POST", "/api/v1/allocations?dry_run=true", b'{"a": 1}')
            assert seen.headers["authorization"] == "Bearer T"
            assert "connection" not in seen.headers
            assert seen.headers["host"] == "lattice"
            assert len(seen.headers["x-request-id"]) >= 16
            await ask(app, "POST", "/v1/allocations", b"{}", (b"x-request-id", b"of the client"))
            assert leader.seen[1].headers["x-request-id"] == "of the client"
            assert leader.connections == 1

    run(scenario())


def test_a_bad_token_is_refused_before_the_body_is_read() -> None:
    async def refuse(authorization: str, source: str) -> None:
        raise Unauthenticated("no")

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def scenario() -> None:
        async with other_server(lambda seen: says("done")) as leader:
            _pools.append(Pool())
            app = Forwarding(local, Leading(leader.url), _pools[-1], refuse)
            sent: list[Any] = []

            async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
                sent.append(message)

            scope = {"type": "http", "method": "POST", "path": "/v1/allocations", "query_string": b"", "headers": []}
            await app(scope, receive, send)
            assert (sent[0]["status"], leader.seen) == (401, [])

    run(scenario())


def test_what_needs_no_leader_is_answered_here() -> None:
    async def scenario() -> None:
        app = follower(Leading())
        for path in ("/healthz", "/metrics", "/api/v1/raft/status", "/v1/nodes?consistency=stale"):
            assert await ask(app, "GET", path) == (200, {}, b"here ")

    run(scenario())


def test_what_another_server_handed_on_is_not_handed_on_again() -> None:
    async def scenario() -> None:
        async with other_server(lambda seen: says("done")) as leader:
            app = follower(Leading(leader.url))
            status, headers, _ = await ask(app, "GET", "/v1/nodes", peer="s2")
            assert (status, headers[b"x-lattice-not-leading"]) == (503, b"1")
            assert leader.seen == []

    run(scenario())


def test_a_leader_that_is_lost_is_followed_by_the_next_with_the_same_request() -> None:
    async def scenario() -> None:
        leading = Leading()
        async with other_server(lambda seen: says("done")) as second:

            def breaks_off(seen: Seen) -> bytes:
                asyncio.get_running_loop().call_soon(leading.change, second.url)
                return b""

            async with other_server(breaks_off) as first:
                leading.change(first.url)
                app = follower(leading)
                assert (await ask(app, "POST", "/v1/allocations", b"{}"))[::2] == (200, b"done")
                assert first.seen[0].headers["x-request-id"] == second.seen[0].headers["x-request-id"]

    run(scenario())


def test_a_server_that_does_not_lead_any_more_is_not_believed() -> None:
    async def scenario() -> None:
        leading = Leading()

        def resigned(seen: Seen) -> bytes:
            asyncio.get_running_loop().call_soon(leading.change, "", local)
            return says("{}", "503 Service Unavailable", "x-lattice-not-leading: 1")

        async with other_server(resigned) as first:
            leading.change(first.url)
            app = follower(leading)
            # It was elected itself meanwhile, and answers from the body that it had read.
            assert await ask(app, "POST", "/v1/allocations", b"body") == (200, {}, b"here body")

    run(scenario())


def test_a_connection_that_was_closed_in_between_costs_nothing() -> None:
    async def scenario() -> None:
        async with other_server(lambda seen: says("done", "200 OK", "connection: close")) as leader:
            app = follower(Leading(leader.url))
            for _ in range(3):
                assert (await ask(app, "GET", "/v1/nodes"))[::2] == (200, b"done")
            assert leader.connections == 3

    run(scenario())


def test_without_a_leader_it_gives_up_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "GIVE_UP_S", 0.1)

    async def scenario() -> None:
        app = follower(Leading())
        status, headers, body = await ask(app, "POST", "/v1/allocations", b"{}")
        assert (status, headers[b"retry-after"]) == (503, b"1")
        error = json.loads(body)["error"]
        assert "majority" in error["message"]
        assert "consistency=stale" in error["hint"]

    run(scenario())


def test_nobody_waits_for_a_leader_at_a_server_that_stops() -> None:
    async def scenario() -> None:
        leading = Leading()
        app = follower(leading)
        waiting = asyncio.create_task(ask(app, "GET", "/v1/nodes"))
        await asyncio.sleep(0)
        app.close()
        leading.change()
        status, _, body = await waiting
        assert (status, b"stopping" in body) == (503, True)

    run(scenario())


def test_a_stream_of_a_leader_that_stands_still_breaks_off_when_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none \r\n"
    monkeypatch.setattr(forwarding, "PARTING_S", 0.05)

    async def scenario() -> None:
        asked = asyncio.Event()

        def begin(_: Seen) -> bytes:
            asked.set()
            return begun

        async with other_server(begin) as still, other_server(lambda _: says("next")) as following:
            leading = Leading(still.url)
            streaming = asyncio.create_task(ask(follower(leading), "GET", "/v1/events"))
            await asked.wait()
            # No news of another leader: it may go on for as long as it likes.
            leading.change(still.url)
            await asyncio.sleep(0.2)
            assert not streaming.done()
            leading.change(following.url)
            status, _, content = await streaming
            assert (status, content) == (200, b"one ")
            assert following.seen == []

    run(scenario())


def test_where_a_majority_is_known_to_be_missing_a_request_is_refused_at_once() -> None:
    async def scenario() -> None:
        _pools.append(Pool())
        app = Forwarding(local, Leading(""), _pools[-1], outage=lambda: "no majority")
        began = time.monotonic()
        status, _, body = await ask(app, "GET", "/v1/nodes")
        assert (status, b"no server leads now" in body) == (503, True)
        assert time.monotonic() - began < 2

    run(scenario())


class Client:
    """The connection of a client, as `Line` has it."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard = b""
        self.is_closed = False

    async def read(self) -> bytes:
        return await self.sent.get()

    async def write(self, *pieces: bytes) -> None:
        self.heard += b"".join(pieces)
        if self.heard.endswith(b"end"):
            self.sent.put_nowait(b"")

    def close(self) -> None:
        self.is_closed = True


async def ask_for_tunnel(app: ASGIApp, client: Client) -> list[Message]:
    answer: list[Message] = []

    async def send(message: Message) -> None:
        answer.append(message)

    path = "/v1/allocations/a1/ports/80/connect"
    asked: Scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await app({**asked, UPGRADE: lambda: client}, _nothing, send)
    return answer


async def _nothing() -> Message:
    raise AssertionError


def test_a_tunnel_is_handed_to_the_leader_and_carried_as_it_is() -> None:
    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"connection: upgrade\r\nupgrade: lattice-tunnel" in head
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\nearly ")
            writer.write(await reader.readexactly(3) + b" end")
            await writer.drain()
            await reader.read()
            writer.close()

        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = Client()
        client.sent.put_nowait(b"abc")
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        assert await ask_for_tunnel(follower(Leading(url)), client) == []
        assert (client.heard, client.is_closed) == (b"early abc end", True)
        listener.close()

    run(scenario())


def test_a_tunnel_that_the_leader_refuses_is_refused_in_its_words() -> None:
    async def scenario() -> None:
        async with other_server(
            lambda _: says("no", "403 Forbidden", "x-request-id: 7", "connection: close")
        ) as leader:
            answer = await ask_for_tunnel(follower(Leading(leader.url)), Client())
        assert (answer[0]["status"], answer[1]["body"]) == (403, b"no")
        assert dict(answer[0]["headers"])[b"x-request-id"] == b"7"

    run(scenario())


def test_a_tunnel_waits_for_the_next_leader() -> None:
    async def scenario() -> None:
        def refuse(_: Seen) -> bytes:
            leading.change(second.url)
            return says("not me", "503 Service Unavailable", "x-lattice-not-leading: 1", "connection: close")

        leading = Leading()
        async with (
            other_server(lambda _: says("here", "409 Conflict", "connection: close")) as second,
            other_server(refuse) as first,
        ):
            leading.url = first.url
            answer = await ask_for_tunnel(follower(leading), Client())
        assert (answer[0]["status"], answer[1]["body"]) == (409, b"here")

    run(scenario())
