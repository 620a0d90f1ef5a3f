"""Terminals over WebSocket against a REST side that is made up: origins, tokens, messages, and streams that break off."""

import asyncio
import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from starlette.types import Message, Receive, Scope, Send

from lattice.api.errors import ApiError, ErrorAnswer
from lattice.api.sockets.messages import BadMessage, Resize, Signal, read_message, signal_named
from lattice.api.sockets.websocket import Sockets, authorization_of, read_start
from lattice.wire.agents.journals import RECORD

STEP = {"id": "a1.0", "allocation": "a1", "step": 0, "is_terminal": True}


def output(text: bytes, next_: int) -> bytes:
    record = RECORD.pack(1, 0, len(text)) + text
    return msgspec.json.encode({"node": 0, "next": next_, "data": record})


class Rest:
    """Answers as the REST side would; `streams` are the events of each connection to the output, one after the other."""

    def __init__(self, streams: list[bytes], refusal: ApiError | None = None) -> None:
        self.streams = streams
        self.refusal = refusal
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []
        self.taken = 0
        self.typed = b""  # each byte once, as a node takes them
        self.failures = 0  # of the next requests for input

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body: Any = None
        if scope["method"] == "POST":
            body = msgspec.json.decode((await receive())["body"])
        self.asked.append((scope["method"], scope["path"], body, headers))
        status, answer = 200, msgspec.json.encode(STEP)
        if self.refusal is not None:
            status, answer = self.refusal.status, msgspec.json.encode(ErrorAnswer(self.refusal.view))
        elif scope["path"].endswith("/stream"):
            await self._stream(receive, send)
            return
        elif scope["path"].endswith("/input"):
            if self.failures:
                self.failures -= 1
                status, answer = 503, b"{}"
            else:
                data = base64.b64decode(body["data"])
                fresh = data[max(0, self.taken - body["offset"]) :]
                self.typed += fresh
                self.taken = max(self.taken, body["offset"] + len(data))
                answer = msgspec.json.encode({"upto": self.taken})
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        events = self.streams.pop(0) if self.streams else b""
        half = len(events) // 2  # the pieces of a stream end anywhere
        for piece in (b": stream\n\n" + events[:half], events[half:]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self.streams and b"result" not in events:
            await receive()

    def named(self, end: str) -> list[tuple[str, str, Any, dict[str, str]]]:
        return [each for each in self.asked if each[1].endswith(end)]


class Client:
    """Sends messages when told, keeps what comes back."""

    def __init__(
        self, rest: Rest, path: str = "/api/v1/allocations/a1/attach", query: bytes = b"", **headers: str
    ) -> None:
        self.sent: list[Message] = []
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._news = asyncio.Event()
        self._messages.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query,
            "client": ("10.0.0.9", 5),
            "headers": [(b"host", b"api.example:80")]
            + [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }
        app = Sockets(rest, ["https://portal.example/"])
        self.task = asyncio.create_task(app(scope, self._messages.get, self._take))

    async def _take(self, message: Message) -> None:
        self.sent.append(message)
        self._news.set()

    def say(self, what: str | bytes) -> None:
        key = "text" if isinstance(what, str) else "bytes"
        self._messages.put_nowait({"type": "websocket.receive", key: what})

    def leave(self) -> None:
        self._messages.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def until(self, is_there: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not is_there():
                self._news.clear()
                await asyncio.wait((asyncio.create_task(self._news.wait()),), timeout=0.01)

    async def over(self) -> None:
        async with asyncio.timeout(10):
            await self.task

    @property
    def texts(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(each["text"]) for each in self.sent if "text" in each]

    @property
    def shown(self) -> bytes:
        return b"".join(each["bytes"] for each in self.sent if "bytes" in each)

    def has_heard(self, upto: int) -> bool:
        """That so much was taken."""
        return {"type": "taken", "upto": upto} in self.texts

    @property
    def closed(self) -> tuple[int, str]:
        last = self.sent[-1]
        return last["code"], last["reason"]


def event(name: str, data: bytes) -> bytes:
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


RESULT = event("result", b'{"exit_code":4}')


def test_output_that_breaks_off_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        rest = Rest([event("", output(b"one ", 13)), event("", output(b"two", 25)) + RESULT])
        client = Client(rest, authorization="Bearer t")
        await client.over()
        assert client.shown == b"one two"
        assert [each["type"] for each in client.texts] == ["opened", "position", "position", "exit"]
        assert [headers.get("last-event-id") for _, _, _, headers in rest.named("/stream")] == [None, "0:13"]
        assert client.closed == (1000, "exited with code 4")
        assert {headers["authorization"] for _, _, _, headers in rest.asked} == {"Bearer t"}

    asyncio.run(scenario())


def test_input_has_offsets_and_is_sent_again_while_nobody_answers() -> None:
    async def scenario() -> None:
        rest = Rest([b""])
        rest.failures = 2
        client = Client(rest, query=b"client=me&offset=5&terminal=0&after=7")
        client.say(b"abc")
        client.say('{"type":"resize","rows":3,"columns":4}')
        client.say('{"type":"signal","signal":"SIGINT"}')
        client.say('{"type":"keepalive"}')
        await client.until(lambda: rest.taken and rest.named("/signal"))
        await client.until(lambda: client.texts[-1]["type"] == "taken")
        assert client.texts[-1]["upto"] == 8
        assert [body["offset"] for _, _, body, _ in rest.named("/input")] == [5, 5, 5]
        assert rest.named("/window")[0][2] == {"client": "me", "rows": 3, "columns": 4}
        assert rest.named("/signal")[0][2] == {"signal": 2}
        assert rest.named("/stream")[0][3]["last-event-id"] == "0:7"
        client.leave()
        await client.over()

    asyncio.run(scenario())


def test_what_was_taken_before_the_client_came_back_is_taken_once_however_slowly_it_is_repeated() -> None:
    async def scenario() -> None:
        rest = Rest([b""])
        rest.taken = 13  # of which the client heard 5
        client = Client(rest, query=b"client=me&offset=5&terminal=0&after=7")
        for piece, upto in ((b"abc", 8), (b"defgh", 13), (b"new", 16)):
            client.say(piece)
            await client.until(partial(client.has_heard, upto))
        assert rest.typed == b"new"
        client.leave()
        await client.over()

    asyncio.run(scenario())


def test_a_newcomer_sees_the_screen_and_notices() -> None:
    async def scenario() -> None:
        screen = msgspec.json.encode({"node": 0, "next": 9, "data": b"drawn", "rows": 2, "columns": 3})
        rest = Rest([event("screen", screen) + event("notice", b'{"text":"5 minutes"}') + RESULT])
        client = Client(rest, path="/v1/sessions/a1/terminal")
        await client.over()
        assert client.shown == b"drawn"
        assert client.texts[1] == {"type": "screen", "rows": 2, "columns": 3, "next": 9}
        assert client.texts[2] == {"type": "notice", "text": "5 minutes"}
        assert rest.asked[0][:2] == ("POST", "/v1/sessions/a1/terminal")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        (event("error", b'{"code":"unauthenticated","message":"the token has expired"}'), 4401, "expired"),
        (event("error", b'{"code":"forbidden","message":"not shared any more"}'), 4403, "shared"),
    ],
)
def test_a_caller_who_may_no_longer_have_it_hears_why(stream: bytes, code: int, words: str) -> None:
    async def scenario() -> None:
        client = Client(Rest([stream]))
        await client.over()
        assert (client.closed[0], words in client.closed[1], client.texts[-1]["type"]) == (code, True, "error")

    asyncio.run(scenario())


def test_refusals_and_bad_messages_close_with_a_reason() -> None:
    async def scenario() -> None:
        refused = Client(Rest([], ApiError("conflict", "a1 is not running", hint="wait")))
        await refused.over()
        assert refused.closed == (4409, "a1 is not running")
        assert refused.texts == [
            {"type": "error", "status": 409, "code": "conflict", "message": "a1 is not running", "hint": "wait"}
        ]
        lost = Client(Rest([]), path="/v1/sessions/a1/terminal", query=b"terminal=3")
        await lost.over()
        assert (lost.closed[0], "one shell" in lost.closed[1]) == (4400, True)
        dancing = Client(Rest([b""]))
        dancing.say("dance")
        await dancing.over()
        assert (dancing.closed[0], dancing.texts[-1]["code"]) == (1007, "invalid")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://api.example"}, 403),
        ({"origin": "http://api.example:80"}, 0),
        ({"origin": "https://PORTAL.example"}, 0),
        ({}, 0),
    ],
)
def test_pages_of_other_origins_are_refused(headers: dict[str, Any], status: int) -> None:
    async def scenario() -> None:
        client = Client(Rest([RESULT]), query=b"", **headers)
        await client.over()
        first = client.sent[0]
        assert first.get("status", 0) == status
        assert (first["type"] == "websocket.accept") == (not status)

    asyncio.run(scenario())


def test_other_addresses_do_not_speak_websocket() -> None:
    async def scenario() -> None:
        client = Client(Rest([]), path="/api/v1/nodes")
        await client.over()
        assert client.sent[0]["status"] == 404

    asyncio.run(scenario())


def test_a_browser_gives_its_token_as_a_subprotocol() -> None:
    token = base64.urlsafe_b64encode(b"tok.en").decode().rstrip("=")
    assert (
        authorization_of({"sec-websocket-protocol": f"lattice.terminal.v1, lattice.bearer.{token}"}) == "Bearer tok.en"
    )
    assert (
        authorization_of({"authorization": "Bearer x", "sec-websocket-protocol": f"lattice.bearer.{token}"})
        == "Bearer x"
    )
    assert authorization_of({}) == ""
    with pytest.raises(ApiError, match="base64url"):
        authorization_of({"sec-websocket-protocol": "lattice.bearer.A"})


@pytest.mark.parametrize(
    "query", ["dance=1", "rows=x", "terminal=-1", "offset=-2", "terminal=1&node=n1", "client=" + "x" * 99, "keep=maybe"]
)
def test_wrong_parameters_are_refused(query: str) -> None:
    with pytest.raises(ApiError):
        read_start(query.encode())


def test_parameters_are_read_as_what_they_are() -> None:
    start = read_start(b"node=5&command=true&keep=true&rows=3")
    assert (start.node, start.command, start.keep, start.rows) == ("5", "true", True, 3)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "{}",
        '{"type":"dance"}',
        '{"type":"resize","rows":0,"columns":1}',
        '{"type":"signal","signal":"SIGKILL"}',
        '{"type":"stdin","data":"?"}',
    ],
)
def test_what_is_no_message_is_named(text: str) -> None:
    with pytest.raises(BadMessage):
        read_message(text)


def test_messages_are_read() -> None:
    assert read_message('{"type":"stdin","data":"YQ=="}') == b"a"
    assert read_message('{"type":"resize","rows":1,"columns":2}') == Resize(1, 2)
    assert signal_named("SIGTSTP") == Signal("SIGTSTP")
    with pytest.raises(BadMessage, match="SIGHUP"):
        signal_named("SIGKILL")
    with pytest.raises(BadMessage, match="at most"):
        read_message('{"type":"stdin","data":"' + "YWFh" * 400_000 + '"}')
