"""The agents' end of the wire: one stream per node, from Register to its end.

Reading, writing and committing reports go on side by side: a slow commit delays acknowledgements, never heartbeats.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator

import grpc

from lattice.api.grpc.agent_links import AgentLinkTable, Link
from lattice.api.grpc.agent_messages import (
    BadMessage,
    beat_of,
    registration_of,
    report_of,
    welcome,
)
from lattice.ports.agents import AgentDesk, Greeting, Registration, RegistrationRefused, Report
from lattice.ports.identity import Identity, Unauthenticated, Verifier
from lattice.ports.log import LogError
from lattice.ports.replica import ReplicaStopped
from lattice.wire.pb import agent_pb2 as pb

_log = logging.getLogger(__name__)

REGISTER_WITHIN_S = 10.0
GOODBYE_WITHIN_S = 1.0
REPORTS_AT_ONCE = 256
PAUSE_AFTER_FAILURE_S = 0.5

Context = grpc.aio.ServicerContext[pb.AgentMessage, pb.ServerMessage]


class StreamRefused(Exception):
    """The stream ends with this status."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentService:
    """Implements `AgentService` of the wire contract."""

    def __init__(self, verifier: Verifier, desk: AgentDesk, links: AgentLinkTable) -> None:
        self._verifier = verifier
        self._desk = desk
        self._links = links

    def attend(self, desk: AgentDesk) -> None:
        """Takes new streams to another desk; those that are open stay with theirs."""
        self._desk = desk

    async def Connect(self, messages: AsyncIterator[pb.AgentMessage], context: Context) -> None:
        try:
            identity = self._identify(context)
            registration = await self._first(messages, identity)
            desk = self._desk
            self._links.close(registration.node, "replaced by a newer stream")
            greeting = await desk.register(registration)
        except RegistrationRefused as refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        except StreamRefused as refusal:
            await context.abort(refusal.code, str(refusal))
        except (LogError, ReplicaStopped) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error) or type(error).__name__)
        else:
            stream = _Stream(desk, self._links, registration, greeting)
            await stream.run(messages, context)

    def _identify(self, context: Context) -> Identity:
        metadata = dict(context.invocation_metadata() or ())
        scheme, _, token = str(metadata.get("authorization", "")).partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise StreamRefused(grpc.StatusCode.UNAUTHENTICATED, "no token: send authorization: Bearer TOKEN")
        try:
            identity = self._verifier.verify(token.strip())
        except Unauthenticated as error:
            raise StreamRefused(grpc.StatusCode.UNAUTHENTICATED, str(error)) from error
        if identity.kind != "agent":
            raise StreamRefused(grpc.StatusCode.PERMISSION_DENIED, "this token is not an agent's token")
        return identity

    async def _first(self, messages: AsyncIterator[pb.AgentMessage], identity: Identity) -> Registration:
        try:
            async with asyncio.timeout(REGISTER_WITHIN_S):
                first = await anext(messages)
        except StopAsyncIteration:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, "the stream ended before Register") from None
        except TimeoutError:
            raise StreamRefused(grpc.StatusCode.DEADLINE_EXCEEDED, "no Register on this stream") from None
        if first.WhichOneof("body") != "register":
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be Register")
        try:
            registration = registration_of(first.register)
        except BadMessage as error:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        if identity.node is not None and identity.node != registration.node:
            raise StreamRefused(grpc.StatusCode.PERMISSION_DENIED, f"this token is for node {identity.node}")
        return registration


class _Stream:
    """A registered stream until its end."""

    def __init__(
        self,
        desk: AgentDesk,
        links: AgentLinkTable,
        registration: Registration,
        greeting: Greeting,
    ) -> None:
        self._desk = desk
        self._links = links
        self._node = registration.node
        self._session = greeting.session
        self._greeting = greeting
        self._link = Link(registration.node)
        self._reports: deque[pb.RunReport] = deque()
        self._reported = asyncio.Event()

    async def run(self, messages: AsyncIterator[pb.AgentMessage], context: Context) -> None:
        self._links.adopt(self._link)
        self._link.put(welcome(self._greeting))
        tasks = [
            asyncio.create_task(self._write(context)),
            asyncio.create_task(self._read(messages)),
            asyncio.create_task(self._commit_reports()),
            asyncio.create_task(self._end_after_goodbye()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self._note_end(done)
        finally:
            self._links.drop(self._link)
            self._desk.closed(self._node, self._session)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _note_end(self, done: set[asyncio.Task[None]]) -> None:
        for task in done:
            error = task.exception()
            if isinstance(error, LogError | ReplicaStopped):
                _log.warning("stream ended: the log takes nothing", extra={"node_id": self._node})
            elif error is not None and not isinstance(error, grpc.RpcError | grpc.aio.UsageError):
                _log.error("stream failed", exc_info=error, extra={"node_id": self._node})

    async def _write(self, context: Context) -> None:
        while (message := await self._link.next_message()) is not None:
            await context.write(message)

    async def _end_after_goodbye(self) -> None:
        """Returns when a closed stream has had its time: an agent that reads nothing does not keep it open."""
        await self._link.closing.wait()
        await asyncio.sleep(GOODBYE_WITHIN_S)

    async def _read(self, messages: AsyncIterator[pb.AgentMessage]) -> None:
        async for message in messages:
            match message.WhichOneof("body"):
                case "heartbeat":
                    self._desk.beat(self._node, self._session, beat_of(message.heartbeat))
                case "run_report":
                    self._reports.append(message.run_report)
                    self._reported.set()
                case "output_chunk":
                    self._link.take_chunk(message.output_chunk)
                case "confirmed":
                    if message.confirmed.session == self._session:
                        await self._confirm()
                case _:
                    _log.warning("message without meaning here", extra={"node_id": self._node})

    async def _confirm(self) -> None:
        if await self._desk.confirm(self._node, self._session) and not self._link.is_closing:
            self._link.is_confirmed = True
            self._desk.opened(self._node, self._session)

    async def _commit_reports(self) -> None:
        while True:
            await self._reported.wait()
            batch = [self._reports.popleft() for _ in range(min(len(self._reports), REPORTS_AT_ONCE))]
            if not self._reports:
                self._reported.clear()
            reports = [report for message in batch if (report := report_of(message)) is not None]
            if await self._committed(reports):
                for message in batch:
                    ack = pb.ReportAck(key=message.key, seq=message.seq)
                    self._link.put(pb.ServerMessage(report_ack=ack))

    async def _committed(self, reports: list[Report]) -> bool:
        """Whether the reports are durable. A full log ends no stream: the agent repeats what was not acknowledged."""
        if not reports:
            return True
        try:
            await self._desk.report(self._node, self._session, reports)
        except LogError as error:
            _log.warning("reports were not recorded: %s", error, extra={"node_id": self._node})
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            return False
        return True
