"""The stream to a server: keeps one open, to whichever server answers, and one queue of what is to be sent."""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Protocol

import grpc.aio

from lattice.agent.machine.epochs import History, judge_epoch
from lattice.agent.machine.state import AgentState, EpochBegun
from lattice.core.model.site.protocols import Agreed, NoCommonVersion
from lattice.ports.nodes.agents import Greeting
from lattice.wire.agents.channel import Stream, open_channel, open_stream
from lattice.wire.agents.protocols import agree
from lattice.wire.pb import agent_pb2 as pb

FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 2.0
FIRST_ANSWER_WITHIN_S = 10.0
# A server to which all agents connect at the same time answers each in turn: those that were not reached wait longer the next time.
LONGEST_PATIENCE_S = 80.0
SHORT_STREAM_S = 1.0
CONTROL_LIMIT = 4096
OUTPUT_LIMIT = 16
REPORT_BATCH = 128
# How long the report of a start is held so that it can be batched: short work has often ended by then, and both go in one message.
SOON_S = 0.005
CLOSED = "closed by the server"
_FORGOTTEN = "Internal error from Core"  # gRPC's words for the end of a stream whose status it did not keep

_log = logging.getLogger(__name__)


class OutboxClosed(Exception):
    """Another outbox has taken its place."""


Dial = Callable[[], tuple[grpc.aio.Channel, str]]


class Outbox:
    """What is to be sent on one stream: control messages first, output as there is room."""

    def __init__(self) -> None:
        self._control: deque[pb.AgentMessage] = deque()
        self._output: deque[pb.AgentMessage] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Semaphore(OUTPUT_LIMIT)
        self._is_closed = False
        self._soon: list[pb.AgentMessage] = []
        self._beat: pb.AgentMessage | None = None  # the one that waits
        self.takes_batches = False  # said by the server
        self.dial: Dial | None = None  # a further connection to the same server, and the token for it

    def post(self, message: pb.AgentMessage) -> bool:
        """Queue a control message; False when there are too many. Reports are repeated by the state anyway."""
        if len(self._control) >= CONTROL_LIMIT or self._is_closed:
            return False
        self._hurry()
        if message.HasField("heartbeat"):
            if self._beat is not None:  # of several that could not be sent only the newest says anything
                self._beat.heartbeat.CopyFrom(message.heartbeat)
                return True
            self._beat = message
        self._control.append(message)
        self._filled.set()
        return True

    def post_soon(self, message: pb.AgentMessage) -> bool:
        """Queue a control message that may wait for the next one, if that comes immediately."""
        if not self.takes_batches:
            return self.post(message)
        if len(self._control) + len(self._soon) >= CONTROL_LIMIT or self._is_closed:
            return False
        if not self._soon:
            asyncio.get_running_loop().call_later(SOON_S, self._hurry)
        self._soon.append(message)
        return True

    def _hurry(self) -> None:
        if self._soon:
            self._control.extend(self._soon)
            self._soon.clear()
            self._filled.set()

    async def put_output(self, message: pb.AgentMessage) -> None:
        """Queue output as soon as there is room, so that a slow server slows its readers down."""
        await self._room.acquire()
        self._output.append(message)
        self._filled.set()

    def close(self) -> None:
        """What was not sent is of no use any more."""
        self._is_closed = True
        self._filled.set()

    async def take(self) -> pb.AgentMessage:
        """The next message; raises OutboxClosed."""
        while True:
            if self._is_closed:
                raise OutboxClosed
            if self._control:
                return self._next_control()
            if self._output:
                self._room.release()
                return self._output.popleft()
            self._filled.clear()
            await self._filled.wait()

    def _next_control(self) -> pb.AgentMessage:
        """The next message, or all reports up to the next other one."""
        message = self._control.popleft()
        if message is self._beat:
            self._beat = None
        if not (self.takes_batches and message.HasField("run_report") and self._is_report_next()):
            return message
        reports = [message.run_report]
        while self._is_report_next() and len(reports) < REPORT_BATCH:
            reports.append(self._control.popleft().run_report)
        return pb.AgentMessage(run_reports=pb.RunReports(reports=reports))

    def _is_report_next(self) -> bool:
        return bool(self._control) and self._control[0].HasField("run_report")


class Handler(Protocol):
    """Who speaks on the stream."""

    def opened(self, outbox: Outbox) -> None: ...

    def received(self, message: pb.ServerMessage) -> None: ...

    def closed(self) -> None: ...


class ServerGone(Exception):
    """The stream ended; `answered` says whether the server had said anything on it."""

    def __init__(self, why: str, *, answered: bool, on_purpose: bool = False) -> None:
        super().__init__(why)
        self.answered = answered
        self.on_purpose = on_purpose


def agree_with(welcome: pb.Welcome) -> Agreed:
    """The version that this agent and the server speak; ServerGone when they have none in common."""
    try:
        return agree(welcome.protocol, us="this agent", them=f"server {welcome.server_name}")
    except NoCommonVersion as error:
        raise ServerGone(str(error), answered=False) from error


def check_history(state: AgentState, welcome: Greeting, begin: Callable[[EpochBegun], None]) -> None:
    """Raises ServerGone unless the server speaks for the history that this agent serves; `begin` gets a later one."""
    match judge_epoch(state, welcome.epoch):
        case History.FORMER:
            raise ServerGone(
                f"{welcome.server_name} is of a former history of the cluster (epoch {welcome.epoch}), which was restored "
                f"since (epoch {state.epoch}); an agent that is to serve another cluster needs an empty state directory",
                answered=False,
            )
        case History.LATER:
            begin(EpochBegun(epoch=welcome.epoch))
            raise ServerGone("the cluster was restored; registering with all that is known here", answered=True)


def preferred(endpoints: Sequence[str], node: str) -> list[str]:
    """The endpoints as this node tries them: every node has an order of its own, so that all servers get their share of
    the agents, and the agents of a server that is gone spread over all that are left."""
    return sorted(dict.fromkeys(endpoints), key=lambda endpoint: sha256(f"{node} {endpoint}".encode()).digest())


class Connector:
    """Holds a stream to one of several servers; moves on to the next when it ends."""

    def __init__(
        self,
        endpoints: Sequence[str],
        token: Callable[[], str],
        handler: Handler,
        node: str = "",
        open_channel: Callable[[str], AbstractAsyncContextManager[grpc.aio.Channel]] = open_channel,
        dial: Callable[[str], grpc.aio.Channel] | None = None,
    ) -> None:
        self._endpoints = preferred(endpoints, node)
        self._open_channel = open_channel
        self._dial = dial
        self._token = token
        self._handler = handler

    async def run(self) -> None:
        """Never returns."""
        failures = 0
        complaints: dict[str, str] = {}
        loop = asyncio.get_running_loop()
        untried: deque[str] = deque()
        while True:
            untried = untried or deque(self._endpoints)
            endpoint = untried.popleft()
            begin_s = loop.time()
            try:
                await self._stream(endpoint, patience_s(failures // len(self._endpoints)))
            except ServerGone as gone:
                # A server that is away for days says so once.
                known = complaints.get(endpoint)
                is_news = gone.answered or (str(gone) != known and not (known and str(gone) == CLOSED))
                if is_news:
                    complaints[endpoint] = "" if gone.answered else str(gone)
                _log.log(logging.WARNING if is_news else logging.DEBUG, "no stream to %s: %s", endpoint, gone)
                failures = 0 if gone.answered else failures + 1
                if gone.answered:
                    untried = deque([other for other in self._endpoints if other != endpoint] + [endpoint])
                if not gone.on_purpose or loop.time() - begin_s < SHORT_STREAM_S:
                    await asyncio.sleep(delay_s(failures))

    async def _stream(self, endpoint: str, patience: float) -> None:
        """One stream from its opening to its end, which is always raised as ServerGone."""
        try:
            token = self._token()
        except OSError as error:
            raise ServerGone(f"cannot read the token: {error}", answered=False) from error
        dial = self._dial
        line = _Line(None if dial is None else lambda: (dial(endpoint), self._token()))
        async with self._open_channel(endpoint) as channel:
            call = open_stream(channel, token)
            self._handler.opened(line.outbox)
            sender = asyncio.create_task(_send_all(call, line))
            try:
                await self._receive_all(call, line, patience)
            finally:
                sender.cancel()
                call.cancel()
                self._handler.closed()

    async def _receive_all(self, call: Stream, line: "_Line", patience: float) -> None:
        answered = False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience) as limit:
                while True:
                    message = await call.read()
                    if not isinstance(message, pb.ServerMessage):
                        raise ServerGone(CLOSED, answered=answered)
                    answered = True
                    limit.reschedule(None)
                    match message.WhichOneof("body"):
                        case "goodbye":
                            raise ServerGone(message.goodbye.why, answered=True, on_purpose=True)
                        case "rejoin":
                            self._rejoin(line)
                            limit.reschedule(loop.time() + FIRST_ANSWER_WITHIN_S)
                        case "batch":
                            for each in message.batch.messages:
                                self._handler.received(each)
                        case _:
                            self._handler.received(message)
        except grpc.aio.AioRpcError as error:
            raise ServerGone(reason_of(error), answered=answered) from error
        except TimeoutError as error:
            raise ServerGone("no answer", answered=answered) from error

    def _rejoin(self, line: "_Line") -> None:
        """Another server leads: as if the stream had ended and a new one were open, but for the agents' work on the way."""
        _log.info("another server leads; registering again")
        self._handler.closed()
        self._handler.opened(line.renew())


class _Line:
    """The outbox that is being sent from; a new one for each registration on the same stream."""

    def __init__(self, dial: Dial | None) -> None:
        self.outbox = Outbox()
        self.outbox.dial = dial

    def renew(self) -> Outbox:
        old, self.outbox = self.outbox, Outbox()
        self.outbox.dial = old.dial
        old.close()
        return self.outbox


async def _send_all(call: Stream, line: _Line) -> None:
    try:
        while True:
            with contextlib.suppress(OutboxClosed):
                await call.write(await line.outbox.take())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        # The reading side learns the same and says why.
        return


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """Why the stream ended. gRPC forgets what the server said when a message was on its way to it at that moment."""
    if error.details() == _FORGOTTEN:
        return CLOSED
    return f"{error.code().name.lower()}: {error.details()}"


def patience_s(failures: int) -> float:
    """How long the first answer of a server may take: doubles from 10 s to 80 s."""
    return min(LONGEST_PATIENCE_S, FIRST_ANSWER_WITHIN_S * 2.0 ** min(failures, 16))


def delay_s(failures: int) -> float:
    """The pause before the next try: doubles from 0.05 s to 2 s, with jitter against stampedes."""
    longest = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
