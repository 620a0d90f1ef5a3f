"""Nodes and collectors over TCP: the agent's listener, and the way to its own collector.

A client has to present a ticket first; until then almost nothing is read. A probe is answered without one: it tells no more than
that an agent is here, and whether it has a server.
"""

import asyncio
import logging
import random
import socket
from collections.abc import Callable

from lattice.agent.collectors.figures import FigureRelay
from lattice.agent.collectors.member import Gathering
from lattice.wire.agents.collecting import (
    MAX_FIRST_FRAME,
    MAX_FRAME,
    Alive,
    Answer,
    Ask,
    BadFrame,
    Bring,
    Figures,
    Frame,
    Frames,
    GatheredShare,
    Hello,
    Probe,
    Taken,
    encode,
)

_log = logging.getLogger(__name__)

HELLO_WITHIN_S = 5.0
CONNECT_WITHIN_S = 5.0
STRANGERS_MAX = 256
DELAYS_S = (0.1, 5.0)
# A peer that reads nothing gets nothing more: what is asked or answered now is worth nothing later.
BACKLOG_MAX = 16 << 20
_ASK, _ASK_FOR_FIGURES = encode(Ask()), encode(Ask(figures=True))


class _Connection(asyncio.Protocol):
    """Frames over one connection."""

    def __init__(self, limit: int) -> None:
        self._frames = Frames(limit)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self.heard(frame)
        except BadFrame as error:
            _log.debug("connection dropped: %s", error)
            self.close()

    def heard(self, frame: Frame) -> None:
        raise BadFrame(f"{type(frame).__name__} has no place here")

    def send(self, data: bytes) -> bool:
        """Whether it goes out."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() >= BACKLOG_MAX:
            return False
        transport.write(data)
        return True

    def give(self, frame: Figures | Taken) -> bool:
        return self.send(encode(frame))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Member(_Connection):
    """A client connected to this agent."""

    def __init__(self, listener: "Listener") -> None:
        super().__init__(MAX_FIRST_FRAME)
        self._listener = listener
        self._member: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._listener.strangers) >= STRANGERS_MAX:
            self.close()
            return
        self._listener.strangers.add(self)
        self._timer = asyncio.get_running_loop().call_later(HELLO_WITHIN_S, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_known()
        if self._member is not None:
            self._listener.gathering.left(self._member, self)

    def _is_known(self) -> None:
        self._listener.strangers.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def heard(self, frame: Frame) -> None:
        match frame:
            case Hello(member=member, ticket=ticket) if self._member is None:
                self._frames.limit = MAX_FRAME
                if not self._listener.gathering.joined(member, ticket, self):
                    self.close()
                    return
                self._member = member
                self._is_known()
            case Answer(beat=beat) if self._member is not None:
                self._listener.gathering.answered(self._member, beat)
            case Bring(shares=shares) if self._member is not None:
                self._listener.gathering.brought(self._member, shares)
            case Figures() if self._member is not None:
                self._listener.relay.brought(self, frame)
            case Probe() if self._member is None:
                self.send(encode(self._listener.probed()))
            case _:
                super().heard(frame)

    def ask(self) -> None:
        self.send(_ASK_FOR_FIGURES if self._listener.relay.takes else _ASK)


class Listener:
    """Where others find this agent. `probed` says who it is."""

    def __init__(self, gathering: Gathering, probed: Callable[[], Alive], relay: FigureRelay | None = None) -> None:
        self.gathering = gathering
        self.relay = relay or FigureRelay()
        self.probed = probed
        self.strangers: set[_Member] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """The port; an empty host = every address of this machine, old and new. Raises OSError."""
        is_dual = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_dual or ":" in host else socket.AF_INET
        # One socket for both families: two of them would have two ports.
        listening = socket.create_server((host, port), family=family, dualstack_ipv6=is_dual)
        listening.setblocking(False)
        self._server = await asyncio.get_running_loop().create_server(lambda: _Member(self), sock=listening)
        return int(listening.getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class _Way(_Connection):
    """This node's connection to its collector."""

    def __init__(self, hello: Hello, asked: Callable[[], None], relay: FigureRelay) -> None:
        super().__init__(MAX_FIRST_FRAME)
        self._hello = hello
        self._on_asked = asked
        self._relay = relay
        self.lost = asyncio.Event()
        self.was_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(encode(self._hello))

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.lost(self)
        self.lost.set()

    def heard(self, frame: Frame) -> None:
        match frame:
            case Ask():
                self.was_asked = True
                self._relay.asked(self, takes=frame.figures)
                self._on_asked()
            case Taken(number=number):
                self._relay.taken(number)
            case _:
                super().heard(frame)


class TcpLine:
    """Connects to a collector until closed."""

    def __init__(
        self, address: str, hello: Hello, asked: Callable[[], None], lost: Callable[[], None], relay: FigureRelay
    ) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port) if port.isdigit() else 0
        self._hello = hello
        self._asked = asked
        self._lost = lost
        self._relay = relay
        self._way: _Way | None = None
        self._task = asyncio.create_task(self._keep())

    def answer(self, beat: bytes) -> None:
        self._send(Answer(beat))

    def bring(self, shares: list[GatheredShare]) -> None:
        self._send(Bring(shares))

    def close(self) -> None:
        self._task.cancel()
        if self._way is not None:
            self._way.close()

    def _send(self, frame: Frame) -> None:
        if self._way is not None:
            self._way.send(encode(frame))

    async def _keep(self) -> None:
        delay_s, longest_s = DELAYS_S
        loop = asyncio.get_running_loop()
        while True:
            way = _Way(self._hello, self._asked, self._relay)
            try:
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    await loop.create_connection(lambda way=way: way, self._host, self._port)  # type: ignore[misc]
                self._way = way
                await way.lost.wait()
            except (OSError, ValueError, OverflowError) as error:  # also of an address that is none
                _log.debug("no way to the collector at %s:%d: %s", self._host, self._port, error)
            finally:
                self._way = None
                way.close()
            if way.was_asked:
                delay_s = DELAYS_S[0]
                self._lost()
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            delay_s = min(longest_s, 2 * delay_s)


class TcpSwitchboard:
    """Real connections."""

    def __init__(self, relay: FigureRelay | None = None) -> None:
        self._relay = relay or FigureRelay()

    def connect(
        self, address: str, member: int, ticket: int, *, asked: Callable[[], None], lost: Callable[[], None]
    ) -> TcpLine:
        return TcpLine(address, Hello(member, ticket), asked, lost, self._relay)
