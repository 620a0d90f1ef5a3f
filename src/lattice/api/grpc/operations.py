"""AllocationService, NodeService and AdminService: every operation of the table, answered here or by the leader."""

import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Protocol

import grpc

from lattice.api.access.admission import check_token
from lattice.api.errors import ApiError, starting
from lattice.api.grpc.callers import Callers, NotAMember, caller_of
from lattice.api.grpc.calls import Call, CallContext, Caller, read_request, refuse, source_of
from lattice.api.grpc.contract import PACKAGE, Rpc, served_rpcs
from lattice.api.grpc.forwarding import NOT_LEADING, LeadsHere
from lattice.api.grpc.release import released, released_stream
from lattice.api.interface import SERVICES
from lattice.api.services import Services
from lattice.ports.site.identity import Unauthenticated

_log = logging.getLogger(__name__)


class Leader(Protocol):
    """Forwards a call to the leader."""

    async def answer(self, rpc: Rpc, request: bytes, context: CallContext) -> bytes: ...

    def pieces(self, rpc: Rpc, request: bytes, context: CallContext) -> AsyncGenerator[bytes, None]: ...


class OperationServices:
    """The API on gRPC. Calls are refused until `serve` or `follow` says who answers."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._leader: Leader | None = None
        self._calls = [Call(rpc) for rpc in served_rpcs()]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{PACKAGE}.{service}" for service in SERVICES)

    def serve(self, services: Services) -> None:
        """Everything is answered here."""
        self._services, self._leader = services, None

    def follow(self, services: Services, leader: Leader) -> None:
        """Forwards calls to the leader; calls that need no leader, or accept stale data, are answered here."""
        self._services, self._leader = services, leader

    def add_to(self, server: grpc.aio.Server, *, peers: Callers | None = None) -> None:
        """Serves all calls. With `peers`, those that other servers forward: answered here or refused, never forwarded again."""
        for service in SERVICES:
            calls = [call for call in self._calls if call.rpc.service == service]
            methods = {call.rpc.name: self._handler(call, peers) for call in calls}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", methods),))

    def _handler(self, call: Call, peers: Callers | None) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Takes the request as a stream of one: such a call is begun by its metadata alone, and read when its token was looked at.

        On the wire there is no difference.
        """
        if call.rpc.response.is_stream:
            return grpc.stream_stream_rpc_method_handler(released_stream(self._streaming(call, peers)))
        return grpc.stream_unary_rpc_method_handler(released(self._single(call, peers)))

    async def _who_answers(self, call: Call, peers: Callers | None, context: CallContext) -> Leader | None:
        """The way to the leader, or None to answer here. A call that came from another server is not forwarded again."""
        leader = self._leader_for(call, context)
        if peers is not None:
            try:
                await caller_of(peers, context)
            except NotAMember as error:
                # A user's request that it forwarded is as good as ever: another server takes it.
                elsewhere = ApiError("unavailable", str(error), hint="ask another server")
                await refuse(context, elsewhere, call.rpc.operation.name, "")
            if leader is not None:
                await _say_not_leading(context)
        return leader

    def _single(
        self, call: Call, peers: Callers | None
    ) -> Callable[[AsyncIterator[bytes], CallContext], Awaitable[bytes]]:
        async def handle(_requests: AsyncIterator[bytes], context: CallContext) -> bytes:
            leader = await self._who_answers(call, peers, context)
            request: bytes | None = None
            if leader is not None:
                request = await self._known_caller(call, context)
                with contextlib.suppress(LeadsHere):
                    return await leader.answer(call.rpc, request, context)
            return await call.answer(await self._ready(call, context), request, context)

        return handle

    def _streaming(
        self, call: Call, peers: Callers | None
    ) -> Callable[[AsyncIterator[bytes], CallContext], AsyncIterator[bytes]]:
        async def handle(_requests: AsyncIterator[bytes], context: CallContext) -> AsyncIterator[bytes]:
            leader = await self._who_answers(call, peers, context)
            request: bytes | None = None
            if leader is not None:
                request = await self._known_caller(call, context)
                with contextlib.suppress(LeadsHere):
                    async for piece in leader.pieces(call.rpc, request, context):
                        yield piece
                    return
            async for piece in call.pieces(await self._ready(call, context), request, context):
                yield piece

        return handle

    async def _known_caller(self, call: Call, context: CallContext) -> bytes:
        """The request, of a caller whose token is good; the leader says what he may do."""
        services = await self._ready(call, context)
        try:
            await check_token(services, Caller.of(context).authorization, source_of(context))
        except Unauthenticated as error:
            await refuse(context, error, call.rpc.operation.name, "")
            raise
        return await read_request(context)

    async def _ready(self, call: Call, context: CallContext) -> Services:
        if self._services is None:
            await refuse(context, starting(), call.rpc.operation.name, "")
            raise starting()
        return self._services

    def _leader_for(self, call: Call, context: CallContext) -> Leader | None:
        """Who answers instead of this server; None when this one does."""
        if self._leader is None or call.rpc.operation.path in OWN:
            return None
        is_read = call.rpc.operation.method == "GET"
        return None if is_read and _wants_stale(context) else self._leader


# A server answers these from what it has itself.
OWN = frozenset({"/raft/status"})


def _wants_stale(context: CallContext) -> bool:
    return any(
        key == "x-lattice-consistency" and value == "stale" for key, value in context.invocation_metadata() or ()
    )


async def _say_not_leading(context: CallContext) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "this server does not lead", ((NOT_LEADING, "1"),))
