"""The agents' streams: one stream per node, for as long as server and agent live, independent of the leader.

A stream is taken to wherever agents register at this moment: this server's own service, or the leader behind a relay. When that
changes, the agent is ordered to rejoin: it registers again on the same stream, and what it said before that does not count.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc

from lattice.api.grpc.agents.session import (
    GOODBYE_WITHIN_S,
    Registrar,
    Session,
    SessionLost,
    StreamRefused,
    check_elements,
    checked_registration,
    parsed,
)
from lattice.api.grpc.agents.values import BadMessage
from lattice.api.grpc.calls import source_of
from lattice.ports.site.identity import Identity, Unauthenticated, UnknownKey, Verifier
from lattice.wire.pb import agent_pb2 as pb

_log = logging.getLogger(__name__)

REGISTER_WITHIN_S = 10.0
# Long enough for an election; after that another server may know more.
LEADER_WITHIN_S = 5.0
# Sessions that are being opened. When all agents connect at the same time, each is served in turn; otherwise all would be served a little,
# and none before its patience is over.
REGISTRATION_CONCURRENCY = 200
# This many at a time only connect when all agents do, after a restart of theirs or of this server.
CROWD = 100
_NOT_WHO_THEY_SAY = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_REJOIN = pb.ServerMessage(rejoin=pb.Rejoin()).SerializeToString()

Context = grpc.aio.ServicerContext[bytes, bytes]


class AgentService:
    """Implements `AgentService` of the wire contract, on messages as bytes."""

    def __init__(
        self,
        verifier: Verifier,
        registrar: Registrar | None = None,
        refused: Callable[[str, str], None] = lambda why, source: None,
    ) -> None:
        self._verifier = verifier
        self._on_refused = refused
        self.refusals = 0  # of agents that are not who they say
        self._registrar = registrar
        self._changed = asyncio.Event()
        self._streams: set[_Stream] = set()
        self.admission = asyncio.Semaphore(REGISTRATION_CONCURRENCY)
        self.entering = 0  # those that wait for it included

    def receive_at(self, registrar: Registrar) -> None:
        """Agents register there from now on; those whose session elsewhere is lost are ordered to rejoin."""
        self._registrar = registrar
        self._changed.set()
        self._changed = asyncio.Event()

    def leave(self, registrar: Registrar) -> None:
        """Agents do not register there any more; harmless when they register elsewhere already."""
        if self._registrar is registrar:
            self._registrar = None

    def say_goodbye(self, why: str) -> None:
        """Sends every agent to another server."""
        for stream in self._streams:
            stream.say_goodbye(why)

    @property
    def count(self) -> int:
        """Agents attached to this server."""
        return len(self._streams)

    @property
    def is_crowded(self) -> bool:
        """Whether enough agents are registering that others may have to wait."""
        return self.entering >= CROWD

    async def registrar(self, after: Registrar | None) -> Registrar:
        """Where to register, once that is another place than the one that was lost; raises StreamRefused."""
        try:
            async with asyncio.timeout(LEADER_WITHIN_S):
                while self._registrar is None or self._registrar is after:
                    await self._changed.wait()
                return self._registrar
        except TimeoutError:
            text = "this server does not lead and reaches none that does; ask the next one"
            raise StreamRefused(grpc.StatusCode.UNAVAILABLE, text) from None

    async def Connect(self, messages: AsyncIterator[bytes], context: Context) -> None:
        try:
            token = await self._identify(context)
        except StreamRefused as refusal:
            self._refused(refusal, context)
            await context.abort(refusal.code, str(refusal))
        await self.connect_as(messages, context, token)

    async def Bulk(self, messages: AsyncIterator[bytes], context: Context) -> None:
        try:
            token = await self._identify(context)
        except StreamRefused as refusal:
            self._refused(refusal, context)
            await context.abort(refusal.code, str(refusal))
        await self.carry_as(messages, context, token)

    async def carry_as(self, messages: AsyncIterator[bytes], context: Context, token: str) -> None:
        """A bulk stream of an agent that is known already, for which the token speaks."""
        try:
            await (await self.registrar(None)).carry(token, messages, context.write)
        except StreamRefused as refusal:
            await context.abort(refusal.code, str(refusal))

    async def connect_as(self, messages: AsyncIterator[bytes], context: Context, token: str) -> None:
        """The stream of an agent that is known already, for which the token speaks."""
        try:
            stream = _Stream(self, messages, context, token)
            stream.arrive()
            try:
                await stream.register_first(self._verifier)
                self._streams.add(stream)
                await stream.run()
            finally:
                stream.has_arrived()
                self._streams.discard(stream)
        except StreamRefused as refusal:
            if refusal.code in _NOT_WHO_THEY_SAY:
                self._refused(refusal, context)
            await context.abort(refusal.code, str(refusal))

    def _refused(self, refusal: StreamRefused, context: Context) -> None:
        self.refusals += 1
        self._on_refused(f"an agent: {refusal}", source_of(context))

    async def _identify(self, context: Context) -> str:
        """The token, verified before anything is read from the stream."""
        try:
            token = bearer_token(context)
            identity = await self._verified(token)
        except Unauthenticated as error:
            raise StreamRefused(grpc.StatusCode.UNAUTHENTICATED, str(error)) from error
        if identity.kind != "agent":
            raise StreamRefused(grpc.StatusCode.PERMISSION_DENIED, "this token is not an agent's token")
        return token

    async def _verified(self, token: str) -> Identity:
        try:
            return self._verifier.verify(token)
        except UnknownKey:
            await self._verifier.learn()
            return self._verifier.verify(token)


def bearer_token(context: Context) -> str:
    """The one token of the call; raises Unauthenticated."""
    said = [str(value) for key, value in context.invocation_metadata() or () if key == "authorization"]
    if len(said) > 1:
        raise Unauthenticated("several authorization headers: send one")
    scheme, _, token = (said[0] if said else "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("no token: send authorization: Bearer TOKEN")
    return token.strip()


class _Stream:
    """One agent's stream, through all sessions that follow each other on it."""

    def __init__(self, service: AgentService, messages: AsyncIterator[bytes], context: Context, token: str) -> None:
        self._service = service
        self._messages = messages
        self._context = context
        self._token = token
        self._register = b""
        self._registered = asyncio.Event()
        self._owed = 0  # Rejoins that the agent has not answered by a Register yet
        self._session: Session | None = None
        self._is_arriving = False
        self._is_entering = False
        self._farewell: str | None = None
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def register_first(self, verifier: Verifier) -> None:
        """Reads the first message, which has to make sense before any other server is bothered with it."""
        try:
            async with asyncio.timeout(REGISTER_WITHIN_S):
                self._register = await anext(self._messages)
        except StopAsyncIteration:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, "the stream ended before Register") from None
        except TimeoutError:
            raise StreamRefused(grpc.StatusCode.DEADLINE_EXCEEDED, "no Register on this stream") from None
        await check_elements(self._register)
        checked_registration(verifier, self._token, self._register)

    def say_goodbye(self, why: str) -> None:
        self._farewell = why
        if not self._leaving.done():
            self._leaving.set_result(None)

    async def run(self) -> None:
        """Returns at the end of the stream; raises StreamRefused."""
        tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._serve()),
        ]
        try:
            await _first_done((*tasks, self._leaving))
            for task in tasks:
                if task.done():
                    _raise_refusal(task.exception())
        finally:
            if self._session is not None:
                self._session.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._farewell is not None:
            await self._part(self._farewell)

    async def _part(self, why: str) -> None:
        goodbye = pb.ServerMessage(goodbye=pb.Goodbye(why=why)).SerializeToString()
        try:
            async with asyncio.timeout(GOODBYE_WITHIN_S):
                await self._context.write(goodbye)
        except (TimeoutError, grpc.RpcError, grpc.aio.UsageError):
            return

    async def _read(self) -> None:
        async for message in self._messages:
            await check_elements(message)
            if self._owed:
                self._await_register(message)
            elif (session := self._session) is not None:
                try:
                    await session.hear(message)
                except SessionLost:
                    continue  # `_serve` receives the same

    def _await_register(self, message: bytes) -> None:
        """Drop messages that were in flight when the agent was ordered to rejoin."""
        try:
            is_register = parsed(message).WhichOneof("body") == "register"
        except BadMessage as error:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        if is_register:
            self._owed -= 1
            if not self._owed:
                self._register = message
                self._registered.set()

    async def _serve(self) -> None:
        lost: Registrar | None = None
        while True:
            registrar = await self._service.registrar(lost)
            await self._enter()
            session = self._session = registrar.open(self._token, self._register)
            try:
                has_spoken = await self._deliver(session)
            finally:
                self._has_entered()
                self._session = None
                session.close()
            if has_spoken is None:
                return
            lost = registrar
            if has_spoken:
                await self._rejoin()

    def arrive(self) -> None:
        """Count the agent as connecting until it received an answer or disconnected."""
        if not self._is_arriving:
            self._is_arriving = True
            self._service.entering += 1

    def has_arrived(self) -> None:
        if self._is_arriving:
            self._is_arriving = False
            self._service.entering -= 1

    async def _enter(self) -> None:
        self.arrive()
        await self._service.admission.acquire()
        self._is_entering = True

    def _has_entered(self) -> None:
        self.has_arrived()
        if self._is_entering:
            self._is_entering = False
            self._service.admission.release()

    async def _deliver(self, session: Session) -> bool | None:
        """Forward what the session says. None when it has ended; else it was lost, and True when it had said anything."""
        writing, ending = asyncio.create_task(self._write(session)), asyncio.create_task(session.over())
        try:
            await _first_done((writing, ending))
            return writing.result() if writing.done() else None
        finally:
            writing.cancel()
            ending.cancel()
            await asyncio.gather(writing, ending, return_exceptions=True)

    async def _write(self, session: Session) -> bool | None:
        has_spoken = False
        try:
            while (message := await session.next_message()) is not None:
                has_spoken = True
                self._has_entered()
                await self._context.write(message)
        except SessionLost:
            return has_spoken
        return None

    async def _rejoin(self) -> None:
        self._registered.clear()
        self._owed += 1
        await self._context.write(_REJOIN)
        try:
            async with asyncio.timeout(REGISTER_WITHIN_S):
                await self._registered.wait()
        except TimeoutError:
            raise StreamRefused(grpc.StatusCode.DEADLINE_EXCEEDED, "no Register after Rejoin") from None


async def _first_done(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Returns when one of them is over. `asyncio.wait` does the same at several times the cost, and there are many streams."""
    over = asyncio.get_running_loop().create_future()

    def note(task: asyncio.Future[Any]) -> None:
        if not over.done():
            over.set_result(None)

    for task in tasks:
        task.add_done_callback(note)
    await over


def _raise_refusal(error: BaseException | None) -> None:
    if isinstance(error, StreamRefused):
        raise error
    if error is not None and not isinstance(error, grpc.RpcError | grpc.aio.UsageError):
        _log.error("stream failed", exc_info=error)
