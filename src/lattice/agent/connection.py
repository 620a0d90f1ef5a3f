"""The stream to a server: keeps one open, to whichever server answers, and one queue of what is to be sent."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import grpc.aio

from lattice.wire.agent import Stream, open_channel, open_stream
from lattice.wire.pb import agent_pb2 as pb

FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 2.0
FIRST_ANSWER_WITHIN_S = 10.0
SHORT_STREAM_S = 1.0
CONTROL_LIMIT = 4096
OUTPUT_LIMIT = 16

_log = logging.getLogger(__name__)


class Outbox:
    """What is to be sent on one stream: control messages first, output as there is room."""

    def __init__(self) -> None:
        self._control: deque[pb.AgentMessage] = deque()
        self._output: deque[pb.AgentMessage] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Semaphore(OUTPUT_LIMIT)

    def post(self, message: pb.AgentMessage) -> bool:
        """Queue a control message; False when there are too many. Reports are repeated by the state anyway."""
        if len(self._control) >= CONTROL_LIMIT:
            return False
        self._control.append(message)
        self._filled.set()
        return True

    async def put_output(self, message: pb.AgentMessage) -> None:
        """Queue output as soon as there is room, so that a slow server slows its readers down."""
        await self._room.acquire()
        self._output.append(message)
        self._filled.set()

    async def take(self) -> pb.AgentMessage:
        while True:
            if self._control:
                return self._control.popleft()
            if self._output:
                self._room.release()
                return self._output.popleft()
            self._filled.clear()
            await self._filled.wait()


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


class Connector:
    """Holds a stream to one of several servers; moves on to the next when it ends."""

    def __init__(self, endpoints: Sequence[str], token: Callable[[], str], handler: Handler) -> None:
        self._endpoints = list(endpoints)
        self._token = token
        self._handler = handler
        # Spread the agents of a site over its servers.
        random.shuffle(self._endpoints)

    async def run(self) -> None:
        """Never returns."""
        failures = 0
        complaints: dict[str, str] = {}
        loop = asyncio.get_running_loop()
        while True:
            for endpoint in self._endpoints:
                begin_s = loop.time()
                try:
                    await self._stream(endpoint)
                except ServerGone as gone:
                    # A server that is away for days says so once.
                    is_news = gone.answered or complaints.get(endpoint) != str(gone)
                    complaints[endpoint] = "" if gone.answered else str(gone)
                    _log.log(logging.WARNING if is_news else logging.DEBUG, "no stream to %s: %s", endpoint, gone)
                    failures = 0 if gone.answered else failures + 1
                    if not gone.on_purpose or loop.time() - begin_s < SHORT_STREAM_S:
                        await asyncio.sleep(delay_s(failures))

    async def _stream(self, endpoint: str) -> None:
        """One stream from its opening to its end, which is always raised as ServerGone."""
        try:
            token = self._token()
        except OSError as error:
            raise ServerGone(f"cannot read the token: {error}", answered=False) from error
        outbox = Outbox()
        async with open_channel(endpoint) as channel:
            call = open_stream(channel, token)
            self._handler.opened(outbox)
            sender = asyncio.create_task(_send_all(call, outbox))
            try:
                await self._receive_all(call)
            finally:
                sender.cancel()
                call.cancel()
                self._handler.closed()

    async def _receive_all(self, call: Stream) -> None:
        answered = False
        try:
            async with asyncio.timeout(FIRST_ANSWER_WITHIN_S) as limit:
                while True:
                    message = await call.read()
                    if not isinstance(message, pb.ServerMessage):
                        raise ServerGone("closed by the server", answered=answered)
                    answered = True
                    limit.reschedule(None)
                    if message.WhichOneof("body") == "goodbye":
                        raise ServerGone(message.goodbye.why, answered=True, on_purpose=True)
                    self._handler.received(message)
        except grpc.aio.AioRpcError as error:
            code = error.code().name.lower()
            raise ServerGone(f"{code}: {error.details()}", answered=answered) from error
        except TimeoutError as error:
            raise ServerGone("no answer", answered=answered) from error


async def _send_all(call: Stream, outbox: Outbox) -> None:
    try:
        while True:
            await call.write(await outbox.take())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        # The reading side learns the same and says why.
        return


def delay_s(failures: int) -> float:
    """The pause before the next try: doubles from 0.05 s to 2 s, with jitter against stampedes."""
    longest = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
