"""A response leaves in one write, with the same bytes that uvicorn would write in two."""

import asyncio
import logging
from typing import Any, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from lattice.api.rest.responses import Exchange
from lattice.testing import scenario

LENGTH = (b"content-length", b"2")


class Wire:
    """A transport that remembers what was written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True


def exchange(
    kind: type[RequestResponseCycle], *, method: str = "GET", keep_alive: bool = True
) -> tuple[RequestResponseCycle, Wire]:
    wire = Wire()
    transport = cast("asyncio.Transport", wire)
    cycle = kind(
        scope=cast("Any", {"type": "http", "method": method}),
        transport=transport,
        flow=FlowControl(transport),
        logger=logging.getLogger(__name__),
        access_logger=logging.getLogger(__name__),
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )
    return cycle, wire


async def respond(cycle: RequestResponseCycle, headers: list[tuple[bytes, bytes]], *pieces: bytes) -> None:
    await cycle.send({"type": "http.response.start", "status": 200, "headers": headers})
    for piece in pieces[:-1]:
        await cycle.send({"type": "http.response.body", "body": piece, "more_body": True})
    await cycle.send({"type": "http.response.body", "body": pieces[-1], "more_body": False})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("pieces", [(b"ok",), (b"o", b"k"), (b"", b"ok")])
@pytest.mark.parametrize(
    "headers",
    [
        [LENGTH],
        [],
        [(b"X-Request-Id", b"r 1"), LENGTH],
        [LENGTH, (b"connection", b"close")],
        [(b"transfer-encoding", b"chunked")],
    ],
)
@scenario
async def test_the_same_bytes_as_from_uvicorn(
    method: str, keep_alive: bool, pieces: tuple[bytes, ...], headers: list[tuple[bytes, bytes]]
) -> None:
    ours, wire = exchange(Exchange, method=method, keep_alive=keep_alive)
    theirs, expected = exchange(RequestResponseCycle, method=method, keep_alive=keep_alive)
    await respond(ours, headers, *pieces)
    await respond(theirs, headers, *pieces)
    assert b"".join(wire.writes) == b"".join(expected.writes)
    assert (wire.is_closed, ours.response_complete) == (expected.is_closed, theirs.response_complete)


@scenario
async def test_head_and_body_leave_in_one_write() -> None:
    cycle, wire = exchange(Exchange)
    await respond(cycle, [LENGTH], b"ok")
    assert len(wire.writes) == 1


@scenario
async def test_the_head_of_a_stream_leaves_at_once() -> None:
    cycle, wire = exchange(Exchange)
    await cycle.send({"type": "http.response.start", "status": 200, "headers": []})
    assert len(wire.writes) == 1


@pytest.mark.parametrize("headers", [[LENGTH, (b"x-a", b"b\r\nset-cookie: c")], [LENGTH, (b"x a", b"b")]])
@scenario
async def test_headers_that_would_split_the_response_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    cycle, wire = exchange(Exchange)
    with pytest.raises(RuntimeError):
        await respond(cycle, headers, b"ok")
    assert not wire.writes


@pytest.mark.parametrize("body", [b"", b"o", b"oks"])
@scenario
async def test_a_body_of_another_length_is_refused(body: bytes) -> None:
    cycle, _ = exchange(Exchange)
    with pytest.raises(RuntimeError):
        await respond(cycle, [LENGTH], body)
