"""Requests of callers without a token: health checks and reflection.

The library takes messages of up to 16 MiB and knows no smaller limit for single methods, so few of these are read at the same time.
Slots are given back when the library has let go of the message, not when the caller lost his patience or we ours.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from lattice.api.grpc.release import released, released_stream

READ_CONCURRENCY = 4
READ_WITHIN_S = 2.0
MAX_REQUEST_BYTES = 4096
MAX_WATCHERS = 1024

Asked = TypeVar("Asked")
CallContext = grpc.aio.ServicerContext[bytes, bytes]
_HEALTH, _REFLECTION = health_pb2.HealthCheckRequest, reflection_pb2.ServerReflectionRequest


class SlowReads:
    """Reads of one server; `read` gives None at the end, and when there is no room or no message in time."""

    def __init__(self, concurrency: int = READ_CONCURRENCY, within_s: float = READ_WITHIN_S) -> None:
        self._most = concurrency
        self._within_s = within_s
        self._reading: set[asyncio.Future[object]] = set()

    @property
    def has_room(self) -> bool:
        return len(self._reading) < self._most

    async def read(self, context: CallContext) -> bytes | None:
        if not self.has_room:
            return None
        reading: asyncio.Future[object] = asyncio.ensure_future(_read(context))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        # Never cancelled: the library reads it all the same, until the call is over.
        await asyncio.wait((reading,), timeout=self._within_s)
        message = reading.result() if reading.done() else None
        return message if isinstance(message, bytes) else None


async def _read(context: CallContext) -> object:
    try:
        return await context.read()
    except Exception:  # noqa: BLE001 - the call is over, however it ended
        return None


class OpenHealth:
    """grpc.health.v1. All services have the same status, so a caller whose request cannot be read gets that of the server."""

    def __init__(self, servicer: health.aio.HealthServicer, reads: SlowReads) -> None:  # type: ignore[name-defined]
        self._servicer = servicer
        self._reads = reads
        self._watchers = 0

    def add_to(self, server: grpc.aio.Server) -> None:
        encode: Callable[[object], bytes] = health_pb2.HealthCheckResponse.SerializeToString
        methods = {
            "Check": grpc.stream_unary_rpc_method_handler(released(self._check), response_serializer=encode),
            "Watch": grpc.stream_stream_rpc_method_handler(released(self._watch), response_serializer=encode),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods),))

    async def _check(self, _requests: AsyncIterator[bytes], context: CallContext) -> object:
        return await self._servicer.Check(await self._asked(context), context)

    async def _watch(self, _requests: AsyncIterator[bytes], context: CallContext) -> None:
        if self._watchers >= MAX_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watchers; use Check")
        self._watchers += 1
        try:
            await self._servicer.Watch(await self._asked(context), context)
        finally:
            self._watchers -= 1

    async def _asked(self, context: CallContext) -> health_pb2.HealthCheckRequest:
        request = await self._reads.read(context)
        return _HEALTH() if request is None else await _parsed(_HEALTH.FromString, request, context)


class OpenReflection:
    """Tells everybody the contract, which is public."""

    def __init__(self, names: tuple[str, ...], reads: SlowReads) -> None:
        self._servicer = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined] # the stubs lack it
        self._reads = reads

    def add_to(self, server: grpc.aio.Server) -> None:
        encode: Callable[[object], bytes] = reflection_pb2.ServerReflectionResponse.SerializeToString
        handler = grpc.stream_stream_rpc_method_handler(released_stream(self._info), response_serializer=encode)
        methods = {"ServerReflectionInfo": handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, methods),))

    async def _info(self, _requests: AsyncIterator[bytes], context: CallContext) -> AsyncIterator[object]:
        if not self._reads.has_room:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many callers at the same time; try again")
        async for answer in self._servicer.ServerReflectionInfo(self._requests(context), context):
            yield answer

    async def _requests(self, context: CallContext) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        while (request := await self._reads.read(context)) is not None:
            yield await _parsed(_REFLECTION.FromString, request, context)


async def _parsed(parse: Callable[[bytes], Asked], request: bytes, context: CallContext) -> Asked:
    if len(request) > MAX_REQUEST_BYTES:
        await context.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED, f"the request is longer than {MAX_REQUEST_BYTES:,} bytes"
        )
    try:
        return parse(request)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be read")
        raise
