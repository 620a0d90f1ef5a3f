"""Asks the instances of services for their health, tells servers which are ready, and drains them before they are stopped.

Decides nothing: `agent/machine/probes.py` says what an answer means, `agent/machine/decide.py` what follows for the run.
A port is asked only where a process of the run itself listens on it, as for tunnels: what another user's process says counts for nothing.
A command is run by the shim, as the run's user in its group and file system.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from lattice.agent.machine.probes import Health, answered, begun, due, next_due_s, unasked
from lattice.agent.machine.state import ProbeFailed
from lattice.agent.shim_client import ShimMessage
from lattice.agent.tunnels.streams import Refused
from lattice.ports.nodes.agents import Readiness, RunKey, StartOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.wire.agents.messages import READINESS
from lattice.wire.pb import agent_pb2 as pb

MAX_HEAD_BYTES = 64 << 10
GOOD_STATUS = range(200, 400)
DRAIN_LOOK_S = 0.1
LEAST_WAIT_S = 0.05
SHIM_SLACK_S = 5.0  # for the way to the shim and back
MAX_TEXT = 200
UNKNOWN_OP = "unknown op "  # what shims answer to requests that they do not know
NOT_YET = "its probes have not passed yet"
TOO_OLD = "the shim of its node is of an older release and cannot run commands as probes"

_log = logging.getLogger(__name__)


class CannotAsk(Exception):
    """The node has no means for this probe: that says nothing about the instance."""


class Connections(Protocol):
    """What is needed of the node's tunnels."""

    def in_flight(self, key: RunKey) -> int:
        """Connections to the run on which an answer is awaited."""
        ...

    async def connect(self, key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a process of the run; raises Refused."""
        ...


@dataclass
class _Watch:
    """One attempt of one instance."""

    order: StartOrder
    health: Health
    task: asyncio.Task[None] | None = None
    told: Readiness | None = None
    is_draining: bool = False
    asking: set[int] = field(default_factory=set)
    was_answered: asyncio.Event = field(default_factory=asyncio.Event)


class InstanceWatch:
    """All instances of services on this node that have a process."""

    def __init__(
        self,
        bulk: Connections,
        ask: Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None],
        post: Callable[[pb.AgentMessage], None],
        feed: Callable[[ProbeFailed], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
        clock: Callable[[], float],
    ) -> None:
        self._bulk = bulk
        self._ask_shim = ask
        self._post = post
        self._feed = feed
        self._spawn = spawn
        self._clock = clock
        self._watched: dict[RunKey, _Watch] = {}

    def begin(self, order: StartOrder) -> None:
        """An attempt has started: its probes start again."""
        self.end(order.key)
        watch = _Watch(order, begun(order.probes, self._clock()))
        self._watched[order.key] = watch
        self._tell(watch)
        if order.probes:
            watch.task = asyncio.create_task(self._ask_on(watch))

    def end(self, key: RunKey) -> None:
        """The attempt is over, or about to be."""
        watch = self._watched.pop(key, None)
        if watch is not None and watch.task is not None:
            watch.task.cancel()

    def announce(self) -> None:
        """To a server that just took this node in: how every instance stands."""
        for watch in self._watched.values():
            watch.told = None
            self._tell(watch)

    def stop(self, key: RunKey, grace_s: float, then: Callable[[], None]) -> None:
        """Calls `then` when no request to the instance is in flight any more, or its time for that is over; without grace at once.

        Nothing happens while it is drained already: orders to stop are repeated.
        """
        watch = self._watched.get(key)
        if watch is None or not watch.order.drain_s or grace_s <= 0:
            then()
        elif not watch.is_draining:
            watch.is_draining = True
            self._tell(watch)
            self._spawn(self._drain(watch, then))

    async def _drain(self, watch: _Watch, then: Callable[[], None]) -> None:
        until_s = self._clock() + watch.order.drain_s
        while self._bulk.in_flight(watch.order.key) and self._clock() < until_s:  # noqa: ASYNC110 - nothing tells the last answer
            await asyncio.sleep(DRAIN_LOOK_S)
        then()

    def _tell(self, watch: _Watch) -> None:
        """Only where it is news, and only where a server cannot know it by itself."""
        order = watch.order
        is_ready = watch.health.ready and not watch.is_draining
        text = "" if is_ready else "it is being drained" if watch.is_draining else watch.health.text or NOT_YET
        is_plain = is_ready and watch.told is None and not _has_readiness(order)
        told = Readiness(key=order.key, instance=order.instance, ready=is_ready, text=text)
        if told != watch.told and not is_plain:
            watch.told = told
            self._post(pb.AgentMessage(readiness=READINESS.write(told)))

    async def _ask_on(self, watch: _Watch) -> None:
        """Asks whatever is due until the attempt ends; probes do not wait for each other."""
        async with asyncio.TaskGroup() as asked:
            while next_due_s(watch.health) is not None:
                # None: all that can be due is being asked.
                due_s = next_due_s(watch.health, watch.asking)
                watch.was_answered.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if due_s is None else max(LEAST_WAIT_S, due_s - self._clock())):
                        await watch.was_answered.wait()
                for place in due(watch.health, self._clock()):
                    if place not in watch.asking:
                        watch.asking.add(place)
                        asked.create_task(self._ask(watch, place))

    async def _ask(self, watch: _Watch, place: int) -> None:
        probe = watch.order.probes[place]
        failure = cannot = ""
        try:
            failure = await self._failure(watch.order.key, probe)
        except CannotAsk as error:
            cannot = str(error)
        finally:
            watch.asking.discard(place)
            watch.was_answered.set()
        if watch.health.why_ended or self._watched.get(watch.order.key) is not watch:
            return
        if cannot:
            watch.health = unasked(watch.health, place, cannot, self._clock())
        else:
            watch.health = answered(watch.health, place, failure, self._clock())
        self._tell(watch)
        if watch.health.why_ended:
            told = ProbeFailed(key=watch.order.key, attempt=watch.order.attempt, message=watch.health.why_ended)
            self._feed(told)

    async def _failure(self, key: RunKey, probe: ProbeOrder) -> str:
        """Why the probe did not pass; empty when it did."""
        if probe.type is ProbeType.EXEC:
            return await self._run(key, probe)
        try:
            async with asyncio.timeout(probe.timeout_s):
                reader, writer = await self._bulk.connect(key, probe.port)
                with contextlib.closing(writer):
                    if probe.type is ProbeType.TCP:
                        return ""
                    return await _get(reader, writer, probe)
        except Refused as refused:
            return str(refused)
        except TimeoutError:
            return f"port {probe.port} did not answer within {probe.timeout_s:g} s"
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            return f"port {probe.port}: {str(error) or 'the connection was closed'}"
        except Exception as error:  # noqa: BLE001 - the loop's edge: a probe must not end in silence
            _log.exception("probe failed")
            return f"the node could not ask: {error}"

    async def _run(self, key: RunKey, probe: ProbeOrder) -> str:
        """Why the command did not end with code 0. The shim keeps its time: it also ends what the command has started.

        Raises CannotAsk where the shim is older than such probes: shims outlive agents.
        """
        answer: asyncio.Future[ShimMessage] = asyncio.get_running_loop().create_future()

        def answered(message: ShimMessage) -> None:
            if not answer.done():
                answer.set_result(message)

        words = {"op": "probe", "number": key.number, "run": key.run, "argv": list(probe.command)}
        self._ask_shim({**words, "within_s": probe.timeout_s}, answered)
        try:
            async with asyncio.timeout(probe.timeout_s + SHIM_SLACK_S):
                said = await answer
        except TimeoutError:
            return f"{_plain(probe.command[0])}: the node did not answer within {probe.timeout_s + SHIM_SLACK_S:g} s"
        if not said.ok and said.error.startswith(UNKNOWN_OP):
            raise CannotAsk(TOO_OLD)
        return _judged(said, probe.command[0])


def _judged(said: ShimMessage, program: str) -> str:
    """Why the command did not pass, with the first line that it wrote."""
    if said.ok and not said.exit_code and not said.signal:
        return ""
    how = said.error or (f"ended by signal {said.signal}" if said.signal else f"exit code {said.exit_code}")
    wrote = next((line for line in said.output.splitlines() if line.strip()), "")
    return f"{_plain(program)}: {how}" + (f": {_plain(wrote)}" if wrote else "")


def _plain(text: str) -> str:
    """Without what would move the cursor of a terminal; work writes it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:MAX_TEXT])


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, probe: ProbeOrder) -> str:
    """Why GET path was not answered well."""
    head = f"GET {probe.path} HTTP/1.1\r\nHost: localhost:{probe.port}\r\nUser-Agent: lattice-probe\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    line = (await reader.readline())[:MAX_HEAD_BYTES].decode("latin-1").strip()
    words = line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        return f"port {probe.port} does not speak HTTP"
    return "" if int(words[1]) in GOOD_STATUS else f"GET {probe.path} was answered with {words[1][:3]}"


def _has_readiness(order: StartOrder) -> bool:
    return any(probe.kind is not ProbeKind.LIVENESS for probe in order.probes)
