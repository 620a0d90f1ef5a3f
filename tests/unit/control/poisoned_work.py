"""Loops over work, each with one bad and one good item; the table is in test_poisoned.py."""

from pathlib import Path

from lattice.control.capacity import evictions as evicting
from lattice.control.capacity.evictions import Evictions
from lattice.control.checkpoints.broker import CheckpointBroker
from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.control.data import staging as staging_loop
from lattice.control.data.staging import Staging, StagingSettings
from lattice.control.services import moving, updating
from lattice.control.services.moving import Moving
from lattice.control.services.scaling import Autoscaling
from lattice.control.services.updating import Updating
from lattice.control.steps import registry as step_registry
from lattice.control.steps.live import LiveStep
from lattice.control.work.budget_notices import BudgetNotices
from lattice.control.work.deadlines import Deadlines
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.idle import IdleEnds
from lattice.control.work.reconcile import Reconcile, ReconcileSettings
from lattice.core.machine.commands import (
    ClaimCopy,
    DrainNode,
    EvictAllocations,
    PlaceAllocation,
    RaiseLevel,
    ReportCopy,
    ReportPart,
    RequestCheckpoint,
    ReviseService,
    SetSetting,
    SetTenant,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.rules.data import staging as staging_rules
from lattice.core.machine.state import State
from lattice.core.model.data.copies import CopyPhase, key_of
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import Allocation, PartPhase, Request
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.ports.nodes.agents import StartOrder, TaskEnd
from tests.unit.control.poison import Patch, poison
from tests.unit.control.test_autoscaling import Scaled
from tests.unit.control.test_service_instances import serving
from tests.unit.control.test_steps import Book as Steps
from tests.unit.control.world import World


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
