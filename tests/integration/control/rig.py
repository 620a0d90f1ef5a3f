"""A server in this process (memory log, real gRPC, all loops but the clock's patience) and an agent that does as it is told."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc

from lattice.api.auth.tokens import TokenVerifier, sign_token
from lattice.api.grpc.agents.links import AgentLinkTable
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.agents.session import LocalRegistrar
from lattice.api.grpc.server import build_server
from lattice.control.bootstrap import Defaults, begin_at_newest_level, make_defaults
from lattice.control.collectors.tree import CollectorSettings, CollectorTree
from lattice.control.nodes.at_hand import NodesAtHand
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.inventories import Inventories
from lattice.control.nodes.session_table import SessionTable
from lattice.control.nodes.sessions import AgentSessions, SessionSettings
from lattice.control.nodes.timers import NodeTimers, TimerSettings
from lattice.control.nodes.watch import NodeWatch
from lattice.control.steps.registry import StepRegistry, StepSettings
from lattice.control.steps.wireup import WireUp
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.control.work.wanted_images import WantedImages
from lattice.core.machine.commands import AnyCommand, SubmitAllocation
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Request
from lattice.ports.clock import SystemClock
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.replica import LogReplica
from lattice.wire.agents.channel import Stream, open_channel, open_stream
from lattice.wire.pb import agent_pb2 as pb
from lattice.wire.work.payloads import Work, encode_work

COLLECTING = CollectorSettings()
SECRET = b"0123456789abcdef0123456789abcdef"


def agent_token(*, kind: str = "agent", node: str | None = None, lifetime_s: int = 3600, issued_in_s: int = 0) -> str:
    now_s = SystemClock().now_ms() // 1000 + issued_in_s
    return sign_token(
        SECRET,
        user="agent",
        issued_at_s=now_s,
        lifetime_s=lifetime_s,
        kind="agent" if kind == "agent" else "user",
        node=node,
    )


class Rig:
    """The server's side."""

    def __init__(
        self,
        *,
        timeout_s: float = 30.0,
        grace_s: float = 60.0,
        retry_s: float = 2.0,
        collecting: CollectorSettings = COLLECTING,
    ) -> None:
        clock = SystemClock()
        self.replica = LogReplica(log=MemoryLog(), archive=SqliteArchive(None), snapshots=None, clock=clock)
        self.links = AgentLinkTable()
        self.observations = Observations()
        self.at_hand = NodesAtHand()
        self._timings = (timeout_s, grace_s, retry_s)
        self._collecting = collecting
        self._clock = clock
        self._changed = asyncio.Event()
        self.endpoint = ""

    @property
    def state(self) -> State:
        return self.replica.state

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Rig"]:
        await self.replica.start()
        await begin_at_newest_level(self.replica)
        await make_defaults(self.replica, Defaults())
        timeout_s, grace_s, retry_s = self._timings
        clock, replica, links = self._clock, self.replica, self.links
        self.scheduling = self._scheduling()
        self.dispatch = Dispatch(
            replica, links, clock, DispatchSettings(retry_s=retry_s, grace_s=1.0), lambda allocation: "token"
        )
        timers = NodeTimers(replica, TimerSettings(timeout_s=timeout_s, grace_s=grace_s))
        self.inventories = Inventories(links, clock)
        table = SessionTable(replica, self.observations, self.inventories, clock, 0.05)
        self.collectors = CollectorTree(replica, links, self.observations, clock, self._collecting, table.hear)
        self.sessions = AgentSessions(
            replica=replica,
            links=links,
            observations=self.observations,
            clock=clock,
            settings=SessionSettings(),
            timers=timers,
            table=table,
            steps=StepRegistry(
                replica,
                links,
                clock,
                StepSettings(),
                lambda allocation: "token",
                lambda node: None,
                WireUp(lambda launch_id: bytes(32), lambda node: ""),
            ),
            collectors=self.collectors,
            health=HealthRegistry(replica, links, clock),
            inventories=self.inventories,
            known_at_hand=self.at_hand,
            on_opened=self._opened,
        )
        self.watch = NodeWatch(replica, links, self.observations, clock, timers)
        verifier = TokenVerifier(SECRET, clock)
        service = self.service = AgentService(verifier, LocalRegistrar(verifier, self.sessions, links))
        server, port = build_server(service, "127.0.0.1:0")
        self.endpoint = f"127.0.0.1:{port}"
        replica.subscribe(lambda index, envelope, events: self._changed.set())
        loops = [asyncio.create_task(loop.run()) for loop in (self.scheduling, self.dispatch, self.watch)]
        await server.start()
        try:
            yield self
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await server.stop(0)
            await replica.stop()
            # A gRPC server that is collected after its event loop was closed complains.
            del server, service, self.service
            gc.collect()
            await asyncio.sleep(0.01)

    def _scheduling(self) -> Scheduling:
        wanted = WantedImages(self.replica, self.at_hand.having, self.at_hand.has_images)
        return Scheduling(
            self.replica,
            self.observations,
            self._clock,
            SchedulingSettings(),
            wanted_images=wanted.of,
            gpu_sets=self.at_hand.gpu_sets,
        )

    def _opened(self, node: str) -> None:
        self.dispatch.node_opened(node)
        self.scheduling.node_opened(node)

    async def do(self, command: AnyCommand) -> int:
        outcome = await self.replica.propose(command, actor="test")
        assert isinstance(outcome, Accepted), outcome
        return outcome.number

    async def submit(self, *argv: str) -> int:
        return await self.do(
            SubmitAllocation(
                name="test",
                user="ada",
                account="ada",
                tenant="default",
                vcluster="default",
                request=Request(),
                payload=encode_work(Work(argv=argv or ("true",))),
            )
        )

    async def until(self, condition: Callable[[State], bool]) -> None:
        """Returns when the state satisfies the condition."""
        async with asyncio.timeout(10):
            while not condition(self.state):
                self._changed.clear()
                await self._changed.wait()


@dataclass
class FakeAgent:
    """Plays one agent over a real stream. `orders` holds what the server said besides Welcome and acks; `deaf` = reads no more."""

    node: str
    endpoint: str
    token: str = field(default_factory=agent_token)
    known: list[tuple[int, int]] = field(default_factory=list)
    orders: "asyncio.Queue[pb.ServerMessage]" = field(default_factory=asyncio.Queue)
    acks: list[tuple[int, int, int]] = field(default_factory=list)
    welcomes: list[pb.Welcome] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    deaf: bool = False
    register: pb.Register | None = None  # None: one of this release
    protocol: pb.Protocol | None = None
    goodbye: str = ""
    error: grpc.aio.AioRpcError | None = None
    _seq: int = 0

    @contextlib.asynccontextmanager
    async def connected(self, *, register: bool = True, confirm: bool = True) -> AsyncIterator["FakeAgent"]:
        async with open_channel(self.endpoint) as channel:
            self._stream: Stream = open_stream(channel, self.token)
            if register:
                with contextlib.suppress(grpc.aio.AioRpcError):  # a refusal is read below
                    await self.send(register=self.registration())
            reading = asyncio.create_task(self._read())
            if confirm:
                await self.until(lambda: bool(self.welcomes) or self.closed.is_set())
                await self.confirm()
            try:
                yield self
            finally:
                reading.cancel()
                self._stream.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    def registration(self) -> pb.Register:
        if self.register is not None:
            return self.register
        return pb.Register(
            protocol=self.protocol,
            node_id=self.node,
            hardware=pb.Hardware(cpus=4, memory_mb=4096),
            boot_id="boot",
            runs=[pb.KnownRun(key=pb.RunKey(number=n, run=r)) for n, r in self.known],
        )

    async def send(self, **body: object) -> None:
        await self._stream.write(pb.AgentMessage(**body))  # type: ignore[arg-type]

    async def confirm(self) -> None:
        await self.send(confirmed=pb.Confirmed(session=self.welcomes[-1].session))

    async def beat(self, *, seq: int | None = None, running: int = 0) -> None:
        self._seq = self._seq + 1 if seq is None else seq
        await self.send(heartbeat=pb.Heartbeat(seq=self._seq, running=running))

    async def report(self, number: int, run: int, phase: pb.Phase, seq: int, **more: object) -> None:
        key = pb.RunKey(number=number, run=run)
        await self.send(run_report=pb.RunReport(key=key, phase=phase, seq=seq, **more))  # type: ignore[arg-type]

    async def order(self) -> pb.ServerMessage:
        return await asyncio.wait_for(self.orders.get(), 10)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Polls, with a deadline: what is waited for happens on the other side of a socket."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def _read(self) -> None:
        try:
            while isinstance(message := await self._stream.read(), pb.ServerMessage):
                self._take(message)
                if self.deaf:
                    await asyncio.Event().wait()
        except grpc.aio.AioRpcError as error:
            self.error = error
        finally:
            self.closed.set()

    def _take(self, message: pb.ServerMessage) -> None:
        match message.WhichOneof("body"):
            case "welcome":
                self.welcomes.append(message.welcome)
            case "report_ack":
                ack = message.report_ack
                self.acks.append((ack.key.number, ack.key.run, ack.seq))
            case "goodbye":
                self.goodbye = message.goodbye.why
            case _:
                self.orders.put_nowait(message)


Scenario = Callable[[Rig], Awaitable[None]]


def served(test: Scenario, collecting: CollectorSettings = COLLECTING, **timings: float) -> None:
    """Runs the scenario against a server of its own."""

    async def run() -> None:
        async with Rig(collecting=collecting, **timings).serving() as rig:
            await test(rig)

    asyncio.run(asyncio.wait_for(run(), 60))
