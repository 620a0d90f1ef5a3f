"""One agent's session at this server's service, whichever way its messages come: a stream of its own, or a follower's relay.

Receiving, sending and committing reports run concurrently: a slow commit delays acknowledgements, never heartbeats. A session
ends with its agent, by a goodbye of the server, or because this server leads no more; then the agent has to register again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError
from msgspec.structs import replace

from lattice.api.grpc.agents.bulk import UnknownTicket, Write
from lattice.api.grpc.agents.links import AgentLinkTable, Link
from lattice.api.grpc.agents.messages import (
    at_hand_of,
    checkpoint_of,
    images_of,
    registration_of,
    report_of,
    shares_of,
    step_report_of,
    use_of,
)
from lattice.api.grpc.agents.telemetry import figures_of
from lattice.api.grpc.agents.uploads import Refused as UploadRefused
from lattice.api.grpc.agents.uploads import UploadSigning, Wanted
from lattice.api.grpc.agents.values import BadMessage
from lattice.api.grpc.elements import Elements, Malformed, TooMany
from lattice.api.pacing import in_thread
from lattice.ports.nodes.agents import Greeting, Registration, RegistrationRefused, Report
from lattice.ports.nodes.telemetry import NodeSink
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.identity import Identity, Unauthenticated, Verifier
from lattice.wire.agents.health import checks_of
from lattice.wire.agents.heartbeats import beat_of
from lattice.wire.agents.messages import READINESS, START_PROGRESS, ready_to_order, welcome_message
from lattice.wire.agents.tunnels import BadFrames
from lattice.wire.pb import agent_pb2 as pb

_log = logging.getLogger(__name__)

GOODBYE_WITHIN_S = 1.0
REPORT_BATCH = 256
# Beyond that they are dropped while the log takes nothing: an agent repeats what was not acknowledged.
REPORTS_MAX = 20_000
PAUSE_AFTER_FAILURE_S = 0.5
# Between two messages of an agent that floods the server with heartbeats; what it sends meanwhile stays with it.
SLOWED_DOWN_S = 0.1
# One message may tell of every run of a node, or bring the heartbeats of many nodes.
_ELEMENTS = Elements(pb.AgentMessage, messages=65_536, values=262_144)


class StreamRefused(Exception):
    """The agent's stream ends with this status."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SessionLost(Exception):
    """The server that held the session leads no more; the agent is to register again."""


class Session(Protocol):
    """One registration of one agent, wherever it is held."""

    async def hear(self, message: bytes) -> None:
        """Takes what the agent said; returns when more may come. Raises SessionLost or StreamRefused."""
        ...

    async def next_message(self) -> bytes | None:
        """The next message to the agent; None after the goodbye. Raises SessionLost or StreamRefused."""
        ...

    async def over(self) -> None:
        """Returns when the session has ended and the agent had its time to read what was left."""
        ...

    def close(self) -> None:
        """The agent is gone; harmless when repeated."""
        ...


class Registrar(Protocol):
    """Where agents register at this moment."""

    def open(self, token: str, register: bytes) -> Session:
        """A session that is being opened: refusals come with its first message."""
        ...

    async def carry(self, token: str, messages: AsyncIterator[bytes], write: Write) -> None:
        """A bulk stream of an agent, to its end. Raises StreamRefused."""
        ...


def checked_agent(verifier: Verifier, token: str) -> Identity:
    """Whose token it is, if it is an agent's; raises StreamRefused."""
    try:
        identity = verifier.verify(token)
    except Unauthenticated as error:
        raise StreamRefused(grpc.StatusCode.UNAUTHENTICATED, str(error)) from error
    if identity.kind != "agent":
        raise StreamRefused(grpc.StatusCode.PERMISSION_DENIED, "this token is not an agent's token")
    return identity


def checked_registration(verifier: Verifier, token: str, message: bytes) -> Registration:
    """What an agent with this token says of itself in its first message; raises StreamRefused."""
    identity = checked_agent(verifier, token)
    try:
        first = parsed(message)
        if first.WhichOneof("body") != "register":
            raise BadMessage("the first message must be Register")
        registration = registration_of(first.register)
    except BadMessage as error:
        raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
    if identity.node is not None and identity.node != registration.node_id:
        raise StreamRefused(grpc.StatusCode.PERMISSION_DENIED, f"this token is for node {identity.node}")
    return replace(registration, issued_at=identity.issued_at)


async def check_elements(message: bytes) -> None:
    """Raises StreamRefused. Every message of an agent passes here once, at the server that the agent has reached."""
    if not _ELEMENTS.is_suspect(message):
        return
    try:
        await in_thread(_ELEMENTS.check, message)
    except TooMany as error:
        raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
    except Malformed as error:
        raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, "not a message of an agent") from error


def parsed(message: bytes) -> pb.AgentMessage:
    """Raises BadMessage."""
    try:
        return pb.AgentMessage.FromString(message)
    except DecodeError as error:
        raise BadMessage("not a message of an agent") from error


class LocalRegistrar:
    """Agents register at this server's own service, for as long as it leads."""

    def __init__(
        self, verifier: Verifier, service: NodeSink, links: AgentLinkTable, uploads: UploadSigning | None = None
    ) -> None:
        self.verifier = verifier
        self.uploads = uploads
        self.service = service
        self.links = links
        self.ended = asyncio.Event()
        self._sessions: set[LocalSession] = set()

    def open(self, token: str, register: bytes) -> "LocalSession":
        session = LocalSession(self, token, register, self._sessions.discard)
        self._sessions.add(session)
        if self.ended.is_set():
            session.lose()
        return session

    async def carry(self, token: str, messages: AsyncIterator[bytes], write: Write) -> None:
        node = checked_agent(self.verifier, token).node
        try:
            await self.links.bulk.carry(node, messages, write)
        except UnknownTicket:
            raise StreamRefused(grpc.StatusCode.FAILED_PRECONDITION, "no connection waits for this stream") from None
        except BadFrames as error:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error

    def end(self) -> None:
        """This server leads no more: every session is lost."""
        self.ended.set()
        self.links.bulk.end()
        for session in list(self._sessions):
            session.lose()


class LocalSession:
    """From Register to the end."""

    def __init__(
        self, registrar: LocalRegistrar, token: str, register: bytes, on_close: Callable[["LocalSession"], None]
    ) -> None:
        self._service = registrar.service
        self._uploads = registrar.uploads
        self._links = registrar.links
        self._on_close = on_close
        self._link: Link | None = None
        self._node = ""
        self._session = 0
        self._failure: SessionLost | StreamRefused | None = None
        self._settled = asyncio.Event()  # registered, or failed
        self._reports: deque[pb.RunReport] = deque()
        self._reported = asyncio.Event()
        self._task = asyncio.create_task(self._live(registrar.verifier, token, register))

    async def hear(self, message: bytes) -> None:
        await self._settled.wait()
        link = self._link
        if self._failure is not None or link is None:
            raise self._failure or SessionLost
        try:
            await self._take(parsed(message), link)
        except BadMessage as error:
            raise StreamRefused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        except (LogError, ReplicaStopped) as error:
            raise _trouble(error) from error

    async def next_message(self) -> bytes | None:
        await self._settled.wait()
        message = None if self._link is None or self._failure else await self._link.next_message()
        if self._failure is not None:
            raise self._failure
        if message is None:
            return None
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("told: %s", message.WhichOneof("body"), extra={"node_id": self._node})
        return message.SerializeToString()

    async def over(self) -> None:
        """An agent that reads nothing does not keep its closed stream open."""
        await self._settled.wait()
        if self._link is not None:
            await self._link.closing.wait()
        await asyncio.sleep(GOODBYE_WITHIN_S)

    def close(self) -> None:
        self._end(SessionLost("the agent is gone"))

    def lose(self) -> None:
        self._end(SessionLost("this server does not lead any more"))

    def _end(self, why: SessionLost | StreamRefused) -> None:
        if self._failure is not None:
            return
        self._failure = why
        self._task.cancel()
        self._on_close(self)
        if self._link is not None:
            self._links.drop(self._link)
            self._service.closed(self._node, self._session)
        self._settled.set()

    async def _live(self, verifier: Verifier, token: str, register: bytes) -> None:
        try:
            registration = checked_registration(verifier, token, register)
            self._links.close(registration.node_id, "replaced by a newer stream")
            self._begin(registration, await self._service.register(registration))
            await self._commit_reports()
        except StreamRefused as refusal:
            self._end(refusal)
        except RegistrationRefused as refusal:
            self._end(StreamRefused(grpc.StatusCode.FAILED_PRECONDITION, str(refusal)))
        except (LogError, ReplicaStopped) as error:
            _log.warning("session ended: the log takes nothing", extra={"node_id": self._node})
            self._end(_trouble(error))
        except Exception as error:  # noqa: BLE001 - the edge: one agent's trouble stays its own
            _log.exception("session failed", extra={"node_id": self._node})
            self._end(StreamRefused(grpc.StatusCode.INTERNAL, type(error).__name__))

    def _begin(self, registration: Registration, greeting: Greeting) -> None:
        self._node, self._session = registration.node_id, greeting.session
        link = self._link = Link(
            registration.node_id,
            takes_batches=registration.takes_batches,
            features=registration.protocol.features,
        )
        self._links.adopt(link)
        link.put(
            welcome_message(replace(greeting, signs_uploads=self._uploads is not None and self._uploads.takes_output))
        )
        self._settled.set()
        ready_to_order()

    async def _take(self, message: pb.AgentMessage, link: Link) -> None:
        body = message.WhichOneof("body")
        _log.debug("heard: %s", body, extra={"node_id": self._node})
        match body:
            case "heartbeat" | "collected_beats":
                if not self._hear_beats(message):
                    await asyncio.sleep(SLOWED_DOWN_S)
            case "run_report":
                self._take_reports((message.run_report,))
            case "run_reports":
                self._take_reports(message.run_reports.reports)
            case "output_chunk":
                link.take_chunk(message.output_chunk)
            case "step_report" | "checkpoint_report":
                self._take_told(message)
            case "step_input_taken":
                link.take_input(message.step_input_taken)
            case "measured" | "images_told" | "telemetry_told" | "log_told":
                _take_answer(message, link)
            case "inventory" | "health_report" | "start_progress" | "ping" | "readiness" | "run_figures" | "at_hand":
                self._take_standing(message, link)
            case "confirmed" | "sign_upload":
                await self._take_request(message, link)
            case _:
                _log.warning("message without meaning here", extra={"node_id": self._node})

    async def _take_request(self, message: pb.AgentMessage, link: Link) -> None:
        """What the node waits for an answer to: orders, or a signature."""
        if message.HasField("sign_upload"):
            link.put(await self._signed(message.sign_upload))
        elif message.confirmed.session == self._session:
            await self._confirm(link)

    async def _signed(self, asked: pb.SignUpload) -> pb.ServerMessage:
        """The answer to a node that wants to store an object."""
        answer = pb.UploadSigned(ticket=asked.ticket)
        try:
            if self._uploads is None:
                raise UploadRefused("this server signs no requests to the object store")
            wanted = Wanted(asked.prefix, asked.name, asked.grant, asked.method, asked.query)
            signed = await self._uploads.sign(self._node, wanted)
            answer.url, answer.authorities = signed.url, signed.authorities
            answer.headers.update(signed.headers)
        except (UploadRefused, ObjectStoreError) as refusal:
            answer.error = str(refusal)
        return pb.ServerMessage(upload_signed=answer)

    def _take_told(self, message: pb.AgentMessage) -> None:
        """What the node says of steps and of checkpoints; an order follows, or is repeated."""
        if message.HasField("checkpoint_report"):
            report = checkpoint_of(message.checkpoint_report)
            self._service.checkpoint_report(self._node, self._session, report)
            return
        self._service.step_report(self._node, self._session, step_report_of(message.step_report))

    def _take_standing(self, message: pb.AgentMessage, link: Link) -> None:
        """What the node is, how its checks stand, how far its starts are, and how far away this server is."""
        if message.HasField("ping"):
            link.put(pb.ServerMessage(pong=pb.Pong(number=message.ping.number)))
            return
        if message.HasField("run_figures"):
            self._service.run_figures(self._node, self._session, figures_of(message.run_figures))
            return
        if message.HasField("at_hand"):
            self._service.at_hand(self._node, self._session, at_hand_of(message.at_hand))
            return
        if message.HasField("start_progress"):
            self._service.start_progress(self._node, self._session, START_PROGRESS.read(message.start_progress))
            return
        if message.HasField("readiness"):
            self._service.readiness(self._node, self._session, READINESS.read(message.readiness))
            return
        if message.HasField("inventory"):
            told = message.inventory
            self._service.inventory(self._node, self._session, told.document, told.fingerprint)
            return
        report = checks_of(message.health_report)
        link.take_health(report, self._service.health_report(self._node, self._session, report))

    def _hear_beats(self, message: pb.AgentMessage) -> bool:
        if message.HasField("heartbeat"):
            return self._service.beat(self._node, self._session, beat_of(message.heartbeat))
        return self._service.collected(self._node, self._session, shares_of(message.collected_beats))

    def _take_reports(self, reports: Iterable[pb.RunReport]) -> None:
        for report in reports:
            if len(self._reports) < REPORTS_MAX:
                self._reports.append(report)
                self._reported.set()

    async def _confirm(self, link: Link) -> None:
        if await self._service.confirm(self._node, self._session) and not link.is_closing:
            link.is_confirmed = True
            self._service.opened(self._node, self._session)

    async def _commit_reports(self) -> None:
        while True:
            await self._reported.wait()
            batch = [self._reports.popleft() for _ in range(min(len(self._reports), REPORT_BATCH))]
            if not self._reports:
                self._reported.clear()
            reports = [report for message in batch if (report := report_of(message)) is not None]
            if await self._committed(reports) and self._link is not None:
                # The newest of a run stands for those before it.
                newest = {(message.key.number, message.key.run): message for message in batch}
                self._link.acknowledge(
                    pb.ReportAck(key=each.key, seq=each.seq, instance=each.instance) for each in newest.values()
                )

    async def _committed(self, reports: list[Report]) -> bool:
        """Whether the reports are durable. A full log ends no session: the agent repeats what was not acknowledged."""
        if not reports:
            return True
        try:
            await self._service.report(self._node, self._session, reports)
        except LogError as error:
            _log.warning("reports were not recorded: %s", error, extra={"node_id": self._node})
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            return False
        return True


def _take_answer(message: pb.AgentMessage, link: Link) -> None:
    if message.HasField("measured"):
        link.take_figures(message.measured.ticket, use_of(message.measured))
    elif message.HasField("log_told"):
        link.take_log(message.log_told)
    elif message.HasField("telemetry_told"):
        link.telemetry.take(message.telemetry_told)
    else:
        link.take_images(message.images_told.ticket, images_of(message.images_told))


def _trouble(error: Exception) -> SessionLost | StreamRefused:
    """A leader that has stopped is replaced soon; a log that takes nothing may be better reached by another server."""
    if isinstance(error, ReplicaStopped):
        return SessionLost(str(error))
    return StreamRefused(grpc.StatusCode.UNAVAILABLE, str(error) or type(error).__name__)
