"""Lets go of what a refused call held.

The library ends an aborted call with an exception that it keeps in a cycle with the call. The frames that the exception went through
stay with it, their requests of up to 16 MiB included, until a garbage collection, which servers make seldom: a few hundred refused
requests would fill the memory. So the frames are emptied as soon as the exception has left them.
"""

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc

Answer = TypeVar("Answer")
Messages = AsyncIterator[bytes]
CallContext = grpc.aio.ServicerContext[bytes, bytes]


def released(
    handle: Callable[[Messages, CallContext], Awaitable[Answer]],
) -> Callable[[Messages, CallContext], Awaitable[Answer]]:
    """The same handler, which leaves nothing behind when it aborts the call."""

    async def handler(messages: Messages, context: CallContext) -> Answer:
        try:
            return await handle(messages, context)
        except grpc.aio.AbortError as error:
            _forget(error)
            raise

    return handler


def released_stream(
    handle: Callable[[Messages, CallContext], AsyncIterator[Answer]],
) -> Callable[[Messages, CallContext], AsyncIterator[Answer]]:
    """The same for a handler that yields its answers."""

    async def handler(messages: Messages, context: CallContext) -> AsyncIterator[Answer]:
        try:
            async for answer in handle(messages, context):
                yield answer
        except grpc.aio.AbortError as error:
            _forget(error)
            raise

    return handler


def _forget(error: BaseException) -> None:
    """Frames of the error that led to this one are not emptied: others may wait in them still."""
    error.__cause__ = error.__context__ = None
    traceback.clear_frames(error.__traceback__)
