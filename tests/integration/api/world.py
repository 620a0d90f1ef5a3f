"""A whole API in this process: real operations over a real replica (memory log), agents that are told what to say."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import Message

from lattice.api.auth.tokens import TokenVerifier, sign_token
from lattice.api.rest.app import RestApp, build_app
from lattice.api.services import Services
from lattice.core.machine.commands import (
    AnyCommand,
    ArchiveAllocations,
    ConfirmNode,
    FoldTasks,
    PlaceAllocation,
    RaiseLevel,
    RegisterNode,
    ReportPart,
    SetTenant,
    SetVcluster,
)
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.tenants import Tenant, Vcluster, Visibility
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase, TaskGroup
from lattice.ports.quorum.object_store import ObjectMissing
from lattice.ports.scheduling import Outlook, Prediction, SchedulingStatus
from lattice.ports.site.identity import Kind
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.replica import LogReplica
from lattice.testing import FakeLinks, HandClock

SECRET = b"0123456789abcdef0123456789abcdef"
NOW_MS = 1_772_700_000_000


class DayClock(HandClock):
    """Time of day stands still until it is set; the monotonic clock runs, for what waits with a deadline."""

    def monotonic_s(self) -> float:
        return time.monotonic()


class FakeScheduling:
    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}
        self.cycles = 3

    def reason_for(self, number: int) -> str:
        return self.reasons.get(number, "")

    def behind(self) -> frozenset[int]:
        return frozenset(number for number, text in self.reasons.items() if text.startswith("waiting behind"))

    def outlook(self, number: int) -> Outlook | None:
        return Outlook(reason=self.reasons[number]) if number in self.reasons else None

    def predictions(self, number: int) -> tuple[Prediction, ...]:
        return ()

    def candidates(self, number: int) -> None:
        return None

    def queue(self) -> list[int]:
        return []

    async def predict(self, record: Allocation | TaskGroup) -> Outlook:
        return Outlook(reason="no scheduler here")

    def status(self) -> SchedulingStatus:
        return SchedulingStatus(
            cycles=self.cycles, last_cycle_at=NOW_MS, last_cycle_ms=1.5, last_placements=1, placements=2
        )


class FakeObjects:
    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}

    async def put(self, name: str, data: bytes) -> None:
        self.stored[name] = data

    async def put_file(self, name: str, path: Path) -> None:
        self.stored[name] = path.read_bytes()

    async def get(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if name not in self.stored:
            raise ObjectMissing(name)
        end = None if length is None else offset + length
        return self.stored[name][offset:end]

    async def size(self, name: str) -> int:
        if name not in self.stored:
            raise ObjectMissing(name)
        return len(self.stored[name])

    async def delete(self, name: str) -> None:
        self.stored.pop(name, None)

    async def names(self, prefix: str) -> AsyncIterator[str]:
        for name in sorted(self.stored):
            if name.startswith(prefix):
                yield name


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body, type=dict[str, Any])

    @property
    def error(self) -> dict[str, str]:
        error: dict[str, str] = self.json()["error"]
        return error


@dataclass
class Event:
    """One server-sent event as a browser would see it."""

    data: Any
    id: str = ""
    event: str = ""


@dataclass
class Stream:
    """An open event stream; `raw` keeps every byte."""

    task: "asyncio.Task[None]"
    pieces: "asyncio.Queue[bytes | None]"
    hang_up: asyncio.Event
    raw: bytes = b""
    _rest: bytes = b""
    _ready: list[Event] = field(default_factory=list)

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        async with asyncio.timeout(10):
            while not self._ready:
                piece = await self.pieces.get()
                if piece is None:
                    return None
                self.raw += piece
                self._rest += piece
                *blocks, self._rest = self._rest.split(b"\n\n")
                events = [event for block in blocks if (event := _event(block))]
                self._ready += [event for event in events if event.event != "position"]
        return self._ready.pop(0)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        while (event := await self.next()) is not None:
            if wanted(event):
                return event
        raise AssertionError("the stream ended")

    async def close(self) -> None:
        self.hang_up.set()
        async with asyncio.timeout(10):
            await self.task


def _event(block: bytes) -> Event | None:
    event = Event(data=None)
    for line in block.decode().split("\n"):
        name, _, value = line.partition(": ")
        if name == "data":
            event.data = msgspec.json.decode(value)
        elif name in ("id", "event"):
            setattr(event, name, value)
    return event if event.data is not None else None


class World:
    def __init__(self, level: int = NEWEST) -> None:
        self.level = level
        self.clock = DayClock(ms=NOW_MS)
        self.replica = LogReplica(
            log=MemoryLog(),
            archive=SqliteArchive(None),
            snapshots=None,
            clock=self.clock,
            steady_s=lambda: self.clock.ms / 1000,
        )
        self.links = FakeLinks()
        self.objects = FakeObjects()
        self.scheduling = FakeScheduling()
        self.observations = Observations()
        self.ready = True
        self.services = Services(
            replica=self.replica,
            links=self.links,
            verifier=TokenVerifier(SECRET, self.clock),
            clock=self.clock,
            scheduling=self.scheduling,
            observations=self.observations,
            objects=self.objects,
            is_ready=lambda: self.ready,
            server_name="s1",
        )
        self.app: RestApp = build_app(self.services)
        self.admin = self.token("root", scope="admin")
        self.alice = self.token("alice")

    @property
    def state(self) -> State:
        return self.replica.state

    async def start(self) -> None:
        await self.replica.start()
        for level in range(OLDEST + 1, self.level + 1):
            await self.do(RaiseLevel(level=level))
        # Members see each other's work here; test_visibility and test_authorization have tenants where they do not.
        visibility = Visibility.TENANT if self.level > OLDEST else Visibility.OWN
        for tenant in ("default", "physics"):
            await self.do(SetTenant(tenant=Tenant(name=tenant, visibility=visibility), create=True))
        vcluster = Vcluster(name="default", default_walltime_s=3600)
        await self.do(SetVcluster(vcluster=vcluster, create=True))
        for node in ("n1", "n2"):
            await self.add_node(node)

    async def stop(self) -> None:
        self.services.feed.close()
        await self.replica.stop()

    async def do(self, command: AnyCommand) -> Accepted:
        outcome = await self.replica.propose(command, actor="test")
        assert isinstance(outcome, Accepted), outcome
        return outcome

    async def add_node(self, node: str) -> None:
        hardware = Hardware(cpus=4, memory_mb=4096, group="g1")
        await self.do(RegisterNode(node=node, hardware=hardware))
        await self.do(ConfirmNode(node=node))
        self.observations.join(node, self.clock.monotonic_s())
        self.links.open.add(node)

    def token(
        self,
        user: str,
        *,
        tenants: tuple[str, ...] = ("default",),
        scope: str = "",
        lifetime_s: int = 30 * 86_400,
        account: str = "",
        kind: Kind = "user",
        allocation: int | None = None,
    ) -> str:
        return sign_token(
            SECRET,
            user=user,
            issued_at_s=NOW_MS // 1000,
            lifetime_s=lifetime_s,
            tenants=tenants,
            scope=scope,
            account=account,
            kind=kind,
            allocation=allocation,
        )

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        prefix: str = "/api/v1",
    ) -> Response:
        """One request. `body` is encoded unless it is bytes; without a token alice asks."""
        sent = iter(_messages(body))
        got: dict[str, Any] = {"body": b""}

        async def receive() -> dict[str, Any]:
            message = next(sent, None)
            if message is None:
                await asyncio.Event().wait()
            return message or {}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert "status" not in got, "two answers to one request"
                got.update(status=message["status"], headers=message["headers"])
            else:
                got["body"] += message.get("body", b"")

        await self.app(self._scope(method, prefix + path, token, headers), receive, send)
        shown = {name.decode(): value.decode() for name, value in got["headers"]}
        return Response(got["status"], shown, got["body"])

    async def open(self, path: str, *, token: str | None = None, headers: dict[str, str] | None = None) -> Stream:
        """An event stream; waits until the answer has begun."""
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        hang_up, begun = asyncio.Event(), asyncio.Event()
        first = iter([{"type": "http.request", "body": b""}])

        async def receive() -> dict[str, Any]:
            message = next(first, None)
            if message is None:
                await hang_up.wait()
                return {"type": "http.disconnect"}
            return message

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200, message
            elif message.get("body"):
                pieces.put_nowait(message["body"])
                begun.set()
            if message["type"] == "http.response.body" and not message.get("more_body"):
                pieces.put_nowait(None)

        scope = self._scope("GET", f"/api/v1{path}", token, headers)
        task = asyncio.create_task(self.app(scope, receive, send))
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=10)
        waiting.cancel()
        return Stream(task, pieces, hang_up)

    def _scope(self, method: str, path: str, token: str | None, headers: dict[str, str] | None) -> dict[str, Any]:
        where, _, query = path.partition("?")
        shown = {"authorization": f"Bearer {self.alice if token is None else token}"}
        if token == "":
            shown = {}
        shown |= headers or {}
        return {
            "type": "http",
            "method": method,
            "path": where,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in shown.items()],
        }

    # what the loops and the agents would do

    async def submit(self, token: str | None = None, **fields: object) -> dict[str, Any]:
        body = {"entrypoint": ["true"], **fields}
        response = await self.call("POST", "/allocations", body, token=token)
        assert response.status == 201, response.body
        answer: dict[str, Any] = response.json()
        return answer

    async def place(self, number: int, *nodes: str, run: int = 1) -> None:
        shares = tuple(Share(node=node) for node in nodes or ("n1",))
        await self.do(PlaceAllocation(number=number, run=run, shares=shares))

    async def report(
        self,
        number: int,
        phase: PartPhase,
        *,
        node: str = "n1",
        run: int = 1,
        cause: Cause | None = None,
        exit_code: int = 0,
    ) -> None:
        seq = 1 if phase is PartPhase.RUNNING else 2
        command = ReportPart(number=number, run=run, node=node, seq=seq, phase=phase, cause=cause, exit_code=exit_code)
        await self.do(command)

    async def start_run(self, number: int, node: str = "n1", run: int = 1) -> None:
        await self.place(number, node, run=run)
        await self.report(number, PartPhase.RUNNING, node=node, run=run)

    async def report_running(self, number: int, node: str = "n1", run: int = 1) -> None:
        await self.report(number, PartPhase.RUNNING, node=node, run=run)

    async def finish(self, number: int, *, exit_code: int = 0, node: str = "n1", run: int = 1) -> None:
        await self.report(number, PartPhase.ENDED, node=node, run=run, cause=Cause.EXIT, exit_code=exit_code)

    async def archive(self, *numbers: int) -> None:
        """Tasks become rows of their group, and leave with it."""
        await self.do(FoldTasks(numbers=numbers))
        await self.do(ArchiveAllocations(numbers=numbers))


def _messages(body: object) -> list[dict[str, Any]]:
    if isinstance(body, list) and body and isinstance(body[0], bytes):
        pieces = body
    elif isinstance(body, bytes):
        pieces = [body]
    else:
        pieces = [b"" if body is None else msgspec.json.encode(body)]
    last = len(pieces) - 1
    return [{"type": "http.request", "body": piece, "more_body": place < last} for place, piece in enumerate(pieces)]


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Makes a test function of a coroutine that takes a started world."""

    async def scenario() -> None:
        world = World()
        await world.start()
        try:
            async with asyncio.timeout(60):
                await test(world)
        finally:
            await world.stop()

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(scenario())

    del run.__wrapped__  # pytest would ask for the world as a fixture
    return run


async def soon(look: Callable[[], bool | Awaitable[bool]]) -> None:
    """Lets others run until something is true."""
    async with asyncio.timeout(10):
        while True:
            seen = look()
            if await seen if isinstance(seen, Awaitable) else seen:
                return
            await asyncio.sleep(0)
