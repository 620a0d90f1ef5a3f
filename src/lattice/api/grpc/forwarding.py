"""A follower's calls to the leader: forwarded as bytes over the servers' own connections, with the caller's own token.

A write has a request id before it leaves, given by us where the caller gave none, so that it may be sent again, also to the next
leader, when no answer came. A call is forwarded once: a server that another asks and that does not lead refuses.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import grpc
import grpc.aio

from lattice.api.errors import ApiError
from lattice.api.grpc.calls import CallContext, refuse
from lattice.api.grpc.contract import Rpc
from lattice.api.grpc.statuses import ERROR, REQUEST_ID

NOT_LEADING = "lattice-not-leading"
GIVE_UP_S = 10.0
_PAUSE_S = 0.05
# The library's own keys, and those that belong to one connection.
_HOP = frozenset({"user-agent", "te", "content-type"})


class LeaderPlace(Protocol):
    """Who leads, as this server knows it."""

    @property
    def leader_name(self) -> str: ...

    def moved(self) -> "asyncio.Future[None]":
        """Done when the leader changed after this call."""
        ...


class LeadsHere(Exception):
    """This server was elected while the call waited: it is answered here."""


class LeaderCalls:
    """Implements `Leader` of the operations. `address` says where a server of this name takes calls, "" when it does not know.

    While `outage` gives a reason, a call that finds no leader is refused at once.
    """

    def __init__(
        self,
        place: LeaderPlace,
        address: Callable[[str], str],
        connect: Callable[[str], grpc.aio.Channel],
        outage: Callable[[], str] = lambda: "",
    ) -> None:
        self._outage = outage
        self._place = place
        self._address = address
        self._connect = connect
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._is_leading = False
        self._is_closed = False

    def lead(self, *, is_leading: bool) -> None:
        """Calls that wait for a leader are answered here from now on, or wait for another one."""
        self._is_leading = is_leading

    def renew(self) -> None:
        """Reconnect at the next call, to use new certificates."""
        old, self._channels = self._channels, {}
        for channel in old.values():
            asyncio.ensure_future(channel.close(GIVE_UP_S))  # noqa: RUF006 - it ends by itself

    async def close(self) -> None:
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close(None)

    async def answer(self, rpc: Rpc, request: bytes, context: CallContext) -> bytes:
        """The leader's answer. Raises LeadsHere; refusals end the call as the leader said them."""
        metadata = _handed_on(rpc, context)
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            moved = self._place.moved()
            address = await self._leader(rpc, context)
            if address:
                method: Any = self._channel(address).unary_unary(rpc.path)  # type: ignore[call-arg] # bytes both ways
                call = method(request, metadata=metadata, timeout=context.time_remaining())
                outcome = await _first(call, moved)
                if isinstance(outcome, bytes):
                    return outcome
                if outcome is not None:
                    await _repeat(context, outcome)
            await self._pause(rpc, context, moved, deadline, has_address=bool(address))

    async def pieces(self, rpc: Rpc, request: bytes, context: CallContext) -> AsyncGenerator[bytes, None]:
        """The leader's answer piece by piece; one that breaks off in the middle breaks off here, too."""
        metadata = _handed_on(rpc, context)
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            moved = self._place.moved()
            address = await self._leader(rpc, context)
            if address:
                method: Any = self._channel(address).unary_stream(rpc.path)  # type: ignore[call-arg] # bytes both ways
                call = method(request, metadata=metadata, timeout=context.time_remaining())
                has_begun = False
                try:
                    async for piece in call:
                        has_begun = True
                        yield piece
                    return
                except grpc.aio.AioRpcError as error:
                    if has_begun or not _was_not_taken(error):
                        await _repeat(context, error)
                finally:
                    call.cancel()
            await self._pause(rpc, context, moved, deadline, has_address=bool(address))

    async def _leader(self, rpc: Rpc, context: CallContext) -> str:
        if self._is_leading:
            raise LeadsHere
        if self._is_closed:
            stopping = ApiError("unavailable", "this server is stopping", hint="repeat it under the same request_id")
            await refuse(context, stopping, rpc.operation.name, "")
        return self._address(self._place.leader_name)

    async def _pause(
        self, rpc: Rpc, context: CallContext, moved: "asyncio.Future[None]", deadline: float, *, has_address: bool
    ) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or self._outage():
            await refuse(context, no_leader(), rpc.operation.name, "")
        await asyncio.wait((moved,), timeout=min(left, _PAUSE_S if has_address else left))

    def _channel(self, address: str) -> grpc.aio.Channel:
        known = self._channels.get(address)
        if known is None:
            known = self._channels[address] = self._connect(address)
        return known


async def _first(call: Any, moved: "asyncio.Future[None]") -> bytes | grpc.aio.AioRpcError | None:  # noqa: ANN401 - the library's
    """The answer or the refusal; None when that server does not lead, did not answer, or another one leads by now."""
    answering = asyncio.ensure_future(call)
    await asyncio.wait((answering, moved), return_when=asyncio.FIRST_COMPLETED)
    if not answering.done():
        # The new leader answers; the old one may hang for a long time.
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await answering
        return None
    try:
        answer: bytes = answering.result()
    except grpc.aio.AioRpcError as error:
        return None if _was_not_taken(error) else error
    return answer


def _was_not_taken(error: grpc.aio.AioRpcError) -> bool:
    """Whether the other server does not lead, or the call got no answer at all."""
    keys = {pair[0] for pair in error.trailing_metadata() or ()}  # type: ignore[index] # pairs, whatever the stubs say
    if NOT_LEADING in keys:
        return True
    return error.code() is grpc.StatusCode.UNAVAILABLE and ERROR not in keys


async def _repeat(context: CallContext, error: grpc.aio.AioRpcError) -> None:
    """Ends the call as the leader ended it."""
    trailing: Any = tuple(error.trailing_metadata() or ())
    await context.abort(error.code(), error.details() or "", trailing)


def _handed_on(rpc: Rpc, context: CallContext) -> list[tuple[str, str | bytes]]:
    given: list[Any] = list(context.invocation_metadata() or ())
    metadata = [(key, value) for key, value in given if key not in _HOP and not str(key).startswith("grpc-")]
    if rpc.operation.method != "GET" and not any(key == REQUEST_ID for key, _ in metadata):
        metadata.append((REQUEST_ID, secrets.token_hex(16)))
    return metadata


def no_leader() -> ApiError:
    return ApiError(
        "unavailable",
        "no server leads now: a majority of the servers cannot be reached, or they are electing one",
        hint="repeat it under the same request_id; reads with consistency=stale (`lattice --stale`) are answered from what this server has",
    )
