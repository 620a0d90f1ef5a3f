"""Every loop of a leader goes on for the others when it fails over one item, again and again, and says so."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from lattice.api.grpc.agents.links import AgentLinkTable
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.control import loop
from lattice.control.audit.sealing import Auditing
from lattice.control.capacity import evictions as evicting
from lattice.control.capacity.evictions import Evictions
from lattice.control.checkpoints.broker import CheckpointBroker
from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.control.collectors.tree import CollectorTree
from lattice.control.data import staging as staging_loop
from lattice.control.data.staging import Staging, StagingSettings
from lattice.control.loop import keep_alive
from lattice.control.nodes.conformance import Conformance
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.hooks import NodeHooks
from lattice.control.nodes.probing import Probing
from lattice.control.nodes.rebooting import Rebooting
from lattice.control.nodes.remediation import Remediation
from lattice.control.nodes.watch import NodeWatch
from lattice.control.nodes.wiping import Wiping
from lattice.control.retention.ended import EndedRetention
from lattice.control.services import moving, updating
from lattice.control.services.moving import Moving
from lattice.control.services.scaling import Autoscaling
from lattice.control.services.updating import Updating
from lattice.control.steps import registry as step_registry
from lattice.control.steps.live import LiveStep
from lattice.control.work import budget_notices as budget_notices_module
from lattice.control.work import tracing
from lattice.control.work.archiving import Archiving
from lattice.control.work.budget_notices import BudgetNotices
from lattice.control.work.deadlines import Deadlines
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.idle import IdleEnds
from lattice.control.work.log_retention import LogDeletion
from lattice.control.work.notifying import Notifying, NotifyingSettings
from lattice.control.work.reconcile import Reconcile, ReconcileSettings
from lattice.control.work.tracing import TraceCapture
from lattice.core.machine.commands import (
    ClaimCopy,
    DownNode,
    DrainNode,
    EvictAllocations,
    NoteDrift,
    PlaceAllocation,
    RaiseLevel,
    RebootNode,
    ReportCopy,
    ReportPart,
    RequestCheckpoint,
    ReviseService,
    SetSetting,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.rules.data import staging as staging_rules
from lattice.core.machine.state import State
from lattice.core.model.data.copies import CopyPhase, key_of
from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.nodes import DownCause, NodeState, Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.site.tenants import SENSITIVE, Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, PartPhase, Request
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.core.model.work.notifications import Notification, Notify, Occasion
from lattice.daemons.server.loops import Loops
from lattice.integrations.directory.store import DirectoryStore
from lattice.observe.metrics import Metrics
from lattice.ports.nodes.agents import StartOrder, TaskEnd
from lattice.ports.nodes.infrastructure import Flag
from lattice.ports.nodes.wiper import WipeOrder
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.retention import LogRetention
from lattice.testing import scenario
from lattice.wire.agents.collecting import Alive
from lattice.wire.files.chunks import Place
from lattice.wire.files.retained import Retained, ended_name
from lattice.wire.files.retained import write as write_retained
from lattice.wire.files.traces import TraceLine
from tests.unit.control.test_auditing import Desk
from tests.unit.control.test_autoscaling import Scaled
from tests.unit.control.test_collectors import Site
from tests.unit.control.test_conformance import NEW, Watched
from tests.unit.control.test_health import Book as Checked
from tests.unit.control.test_node_hooks import watched
from tests.unit.control.test_node_watch import Watch
from tests.unit.control.test_service_instances import serving
from tests.unit.control.test_steps import Book as Steps
from tests.unit.control.world import World


class Poison(Exception):
    """What no loop expects."""


Patch = pytest.MonkeyPatch


def poison(patch: Patch, owner: object, name: str, is_bad: Callable[..., bool]) -> None:
    """Lets a function of the loop fail for some of its items."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def wrapped(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the function has them
        if is_bad(*args):
            raise Poison(name)
        return real(*args, **more)

    @functools.wraps(real)
    async def awaited(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the function has them
        return await wrapped(*args, **more)

    patch.setattr(owner, name, awaited if inspect.iscoroutinefunction(real) else wrapped)


async def dispatch(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    made = Dispatch(world.replica, world.links, world.clock, DispatchSettings(), lambda allocation: "token")
    bad, good = await world.submit(), await world.submit()
    poison(patch, Dispatch, "_send_start", lambda self, allocation: allocation.number == bad)
    await world.place(bad, "n1")
    await world.place(good, "n2")
    await made.send_due()
    assert [order.key.number for _, order in world.links.take() if isinstance(order, StartOrder)] == [good]


async def reconcile(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.running("n1", walltime_s=1)
    good = await world.running("n2", walltime_s=1)
    made = Reconcile(world.replica, world.links, world.clock, ReconcileSettings(), lambda node: None)
    poison(patch, Reconcile, "_running_on", lambda self, node: node == "n1")
    world.clock.pass_s(1000)
    await made.compare()
    assert [command.number for command in world.replica.proposed if hasattr(command, "number")][-1] == good


async def updates(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    bad, good = await serving(world, "n1"), await serving(world, "n2")
    made = Updating(world.replica, Observations(), world.clock)
    for number in (bad, good):
        await world.do(ReviseService(number=number, base=0, payload=b"two"))
    poison(patch, updating, "next_steps", lambda record, *rest: record.number == bad)
    await made.step_due()
    assert [world.allocation(each).parts[0].phase for each in (bad, good)] == ["running", "leaving"]


async def drained_services(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2", "n3", "n4")
    bad, good = await serving(world, "n1"), await serving(world, "n2")
    observations = Observations()
    for node in ("n3", "n4"):
        observations.join(node, 0.0)
    made = Moving(world.replica, observations)
    for node in ("n1", "n2"):
        await world.do(DrainNode(node=node))
    poison(patch, moving, "_can_move", lambda record, node: record.number == bad)
    await made.move_due()
    assert [world.allocation(each).state for each in (bad, good)] == ["Running", "Stopping"]


async def budget_notices(patch: Patch, folder: Path) -> None:
    world = World()
    await world.replica.propose(RaiseLevel(level=2), actor="test")
    for name in ("bad", "good"):
        await world.do(SetTenant(tenant=Tenant(name=name, admins=("ada",), gpu_hours_budget=10.0), create=True))
    uses = {name: [(9.0, 10.0, "GPU")] for name in ("bad", "good")}
    made = BudgetNotices(world.replica, lambda: uses, lambda user, wanted: ("mail:ada@example.org",))
    poison(patch, BudgetNotices, "_due", lambda self, tenant, uses: tenant.name == "bad")
    await made.look()
    assert [world.state.notifications.noted_percent(name) for name in ("bad", "good")] == [0, 80]


async def autoscaling(patch: Patch, folder: Path) -> None:
    made = await Scaled.prepared("n1", "n2", services=2)
    bad, good = made.numbers
    poison(patch, Autoscaling, "_evaluated", lambda self, record, *rest: record.number == bad)
    made.values = {bad: 5.0, good: 5.0}
    await made.loop.evaluate_due()
    board = made.observations.scaling
    assert (board.get(bad), board.get(good) is not None) == (None, True)


async def evictions(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.replica.propose(RaiseLevel(level=2), actor="test")
    made = Evictions(world.replica, world.clock)
    kept = []
    for node in ("n1", "n2"):
        low = await world.submit(preemption_class=1, walltime_s=36_000)
        run = PlaceAllocation(number=low, run=1, shares=(Share(node=node),))
        await world.replica.propose(run, actor="test")
        begun = ReportPart(number=low, run=1, node=node, seq=1, phase=PartPhase.RUNNING)
        await world.replica.propose(begun, actor="test")
        world.clock.pass_s(600)
        high = await world.submit(preemption_class=9, walltime_s=3600)
        take = EvictAllocations(number=high, run=1, victims=((low, 1),), shares=(Share(node=node),))
        assert isinstance(await world.replica.propose(take, actor="test"), Accepted)
        gone = ReportPart(number=low, run=1, node=node, seq=2, phase=PartPhase.ENDED, stopped=True)
        await world.replica.propose(gone, actor="test")
        kept.append(high)
    records = world.replica.state.evictions.records
    assert list(records) == kept
    poison(patch, evicting, "_next", lambda eviction: eviction.number == kept[0])
    world.clock.pass_s(120)
    await made.enforce_due()
    assert list(records) == kept[:1]
    patch.undo()
    await made.enforce_due()
    assert not records  # it was not forgotten


async def deadlines(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1")
    made = Deadlines(world.replica, world.clock)
    soon = world.clock.now_ms() + 1000
    bad, good = [await world.submit(walltime_s=60, deadline_at=soon + 60_000) for _ in range(2)]
    poison(patch, Deadlines, "_due_at", lambda self, number: number == bad)
    world.clock.pass_s(10)
    await made.enforce_due()
    assert (world.allocation(good).cause, world.allocation(bad).is_terminal) == ("deadline", False)
    patch.undo()
    await made.enforce_due()
    assert world.allocation(bad).is_terminal  # it was not forgotten


async def staging(patch: Patch, folder: Path) -> None:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1")
    made = Staging(world.replica, world.clock, StagingSettings())
    bad, good = 0, 0
    for name in ("bad", "good"):
        wanted = SubmitAllocation(
            name=name,
            user="ada",
            account="ada",
            tenant="default",
            vcluster="default",
            request=Request(),
            data=("file:///warm/set",),
        )
        bad, good = good, (await world.do(wanted)).number
    key = key_of("file:///warm/set")
    for _ in range(3):
        world.clock.pass_s(600)
        await world.do(ClaimCopy(key=key, mover="m"))
        await world.do(ReportCopy(key=key, mover="m", generation=1, phase=CopyPhase.FAILED, reason="gone"))
    judged = staging_rules.is_settled

    def is_settled(state: State, head: Allocation) -> bool:
        if head.number == bad:
            raise RuntimeError("poisoned")
        return judged(state, head)

    patch.setattr(staging_loop, "is_settled", is_settled)
    await made.settle()
    assert (world.allocation(good).state, world.allocation(bad).state) == ("Pending", "Staging")
    patch.undo()
    await made.settle()
    assert world.allocation(bad).state == "Pending"  # it was not forgotten


async def idle_ends(patch: Patch, folder: Path) -> None:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    numbers = []
    for node in ("n1", "n2"):
        numbers.append(await world.submit(nodes=1, idle_end_s=600))
        await world.place(numbers[-1], node)
        await world.started(numbers[-1], node)
    bad, good = numbers
    made = IdleEnds(world.replica, world.clock, world.links, lambda number: ())

    async def quiet(self: IdleEnds, record: object, watch: object) -> bool:
        return False

    patch.setattr(IdleEnds, "_is_computing", quiet)
    poison(patch, IdleEnds, "_has_step", lambda self, number, watch: number == bad)
    world.clock.pass_s(1000)
    await made.look()
    assert (world.allocation(good).state, world.allocation(bad).state) == ("Stopping", "Running")


async def checkpoint_broker(patch: Patch, folder: Path) -> None:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    bad, good = [await world.running(node, checkpoint=CheckpointWay(), walltime_s=3600) for node in ("n1", "n2")]
    world.clock.pass_s(3500)
    made = CheckpointBroker(world.replica, world.clock, Observations(), lambda number, run: {})
    poison(patch, CheckpointBroker, "_estimate", lambda self, record: record.number == bad)
    assert await made.look() == [good]
    patch.undo()
    assert await made.look() == [bad]


async def checkpoint_requests(patch: Patch, folder: Path) -> None:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    made = CheckpointRequests(world.replica, world.links, world.clock)
    bad, good = [await world.running(node, checkpoint=CheckpointWay()) for node in ("n1", "n2")]
    poison(patch, CheckpointRequests, "_care_for", lambda self, number, given_up: number == bad)
    for number in (bad, good):
        await world.do(RequestCheckpoint(number=number))
    await made.turn()
    assert [order.key.number for _, order in world.links.checkpoints] == [good]
    patch.undo()
    world.clock.pass_s(5)
    await made.turn()
    assert bad in [order.key.number for _, order in world.links.checkpoints]  # it was not forgotten


async def node_watch(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    watch = Watch(world)
    poison(patch, NodeWatch, "_verdict", lambda self, node, now: node.id == "n1")
    await watch.pass_s(35)
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.READY, NodeState.DEGRADED)
    patch.undo()
    await watch.pass_s(3)
    assert world.node("n1").state is NodeState.DEGRADED  # it was not forgotten


class OneDeafReader:
    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, notification: Notification) -> None:
        self.sent.append(notification.to)


async def notifications(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    mail = OneDeafReader()
    made = Notifying(world.replica, world.clock, {"mail": mail}, NotifyingSettings())
    poison(patch, Notifying, "_send_first", lambda self, lane: lane.destination == "mail:bad")
    poison(patch, Notifying, "_passed_percent", lambda self, number, run, now: number == bad)
    told = Notify(on=(Occasion.BEGIN, Occasion.TIME_LIMIT_80), to=("mail:bad", "mail:good"))
    bad, good = [await world.submit(walltime_s=100, notify=told) for _ in range(2)]
    for number, node in ((bad, "n1"), (good, "n2")):
        await world.place(number, node)
        await world.started(number, node)
    world.clock.pass_s(85)
    task = asyncio.create_task(made.run())
    async with asyncio.timeout(10):
        while len(mail.sent) < 3:  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0)
    task.cancel()
    assert mail.sent == ["mail:good"] * 3  # both began, one is near its limit


async def archive(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    made = Archiving(world.replica, world.clock, after_s=10)
    bad, good = await world.running("n1"), await world.running("n2")
    await world.ended(bad, "n1")
    await world.ended(good, "n2")
    poison(patch, Archiving, "_may_leave", lambda self, number: number == bad)
    world.clock.pass_s(20)
    assert await made.archive_due() == 1
    assert list(world.state.allocations) == [bad]
    patch.undo()
    assert await made.archive_due() == 1  # it was not forgotten


async def log_retention(patch: Patch, folder: Path) -> None:
    world, store = World(), DirectoryStore(folder / "objects")
    await world.prepare("n1")
    world.clock.pass_s(10_000)
    names = [f"default/-/a{number}/logs/run-1/stdout/n1/{Place(at_ms=1).name}" for number in (1, 2)]
    for name in names:
        await store.put(name, b"x")
    made = LogDeletion(world.replica, world.clock, store, LogRetention(default_s=1.0))
    poison(patch, LogDeletion, "_is_over", lambda self, name, known: "/a1/" in name)
    assert await made.delete_old() == 1
    assert [name async for name in store.names("")] == names[:1]
    patch.undo()
    assert await made.delete_old() == 1


async def ended_retention(patch: Patch, folder: Path) -> None:
    world, store = World(), DirectoryStore(folder / "objects")
    await world.prepare("n1")
    world.clock.pass_s(10_000_000)
    for number in (1, 2):
        fields = {"number": number, "user": "ada", "tenant": "default", "ended_at": 1, "count": 1, "bytes": 1}
        record = Retained(root="/ck", directory=f"/ck/default/-/a{number}/checkpoints", **fields)  # type: ignore[arg-type]
        await store.put(ended_name(number), write_retained(record))
    made = EndedRetention(
        world.replica, world.clock, store, world.links, LogRetention(), lambda: ("n1",), folder / "traces"
    )
    poison(patch, EndedRetention, "_ask", lambda self, record, nodes: record.number == 1)
    assert await made.expire() == 1
    patch.undo()
    assert await made.expire() == 2


async def wiping(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(SetVcluster(vcluster=Vcluster(name="default", scheduler=SENSITIVE, default_walltime_s=60)))
    await world.do(SetSetting(key="sensitive.require_wipe", value="true"))
    for node in ("n1", "n2"):
        await world.ended(await world.running(node), node)

    class Wiper:
        async def wipe(self, order: WipeOrder, timeout_s: float) -> str:
            if order.node == "n1":
                raise Poison
            return "wiped"

    made = Wiping(world.replica, world.clock, Wiper())
    await made.look()
    await asyncio.gather(*(task for _, task in made._under_way.values()))
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.DRAINED, NodeState.BOOTING)


async def probing(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    for node in ("n1", "n2"):
        await world.do(DownNode(node=node, cause=DownCause.HARDWARE, reason="test"))

    async def ask(address: str, within_s: float) -> Alive | None:
        if address == "n1":
            raise Poison
        return Alive(address, False)

    assert await Probing(world.replica, {"n1": "n1", "n2": "n2"}, ask).probe() == {"n2"}


async def remediation(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    told: list[str] = []

    class Manager:
        async def flag(self, node: str, flag: Flag, message: str) -> None:
            if node == "n1":
                raise Poison
            told.append(node)

    made = Remediation(world.replica, world.clock, Manager())
    for node in ("n1", "n2"):
        await world.do(NoteDrift(node=node, vcluster="default", expected="a" * 64, actual="b" * 64))
    await made.tell()
    assert (told, made.counts) == (["n2"], {"told": 1, "failed": 1})


async def conformance(patch: Patch, folder: Path) -> None:
    names = ("n1", "n2", "n3", "n4", "n5")
    seen = await Watched(*names).begin()
    poison(patch, Conformance, "_noted", lambda self, node, verdict, actual: node == "n1")
    for node in ("n1", "n2"):
        seen.reports.say(node, NEW)
    await seen.loop.look()
    assert seen.drifted == ["n2"]


async def health(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    checked = Checked(world)
    poison(patch, HealthRegistry, "_decide", lambda self, node, known: node.id == "n1")
    failed = CheckStanding(name="disk", verdict=Verdict.FAILED, consequence=Consequence.DEGRADE)
    for node in ("n1", "n2"):
        checked.registry.take(node, HealthReport(checks=(failed,)))
    await checked.registry.settle()
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.READY, NodeState.DEGRADED)
    patch.undo()
    await checked.registry.settle()
    assert world.node("n1").state is NodeState.DEGRADED  # it was not forgotten


async def node_hooks(patch: Patch, folder: Path) -> None:
    world = World()
    hooks, program = await watched(world)
    moves = [event for node in ("n1", "n2") for event in (await world.do(DrainNode(node=node))).events]
    hooks._waiting.clear()
    poison(patch, NodeHooks, "_moved", lambda self, event, at: event.node == "n1")
    hooks._note(1, cast("Any", type("Envelope", (), {"at": 1})), moves)
    await hooks.tell()
    assert {event["node"] for event in program.events} == {"n2"}


async def rebooting(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    for node in ("n1", "n2"):
        await world.do(DrainNode(node=node))
        await world.do(RebootNode(node=node))
    documents: list[bytes] = []

    class Program:
        async def tell(self, document: bytes) -> None:
            documents.append(document)

    made = Rebooting(world.replica, world.clock, Program())
    poison(patch, Rebooting, "_take_up", lambda self, name, node, since: name == "n1")
    made.reset()
    await made.perform()
    assert [(b"n1" in document, b"n2" in document) for document in documents] == [(False, True)]


async def collectors(patch: Patch, folder: Path) -> None:
    site = Site("c1", "c1")
    poison(patch, type(site.links), "order_collecting", lambda self, node, order: node == "n1")
    site.open("n1", "n2")
    site.tree.plan()
    assert site.told("n2").collector == "c1"
    assert all(node != "n1" for node, _ in site.links.sent)
    patch.undo()
    site.tree.plan()
    assert site.told("n1").collector == "c1"  # it was not forgotten


async def steps(patch: Patch, folder: Path) -> None:
    made = Steps(World())
    await made.begin()
    bad, good = await made.launch(tasks=2), await made.launch(tasks=2)

    def is_bad(live: LiveStep, level: int) -> bool:
        return live.step == bad

    poison(patch, step_registry, "record_of", is_bad)
    for step in (bad, good):
        made.report("n1", step, TaskEnd(rank=0))
        made.report("n2", step, TaskEnd(rank=1))
    await made.registry.record()
    assert [step for step, _, _ in made.records()] == [good]
    patch.undo()
    await made.registry.record()
    assert [step for step, _, _ in made.records()] == [bad, good]  # it was not forgotten


async def audit(patch: Patch, folder: Path) -> None:
    desk = Desk(folder)
    await desk.auditing.begin()
    poison(patch, Auditing, "seal_due", lambda self: True)
    patch.setattr("lattice.control.audit.sealing.EVERY_S", 0.0)
    looked: list[Auditing] = []

    async def forget_old(self: Auditing) -> None:
        looked.append(self)

    patch.setattr(Auditing, "forget_old", forget_old)
    desk.auditing.tell(AuditNote(kind="login"))
    await desk.auditing.turn()
    assert [entry.entry.kind for entry in desk.replica.state.audit.entries.values()][-1] == "login"
    assert looked == [desk.auditing]


async def traces(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1")
    made = TraceCapture(world.replica, world.clock, folder / "traces")
    await world.do(SetSetting(key="scheduler.trace_capture", value="true"))

    def is_bad(line: TraceLine) -> bool:
        return getattr(getattr(line, "alloc", None), "id", "") == f"a{bad}"

    poison(patch, tracing, "encode_trace_line", is_bad)
    bad, good = await world.submit(), await world.submit()
    await made.flush()
    (file,) = (folder / "traces").iterdir()
    assert (f'"a{good}"' in file.read_text(), f'"a{bad}"' in file.read_text()) == (True, False)


Case = Callable[[Patch, Path], Coroutine[Any, Any, None]]

# By the loop's class: its name in logs and metrics, and what it does for one good and one bad item.
CASES: dict[str, tuple[str, Case]] = {
    Dispatch.__name__: ("dispatch", dispatch),
    Reconcile.__name__: ("reconcile", reconcile),
    Deadlines.__name__: ("deadlines", deadlines),
    IdleEnds.__name__: ("idle", idle_ends),
    Evictions.__name__: ("evictions", evictions),
    Updating.__name__: ("updates", updates),
    Moving.__name__: (moving.LOOP, drained_services),
    BudgetNotices.__name__: (budget_notices_module.LOOP, budget_notices),
    Autoscaling.__name__: ("autoscaling", autoscaling),
    Staging.__name__: ("staging", staging),
    NodeWatch.__name__: ("node_watch", node_watch),
    Notifying.__name__: ("notifications", notifications),
    Archiving.__name__: ("archive", archive),
    Wiping.__name__: ("wiping", wiping),
    Probing.__name__: ("probing", probing),
    Remediation.__name__: ("remediation", remediation),
    Conformance.__name__: ("conformance", conformance),
    HealthRegistry.__name__: ("health", health),
    NodeHooks.__name__: ("node hooks", node_hooks),
    Rebooting.__name__: ("rebooting", rebooting),
    CollectorTree.__name__: ("collectors", collectors),
    "StepRegistry": ("steps", steps),
    Auditing.__name__: ("audit", audit),
    LogDeletion.__name__: ("log retention", log_retention),
    EndedRetention.__name__: ("retention", ended_retention),
    TraceCapture.__name__: ("tracing", traces),
    CheckpointRequests.__name__: ("checkpoints", checkpoint_requests),
    CheckpointBroker.__name__: ("checkpoint broker", checkpoint_broker),
}
# A turn of these is one thing: a plan over the whole queue, the cluster's level, the one upgrade, the prices, the budgets, a snapshot.
WHOLE = {"Scheduling", "Finalizing", "Upgrading", "EnergyPrices", "Budgets", "SnapshotUploads"}


@pytest.mark.parametrize("name", CASES)
@scenario
async def test_one_poisoned_item_does_not_stop_the_others(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says, case = CASES[name]
    before = loop.failures[says]
    await case(monkeypatch, tmp_path)
    assert loop.failures[says] > before


@scenario
async def test_every_loop_of_a_leader_is_tried_here(tmp_path: Path) -> None:
    world = World()
    config = ServerConfig(data_dir=str(tmp_path), api=ApiSection(hmac_secret=""))
    loops = Loops(
        config,
        world.replica,
        cast("AgentLinkTable", world.links),
        world.clock,
        Metrics(),
        launch_key=lambda launch_id: bytes(32),
        grant=lambda prefix, node: "",
        mint=lambda allocation: "token",
        api_url="",
        senders={},
        is_crowded=lambda: False,
    )
    assert {type(each).__name__ for each in loops._all()} <= CASES.keys() | WHOLE


@scenario
async def test_a_loop_that_breaks_outside_of_its_turns_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PAUSE_AFTER_FAILURE_S", 0.0)
    ends: list[Exception] = [Poison(), Poison(), ReplicaStopped()]
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        raise ends[runs - 1]

    before = loop.failures["broken"], loop.repeats["broken"]
    await keep_alive("broken", run)
    assert runs == 3
    assert (loop.failures["broken"] - before[0], loop.repeats["broken"] - before[1]) == (2, 1)
