"""Orders about checkpoints: to every node, again until it has answered, across leaders and restarts; given up in the end."""

from msgspec.structs import replace

from lattice.control.checkpoints.orders import SLACK_S, checkpoint_setup
from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.core.machine.commands import RaiseLevel, RequestCheckpoint, RequeueAllocation, SetSetting
from lattice.core.model.work.allocations import AllocationState, StopIntent
from lattice.core.model.work.checkpoints import CheckpointWay
from lattice.ports.nodes.checkpoints import STORAGE_AWAY, CheckpointOrder, CheckpointReport
from lattice.ports.nodes.run_keys import RunKey
from lattice.testing import scenario
from tests.unit.control.world import World


async def asked(*nodes: str, per_node: bool = False) -> tuple[World, CheckpointRequests, int]:
    """Work on these nodes that was asked for a checkpoint."""
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1", "n2")
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    made = CheckpointRequests(world.replica, world.links, world.clock)
    number = await world.running(*nodes, per_node=per_node, checkpoint=CheckpointWay())
    await world.do(RequestCheckpoint(number=number))
    return world, made, number


def report(number: int, phase: str, n: int = 1) -> CheckpointReport:
    return CheckpointReport(key=RunKey(number, 1), n=n, phase=phase, bytes=5, elapsed_s=1.0)


def taken(world: World) -> list[tuple[str, CheckpointOrder]]:
    orders, world.links.checkpoints = world.links.checkpoints, []
    return orders


@scenario
async def test_every_node_is_asked_and_then_one_of_them_seals() -> None:
    world, made, number = await asked("n1", "n2", per_node=True)
    await made.turn()
    orders = taken(world)
    assert [node for node, _ in orders] == ["n1", "n2"]
    first = orders[0][1]
    assert (first.root, first.path, first.apart) == ("/ck", f"/ck/default/-/a{number}/checkpoints/1", True)
    assert (first.timeout_s, first.signal, first.seal) == (600.0, 10, False)
    made.report("n1", report(number, "done"))
    made.report("n2", report(number, "done"))
    await made.turn()
    ((node, order),) = taken(world)
    assert (node, order.seal, order.nodes, order.keep) == ("n1", True, ("n1", "n2"), ())
    made.report("n1", report(number, "sealed"))
    await made.turn()
    assert world.allocation(number).checkpoints.newest is not None
    assert taken(world) == []


@scenario
async def test_an_order_is_repeated_until_the_node_has_answered() -> None:
    world, made, number = await asked("n1")
    await made.turn()
    assert len(taken(world)) == 1
    await made.turn()
    assert taken(world) == []
    world.clock.pass_s(2.5)
    await made.turn()
    assert [order.timeout_s for _, order in taken(world)] == [597.5]
    made.node_opened("n1")
    await made.turn()
    assert len(taken(world)) == 1
    made.node_opened("n2")
    await made.turn()
    assert taken(world) == []
    assert world.allocation(number).state is AllocationState.CHECKPOINTING


@scenario
async def test_the_next_leader_continues_where_the_last_one_was() -> None:
    world, made, number = await asked("n1")
    await made.turn()
    taken(world)
    heir = CheckpointRequests(world.replica, world.links, world.clock)
    await heir.turn()
    assert [node for node, _ in taken(world)] == ["n1"]
    heir.report("n1", report(number, "nothing"))
    await heir.turn()
    assert world.allocation(number).state is AllocationState.RUNNING


@scenario
async def test_what_no_node_answers_is_given_up_after_half_as_long_again() -> None:
    world, made, number = await asked("n1")
    world.clock.pass_s(600 * 1.5 + SLACK_S - 1)
    await made.turn()
    assert world.allocation(number).checkpoints.open is not None
    world.clock.pass_s(3)
    await made.turn()
    failed = world.allocation(number).checkpoints.failed
    assert failed is not None
    assert failed.message == "nothing was heard of n1 in time"


@scenario
async def test_a_checkpoint_that_ended_with_its_run_is_forgotten() -> None:
    world, made, number = await asked("n1")
    await made.turn()
    taken(world)
    await world.do(RequeueAllocation(number=number))
    await world.ended(number, "n1")
    world.clock.pass_s(5)
    await made.turn()
    assert taken(world) == []


@scenario
async def test_sealing_names_the_earlier_ones_that_stay() -> None:
    world, made, number = await asked("n1")
    for n in (1, 2, 3):
        made.report("n1", report(number, "done", n))
        await made.turn()
        sealing = [order for _, order in taken(world) if order.seal]
        assert [order.keep for order in sealing] == [() if n == 1 else (n - 1,)]
        made.report("n1", report(number, "sealed", n))
        await made.turn()
        if n < 3:
            await world.do(RequestCheckpoint(number=number))


@scenario
async def test_a_start_tells_where_to_write_and_where_to_continue() -> None:
    world, made, number = await asked("n1")
    record = world.allocation(number)
    setup = checkpoint_setup(world.state, record)
    assert setup is not None
    assert (setup.directory, setup.root, setup.resume_from) == (f"/ck/default/-/a{number}/checkpoints", "/ck", "")
    for phase in ("done", "sealed"):
        made.report("n1", report(number, phase))
        await made.turn()
    setup = checkpoint_setup(world.state, world.allocation(number))
    assert setup is not None
    assert (setup.resume_from, setup.must_resume) == (f"/ck/default/-/a{number}/checkpoints/1", False)
    plain = replace(record, checkpoints=type(record.checkpoints)())
    assert checkpoint_setup(world.state, plain) is None


@scenario
async def test_storage_that_is_away_keeps_requests_waiting_and_no_eviction() -> None:
    world, made, number = await asked("n1")
    await made.turn()
    assert len(taken(world)) == 1
    assert not made.is_storage_away()
    made.report("n1", report(number, STORAGE_AWAY))
    world.clock.pass_s(10)
    await made.turn()
    assert made.is_storage_away()
    assert world.allocation(number).state is AllocationState.CHECKPOINTING, "the request waits"
    assert len(taken(world)) == 1, "and is repeated"
    await world.do(RequeueAllocation(number=number, checkpoint=True))
    world.clock.pass_s(5)
    await made.turn()
    record = world.allocation(number)
    assert (record.state, record.intent) == (AllocationState.STOPPING, StopIntent.REQUEUE)
    assert record.checkpoints.failed is not None
    assert "storage is away" in record.checkpoints.failed.message
    world.clock.pass_s(61)
    assert not made.is_storage_away()


@scenario
async def test_a_node_that_writes_has_its_storage_back() -> None:
    _, made, number = await asked("n1")
    made.report("n1", report(number, STORAGE_AWAY))
    assert made.is_storage_away()
    made.report("n1", report(number, "done"))
    assert not made.is_storage_away()


@scenario
async def test_only_a_node_that_is_to_write_can_say_that_its_storage_is_away() -> None:
    world, made, number = await asked("n1")
    await made.turn()
    taken(world)
    made.report("n2", report(number, STORAGE_AWAY))
    made.report("n1", report(number + 1, STORAGE_AWAY))
    assert not made.is_storage_away()
    made.report("n1", report(number, STORAGE_AWAY))
    await made.turn()
    assert taken(world) == [], "and it is not asked again before the usual time"
