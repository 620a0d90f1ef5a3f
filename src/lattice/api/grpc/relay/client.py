"""A follower's end of the relay: its agents register with the leader, all of them over one stream."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import count

import grpc
import grpc.aio

from lattice.api.grpc.agents.bulk import Write
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.agents.session import GOODBYE_WITHIN_S, SessionLost, StreamRefused
from lattice.api.grpc.forwarding import LeaderPlace
from lattice.api.grpc.relay.frames import MAX_MESSAGE_BYTES, WINDOW_BYTES, FrameQueue, check_greeting, greeting
from lattice.api.grpc.relay.service import BULK_SERVICE
from lattice.core.model.site.protocols import NoCommonVersion
from lattice.wire.channels import server_channel
from lattice.wire.pb import relay_pb2 as pb
from lattice.wire.pb.relay_pb2_grpc import RelayServiceStub

_log = logging.getLogger(__name__)

ANSWER_WITHIN_S = 5.0
PAUSE_S = 0.1
LOOK_EVERY_S = 0.5
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# A leader that hangs must be noticed before its nodes are given up.
CHANNEL_OPTIONS = server_channel(ping_every_s=3.0, give_up_s=3.0, max_message_bytes=MAX_MESSAGE_BYTES)

Call = grpc.aio.StreamStreamCall[pb.RelayFrames, pb.RelayFrames]


class LeaderRelay:
    """Implements `Registrar` by one stream to the leader."""

    def __init__(self, dial: Callable[[], grpc.aio.Channel]) -> None:
        self._dial = dial
        self._bulk: grpc.aio.Channel | None = None
        self._sessions: dict[int, RelayedSession] = {}
        self._numbers = count(1)
        self._is_lost = False
        self.queue = FrameQueue()

    def open(self, token: str, register: bytes) -> "RelayedSession":
        session = RelayedSession(self, next(self._numbers))
        if self._is_lost:
            session.lose()
        else:
            self._sessions[session.number] = session
            opened = pb.LinkOpened(token=token, register=register)
            self.queue.put(pb.RelayFrame(link=session.number, opened=opened))
        return session

    async def carry(self, token: str, messages: AsyncIterator[bytes], write: Write) -> None:
        """On a connection of its own: what is large does not stand before what is urgent."""
        if self._is_lost:
            raise StreamRefused(grpc.StatusCode.UNAVAILABLE, "the leader is gone")
        if self._bulk is None:
            self._bulk = self._dial()
        method = self._bulk.stream_stream(f"/{BULK_SERVICE}/Bulk", None, None)
        call = method(messages, metadata=grpc.aio.Metadata(("authorization", f"Bearer {token}")))
        try:
            async for message in call:
                await write(message)
        except grpc.aio.AioRpcError as error:
            raise StreamRefused(error.code(), error.details() or "the leader is gone") from error
        finally:
            call.cancel()

    async def run(self, call: Call, on_open: Callable[[], None]) -> None:
        """Carries frames until the stream ends; `on_open` is called when the leader takes links."""
        sending: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                batch = await call.read()
            if isinstance(batch, pb.RelayFrames):
                check_greeting(batch, "the leader")
            sending = asyncio.create_task(self._send(call))
            on_open()
            while isinstance(batch, pb.RelayFrames):
                for frame in batch.frames:
                    self._take(frame)
                batch = await call.read()
        finally:
            self._lose()
            if sending is not None:
                sending.cancel()
            call.cancel()
            if self._bulk is not None:
                await self._bulk.close(None)

    async def _send(self, call: Call) -> None:
        try:
            await call.write(greeting())
            while True:
                await call.write(await self.queue.take())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # the reading side learns the same and says why

    def _take(self, frame: pb.RelayFrame) -> None:
        session = self._sessions.get(frame.link)
        if session is None:
            return
        match frame.WhichOneof("body"):
            case "payload":
                session.take(frame.payload)
            case "closed":
                del self._sessions[frame.link]
                session.end(frame.closed)
            case _:
                _log.warning("a frame of a newer server is not understood")

    def forget(self, number: int) -> None:
        """The agent is gone: notify the leader, unless it knows."""
        if self._sessions.pop(number, None) is not None:
            self.queue.put(pb.RelayFrame(link=number, closed=pb.LinkClosed()))

    def _lose(self) -> None:
        self._is_lost = True
        self.queue.close()
        for session in list(self._sessions.values()):
            session.lose()
        self._sessions.clear()


class RelayedSession:
    """Implements `Session`: one agent's, held by the leader."""

    def __init__(self, relay: LeaderRelay, number: int) -> None:
        self.number = number
        self._relay = relay
        self._inbox: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._end: SessionLost | StreamRefused | None = None
        self._handed_on = 0  # size of the message that is being written to the agent
        self._uncredited = 0

    async def hear(self, message: bytes) -> None:
        if self._ended.is_set():
            raise self._end or SessionLost
        await self._relay.queue.put_when_room(pb.RelayFrame(link=self.number, payload=message))

    async def next_message(self) -> bytes | None:
        self._credit()
        while not self._inbox:
            if self._ended.is_set():
                if self._end is not None:
                    raise self._end
                return None
            self._wake.clear()
            await self._wake.wait()
        message = self._inbox.popleft()
        self._handed_on = len(message)
        return message

    async def over(self) -> None:
        await self._ended.wait()
        await asyncio.sleep(GOODBYE_WITHIN_S)

    def close(self) -> None:
        self._relay.forget(self.number)
        self.lose()

    def take(self, message: bytes) -> None:
        self._inbox.append(message)
        self._wake.set()

    def end(self, closed: pb.LinkClosed) -> None:
        code = _CODES.get(closed.code, grpc.StatusCode.UNKNOWN)
        if code is grpc.StatusCode.ABORTED:
            self._finish(SessionLost(closed.text))
        else:
            self._finish(None if code is grpc.StatusCode.OK else StreamRefused(code, closed.text))

    def lose(self) -> None:
        """Drop what was not forwarded yet: the next leader says it again."""
        if not self._ended.is_set():
            self._inbox.clear()
            self._finish(SessionLost("the leader is gone"))

    def _finish(self, end: SessionLost | StreamRefused | None) -> None:
        if not self._ended.is_set():
            self._end = end
            self._ended.set()
            self._wake.set()

    def _credit(self) -> None:
        """Asking for the next message says that the last one was written."""
        self._uncredited += self._handed_on
        self._handed_on = 0
        if self._uncredited >= WINDOW_BYTES // 4 and not self._ended.is_set():
            self._relay.queue.put(pb.RelayFrame(link=self.number, taken=self._uncredited))
            self._uncredited = 0


class Relaying:
    """Keeps a relay to the leader; `address` says where another server takes relays, nothing for this one or when unknown."""

    def __init__(
        self,
        service: AgentService,
        address: Callable[[str], str],
        leader: LeaderPlace,
        channel: Callable[[str], grpc.aio.Channel],
    ) -> None:
        self._service = service
        self._address = address
        self._leader = leader
        self._channel = channel
        self.relay: LeaderRelay | None = None

    async def run(self) -> None:
        """Never returns."""
        said = ""
        while True:
            moved, leader = self._leader.moved(), self._leader.leader_name
            if not self._address(leader):
                # Its address may become known without any change of leader.
                await asyncio.wait((moved,), timeout=LOOK_EVERY_S)
                continue
            problem = await self._relay_to(leader)
            if self._leader.leader_name == leader:
                if problem != said:
                    _log.warning("no relay to %s: %s", leader, problem)
                await asyncio.sleep(PAUSE_S)
            said = problem

    async def _relay_to(self, leader: str) -> str:
        """Relays until that server is gone or leads no more; why."""
        relaying = asyncio.create_task(self._carry(leader))
        try:
            while self._leader.leader_name == leader and not relaying.done():
                await asyncio.wait((relaying, self._leader.moved()), return_when=asyncio.FIRST_COMPLETED)
        finally:
            relaying.cancel()
            (problem,) = await asyncio.gather(relaying, return_exceptions=True)
        return problem if isinstance(problem, str) else ""

    async def _carry(self, leader: str) -> str:
        relay = LeaderRelay(lambda: self._channel(self._address(leader)))

        def attend() -> None:
            _log.info("agents of this server are relayed to %s", leader)
            self.relay = relay
            self._service.receive_at(relay)

        try:
            async with self._channel(self._address(leader)) as channel:
                await relay.run(RelayServiceStub(channel).Relay(), attend)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name.lower()}: {error.details()}"
        except NoCommonVersion as error:
            return str(error)
        except TimeoutError:
            return "no answer"
        finally:
            self.relay = None
            self._service.leave(relay)
        return "closed by the leader"
