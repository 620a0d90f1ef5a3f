"""Requests of clients and the answers they got, over REST and over gRPC, byte for byte."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc

from lattice.api.operations.operation import Operation
from lattice.core.machine.levels import NEWEST
from tests.integration.api.grpc_wire import RPCS, grpc_of, message_of
from tests.integration.api.parity_examples import EXAMPLES, Request
from tests.integration.api.test_parity import BY_NAME, all_examples
from tests.integration.api.world import Response, World

API = "api.jsonl"
_TIMEOUT_S = 20.0


def http_of(operation: Operation, request: Request) -> dict[str, Any]:
    """The HTTP request that says this: method, path with query, headers, body."""
    path, rest = operation.path, dict(request)
    for key, value in request.items():
        if f"{{{key}}}" in path:
            path = path.replace(f"{{{key}}}", quote(str(value), safe=""))
            del rest[key]
    if operation.method not in ("GET", "DELETE"):
        return {"method": operation.method, "path": path, "body": rest, "headers": {}}
    headers = {"last-event-id": rest.pop("last_event_id")} if "last_event_id" in rest else {}
    pairs = [(key, each) for key, value in rest.items() for each in (value if isinstance(value, list) else [value])]
    query = "&".join(f"{key}={quote(_worded(each))}" for key, each in pairs)
    return {
        "method": operation.method,
        "path": f"{path}?{query}" if query else path,
        "body": None,
        "headers": headers,
    }


def _worded(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def over_http(world: World, asked: dict[str, Any]) -> Response:
    return await world.call(asked["method"], asked["path"], asked["body"], token=world.admin, headers=asked["headers"])


async def over_grpc(channel: grpc.aio.Channel, path: str, data: bytes, token: str, *, streams: bool) -> dict[str, Any]:
    """The status and the messages that came back, encoded."""
    metadata = [("authorization", f"Bearer {token}")]
    try:
        if streams:
            call = channel.unary_stream(path)(data, metadata=metadata, timeout=_TIMEOUT_S)  # type: ignore[call-arg]
            answers = [piece async for piece in call]
        else:
            method = channel.unary_unary(path)  # type: ignore[call-arg]
            answers = [await method(data, metadata=metadata, timeout=_TIMEOUT_S)]
    except grpc.aio.AioRpcError as error:
        return {"status": error.code().name, "answers": []}
    return {"status": "OK", "answers": [base64.b64encode(each).decode() for each in answers]}


@asynccontextmanager
async def two_worlds(level: int) -> AsyncIterator[tuple[World, World, grpc.aio.Channel]]:
    """Two clusters alike, one for each wire."""
    async with AsyncExitStack() as stack:
        worlds = World(level), World(level)
        for world in worlds:
            await world.start()
            stack.push_async_callback(world.stop)
        yield *worlds, await stack.enter_async_context(grpc_of(worlds[1].services))


async def record_api(target: Path, level: int = NEWEST) -> None:
    lines = []
    named = {name for name, _ in EXAMPLES}
    async with two_worlds(level) as (rest, other, channel):
        for name, request in all_examples():
            rpc = RPCS[name]
            if rpc.response.kind == "events" and name not in named:
                continue
            asked = http_of(BY_NAME[name], request)
            answer = await over_http(rest, asked)
            data = message_of(rpc.request_message, request).SerializeToString(deterministic=True)
            said = await over_grpc(channel, rpc.path, data, other.admin, streams=rpc.response.is_stream)
            lines.append(
                {
                    "operation": name,
                    "rest": {**asked, "status": answer.status, "answer": _shown(answer)},
                    "grpc": {
                        "path": rpc.path,
                        "streams": rpc.response.is_stream,
                        "request": base64.b64encode(data).decode(),
                        "response": rpc.response.message,
                        **said,
                    },
                }
            )
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (target / API).write_text(text)


def _shown(answer: Response) -> object:
    """The body, as JSON where it is; otherwise as text."""
    try:
        return json.loads(answer.body)
    except ValueError:
        return answer.body.decode(errors="replace")
