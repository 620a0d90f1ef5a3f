"""The leader's end of the relays: agents of another server have their sessions here as if they were attached themselves.

The follower has to belong to the cluster, and vouches for nothing: each link is opened with its agent's own token, which is
verified again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection

import grpc

from lattice.api.grpc.agents.service import bearer_token
from lattice.api.grpc.agents.session import LocalRegistrar, Session, SessionLost, StreamRefused
from lattice.api.grpc.callers import Callers, checked_caller
from lattice.api.grpc.relay.frames import WINDOW_BYTES, FrameQueue, check_greeting, greeting
from lattice.core.model.site.protocols import NoCommonVersion
from lattice.ports.site.identity import Unauthenticated
from lattice.wire.pb import relay_pb2 as pb

_log = logging.getLogger(__name__)

# What an agent may say before its session has taken it in; reports and heartbeats are few.
INBOX_MAX = 20_000
BULK_SERVICE = "lattice.v1.BulkRelayService"
_NUMBERS: dict[grpc.StatusCode, int] = {code: code.value[0] for code in grpc.StatusCode}

Context = grpc.aio.ServicerContext[pb.RelayFrames, pb.RelayFrames]
BulkContext = grpc.aio.ServicerContext[bytes, bytes]


class RelayService:
    """Implements `RelayService` of the wire contract."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._registrar: LocalRegistrar | None = None
        self.relays: set[RelayHost] = set()

    def receive_at(self, registrar: LocalRegistrar | None) -> None:
        """Relays are taken while there is a service; those of the last one end with it."""
        self._registrar = registrar

    def keep_only(self, servers: Collection[str]) -> None:
        """Ends the relays of servers that do not belong to the cluster any more."""
        for host in self.relays:
            if host.server not in servers:
                host.banned.set()

    async def Relay(self, batches: AsyncIterator[pb.RelayFrames], context: Context) -> None:
        server = await checked_caller(self._callers, context)
        registrar = self._registrar
        if registrar is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this server does not lead")
        host = RelayHost(registrar, server)
        self.relays.add(host)
        try:
            await host.run(batches, context)
        finally:
            self.relays.discard(host)
        if host.refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, host.refusal)
        is_banned = host.banned.is_set()
        why = f"{server} does not belong to the cluster any more" if is_banned else "this server does not lead any more"
        await context.abort(grpc.StatusCode.UNAVAILABLE, why)

    async def Bulk(self, messages: AsyncIterator[bytes], context: BulkContext) -> None:
        """A bulk stream of an agent that is attached to the caller, with that agent's own token."""
        await checked_caller(self._callers, context)
        registrar = self._registrar
        if registrar is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this server does not lead")
        try:
            await registrar.carry(bearer_token(context), messages, context.write)
        except Unauthenticated as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except StreamRefused as refusal:
            await context.abort(refusal.code, str(refusal))


class RelayHost:
    """All links of one follower."""

    def __init__(self, registrar: LocalRegistrar, server: str) -> None:
        self._registrar = registrar
        self.server = server
        self.banned = asyncio.Event()
        self.refusal = ""  # why the follower cannot be served at all
        self._links: dict[int, _RelayedLink] = {}
        self.queue = FrameQueue()
        self.frames_taken = 0
        self.batches_taken = 0

    async def run(self, batches: AsyncIterator[pb.RelayFrames], context: Context) -> None:
        """Returns when the follower is gone or this server leads no more."""
        await context.write(greeting())
        tasks = [
            asyncio.create_task(self._read(batches)),
            asyncio.create_task(self._send(context)),
            asyncio.create_task(self._registrar_ended()),
            asyncio.create_task(self._was_banned()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if isinstance(error, NoCommonVersion):
                    self.refusal = str(error)
                elif error is not None and not isinstance(error, grpc.RpcError | grpc.aio.UsageError):
                    _log.error("relay failed", exc_info=error)
        finally:
            for link in list(self._links.values()):
                link.end()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _registrar_ended(self) -> None:
        await self._registrar.ended.wait()

    async def _was_banned(self) -> None:
        await self.banned.wait()

    async def _send(self, context: Context) -> None:
        while True:
            await context.write(await self.queue.take())

    async def _read(self, batches: AsyncIterator[pb.RelayFrames]) -> None:
        async for batch in batches:
            if not self.batches_taken:
                check_greeting(batch, f"server {self.server}")
            self.batches_taken += 1
            self.frames_taken += len(batch.frames)
            for frame in batch.frames:
                self._take(frame)

    def _take(self, frame: pb.RelayFrame) -> None:
        link = self._links.get(frame.link)
        match frame.WhichOneof("body"):
            case "opened":
                session = self._registrar.open(frame.opened.token, frame.opened.register)
                self._links[frame.link] = _RelayedLink(self, frame.link, session)
            case "payload":
                if link is not None:
                    link.hear(frame.payload)
            case "taken":
                if link is not None:
                    link.give_room(frame.taken)
            case "closed":
                if link is not None:
                    link.end()
            case _:
                _log.warning("a frame of a newer server is not understood")

    def forget(self, number: int) -> None:
        self._links.pop(number, None)


class _RelayedLink:
    """One agent behind the relay."""

    def __init__(self, host: RelayHost, number: int, session: Session) -> None:
        self._host = host
        self._number = number
        self._session = session
        self._inbox: deque[bytes] = deque()
        self._heard = asyncio.Event()
        self._under_way = 0
        self._room = asyncio.Event()
        self._tasks = (
            asyncio.create_task(self._hear_all()),
            asyncio.create_task(self._speak()),
            asyncio.create_task(session.over()),
        )
        for task in self._tasks:
            task.add_done_callback(self._finish)

    def hear(self, message: bytes) -> None:
        if len(self._inbox) >= INBOX_MAX:
            self._close(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many messages before the first was taken in")
            return
        self._inbox.append(message)
        self._heard.set()

    def give_room(self, taken: int) -> None:
        self._under_way -= taken
        self._room.set()

    def end(self) -> None:
        self._host.forget(self._number)
        self._session.close()
        for task in self._tasks:
            task.remove_done_callback(self._finish)
            task.cancel()

    async def _hear_all(self) -> None:
        while True:
            while not self._inbox:
                self._heard.clear()
                await self._heard.wait()
            await self._session.hear(self._inbox.popleft())

    async def _speak(self) -> None:
        while (message := await self._session.next_message()) is not None:
            while self._under_way >= WINDOW_BYTES:
                self._room.clear()
                await self._room.wait()
            self._under_way += len(message)
            await self._host.queue.put_when_room(pb.RelayFrame(link=self._number, payload=message))

    def _finish(self, task: "asyncio.Task[None]") -> None:
        """The session has ended, whichever side of it noticed first."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, SessionLost):
            self._close(grpc.StatusCode.ABORTED, str(error))
        elif isinstance(error, StreamRefused):
            self._close(error.code, str(error))
        elif error is not None:
            _log.error("a relayed session failed", exc_info=error)
            self._close(grpc.StatusCode.INTERNAL, type(error).__name__)
        else:
            self._close(grpc.StatusCode.OK, "")

    def _close(self, code: grpc.StatusCode, text: str) -> None:
        closed = pb.LinkClosed(code=_NUMBERS[code], text=text)
        self._host.queue.put(pb.RelayFrame(link=self._number, closed=closed))
        self.end()
