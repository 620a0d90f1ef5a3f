"""A small world for the loops: the real state machine behind a replica without a log, and nodes that only listen."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from lattice.core.machine.apply import apply
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.commands import (
    AnyCommand,
    ConfirmNode,
    Envelope,
    PlaceAllocation,
    RegisterNode,
    ReportPart,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted, Outcome
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node, Share
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase, Request
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.notifications import Notify
from lattice.ports.nodes.agents import Order, OutputName, OutputPiece
from lattice.ports.nodes.steps import AnyStepOrder, StepOrder
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveFilter
from lattice.ports.quorum.replica import Subscriber
from lattice.wire.work.allocations import Work, encode_work

HARDWARE = Hardware(cpus=4, memory_mb=4096)
P = ParamSpec("P")


def scenario(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a coroutine test on an event loop of its own, with a deadline."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 30))

    return run


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_000_000_000_000
        self.s = 1000.0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.s

    def pass_s(self, seconds: float) -> None:
        self.s += seconds
        self.ms += int(seconds * 1000)


class FakeReplica:
    """Applies at once. `failure` is raised by the next proposal, before anything happens."""

    def __init__(self, clock: FakeClock) -> None:
        self.state = State()
        self.applied_index = 0
        self.is_leader = True
        self.failure: Exception | None = None
        self.proposed: list[AnyCommand] = []
        self._clock = clock
        self._subscribers: list[Subscriber] = []

    async def propose(
        self,
        command: AnyCommand,
        *,
        actor: str,
        command_id: str = "",
        based_on: int | None = None,
    ) -> Outcome:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.proposed.append(command)
        at = max(self._clock.now_ms(), self.state.last_at)
        envelope = Envelope(at=at, command=command, actor=actor, command_id=command_id)
        outcome = apply(self.state, envelope)
        assert check(self.state) == []
        self.applied_index += 1
        if isinstance(outcome, Accepted):
            for subscriber in self._subscribers:
                subscriber(self.applied_index, envelope, outcome.events)
        return outcome

    async def propose_many(
        self, commands: Sequence[AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        return [await self.propose(command, actor=actor) for command in commands]

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def wait_for(self, index: int) -> None:
        assert index <= self.applied_index

    async def read_index(self) -> int:
        return self.applied_index

    async def archived(self, number: int) -> ArchivedRecord | None:
        return None

    async def archived_payload(self, number: int) -> bytes:
        return b""

    async def archived_dag(self, number: int) -> Dag | None:
        return None

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        return []

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        return []


@dataclass
class FakeLinks:
    """Remembers what was sent to whom; `heard` is set by every order."""

    open: set[str] = field(default_factory=set)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    sent: list[tuple[str, Order]] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    step_orders: list[tuple[str, AnyStepOrder]] = field(default_factory=list)
    fed: list[tuple[str, int, bytes, bool]] = field(default_factory=list)

    def send(self, node: str, order: Order) -> bool:
        if node not in self.open:
            return False
        self.sent.append((node, order))
        self.heard.set()
        return True

    def is_connected(self, node: str) -> bool:
        return node in self.open

    def connected(self) -> frozenset[str]:
        return frozenset(self.open)

    def close(self, node: str, why: str) -> None:
        self.closed.append((node, why))
        self.open.discard(node)

    async def read_output(
        self,
        node: str,
        number: int,
        run: int,
        stream: OutputName,
        *,
        offset: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=0, data=b"")

    def order_step(self, node: str, order: AnyStepOrder) -> bool:
        if node not in self.open:
            return False
        self.step_orders.append((node, order))
        return True

    async def feed_step(self, node: str, order: StepOrder, offset: int, data: bytes, *, eof: bool) -> int:
        self.fed.append((node, offset, data, eof))
        return offset + len(data)

    async def read_journal(
        self, node: str, order: StepOrder, *, offset: int, follow: bool
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=offset, data=b"")

    def take(self) -> list[tuple[str, Order]]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.replica = FakeReplica(self.clock)
        self.links = FakeLinks()

    @property
    def state(self) -> State:
        return self.replica.state

    def node(self, name: str) -> Node:
        return self.state.nodes[name]

    def allocation(self, number: int) -> Allocation:
        return self.state.allocations[number]

    async def do(self, command: AnyCommand, actor: str = "test") -> Accepted:
        outcome = await self.replica.propose(command, actor=actor)
        assert isinstance(outcome, Accepted), outcome
        return outcome

    async def prepare(self, *nodes: str) -> None:
        """Tenant, vCluster and Ready, connected nodes."""
        await self.do(SetTenant(tenant=Tenant(name="default"), create=True))
        vcluster = Vcluster(name="default", default_walltime_s=3600)
        await self.do(SetVcluster(vcluster=vcluster, create=True))
        for node in nodes:
            await self.do(RegisterNode(node=node, hardware=HARDWARE))
            await self.do(ConfirmNode(node=node))
            self.links.open.add(node)
        self.replica.proposed.clear()

    async def submit(
        self,
        *,
        nodes: int = 1,
        per_node: bool = False,
        tasks: tuple[tuple[int, int, int], ...] = (),
        walltime_s: int = 0,
        eligible_at: int = 0,
        payload: bytes | None = None,
        notify: Notify | None = None,
        deadline_at: int = 0,
        asked: Asked | None = None,
        vcluster: str = "default",
        name: str = "test",
    ) -> int:
        work = Work(argv=("true",), env={"A": "1"}, cwd="/tmp")
        command = SubmitAllocation(
            name=name,
            user="ada",
            account="ada",
            tenant="default",
            vcluster=vcluster,
            request=Request(nodes=nodes),
            per_node=per_node,
            tasks=tasks,
            walltime_s=walltime_s,
            eligible_at=eligible_at,
            deadline_at=deadline_at,
            notify=notify,
            asked=asked,
            payload=encode_work(work) if payload is None else payload,
        )
        return (await self.do(command)).number

    async def place(self, number: int, *nodes: str) -> None:
        shares = tuple(Share(node=node) for node in nodes)
        record = self.state.find(number)
        assert record is not None
        await self.do(PlaceAllocation(number=number, run=record.run + 1, shares=shares))

    async def started(self, number: int, node: str) -> None:
        run = self.allocation(number).run
        await self.do(ReportPart(number=number, run=run, node=node, seq=1, phase=PartPhase.RUNNING))

    async def ended(self, number: int, node: str, exit_code: int = 0) -> None:
        run = self.allocation(number).run
        await self.do(
            ReportPart(
                number=number,
                run=run,
                node=node,
                seq=2,
                phase=PartPhase.ENDED,
                cause=Cause.EXIT,
                exit_code=exit_code,
            )
        )

    async def running(
        self,
        *nodes: str,
        walltime_s: int = 0,
        per_node: bool = False,
        deadline_at: int = 0,
        asked: Asked | None = None,
    ) -> int:
        """The number of an allocation that runs on these nodes."""
        number = await self.submit(
            nodes=len(nodes), walltime_s=walltime_s, per_node=per_node, deadline_at=deadline_at, asked=asked
        )
        await self.place(number, *nodes)
        for node in nodes if per_node else nodes[:1]:
            await self.started(number, node)
        return number
