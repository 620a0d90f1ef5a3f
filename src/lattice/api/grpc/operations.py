"""AllocationService, NodeService and AdminService: every operation of the table, answered here or by the leader."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Protocol

import grpc

from lattice.api.errors import ApiError, starting
from lattice.api.grpc.calls import Call, CallContext, refuse
from lattice.api.grpc.contract import PACKAGE, Rpc, served_rpcs
from lattice.api.interface import SERVICES
from lattice.api.services import Services

_log = logging.getLogger(__name__)


class Leader(Protocol):
    """Hands a call on to the server that leads."""

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
        """Calls go on to the leader; what needs none, or may be old, is answered here."""
        self._services, self._leader = services, leader

    def add_to(self, server: grpc.aio.Server) -> None:
        for service in SERVICES:
            methods = {call.rpc.name: self._handler(call) for call in self._calls if call.rpc.service == service}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", methods),))

    def _handler(self, call: Call) -> "grpc.RpcMethodHandler[bytes, bytes]":
        if call.rpc.response.is_stream:
            return grpc.unary_stream_rpc_method_handler(self._streaming(call))
        return grpc.unary_unary_rpc_method_handler(self._single(call))

    def _single(self, call: Call) -> Callable[[bytes, CallContext], Awaitable[bytes]]:
        async def handle(request: bytes, context: CallContext) -> bytes:
            leader = self._leader_for(call, context)
            if leader is not None:
                return await leader.answer(call.rpc, request, context)
            if self._services is None:
                await refuse(context, starting(), call.rpc.operation.name, "")
                raise starting()
            return await call.answer(self._services, request, context)

        return handle

    def _streaming(self, call: Call) -> Callable[[bytes, CallContext], AsyncIterator[bytes]]:
        async def handle(request: bytes, context: CallContext) -> AsyncIterator[bytes]:
            leader = self._leader_for(call, context)
            if leader is not None:
                pieces = leader.pieces(call.rpc, request, context)
            elif self._services is None:
                await refuse(context, starting(), call.rpc.operation.name, "")
                return
            else:
                pieces = call.pieces(self._services, request, context)
            async for piece in pieces:
                yield piece

        return handle

    def _leader_for(self, call: Call, context: CallContext) -> Leader | None:
        """Who answers instead of this server; None when this one does."""
        if self._leader is None or call.rpc.operation.path in OWN:
            return None
        is_read = call.rpc.operation.method == "GET"
        return None if is_read and _wants_stale(context) else self._leader


# A server answers these from what it has itself.
OWN = frozenset({"/raft/status", "/raft/replica", "/raft/snapshot"})


def _wants_stale(context: CallContext) -> bool:
    return any(
        key == "x-lattice-consistency" and value == "stale" for key, value in context.invocation_metadata() or ()
    )


def not_leading() -> ApiError:
    return ApiError(
        "unavailable",
        "no server leads now: a majority of the servers cannot be reached, or they are electing one",
        hint="repeat it under the same request_id; reads with consistency=stale are answered from what this server has",
    )
