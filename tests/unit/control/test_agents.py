"""Sessions: what an agent is told, when its node becomes Ready, and what its words change."""

import msgspec
import pytest

from lattice.control.nodes.sessions import SessionSettings
from lattice.control.telemetry.reported import ReportedFigures
from lattice.core.machine.commands import (
    CancelAllocation,
    ConfirmNode,
    DisableNode,
    DownNode,
    EndPart,
    LosePart,
    RegisterNode,
    ReportPart,
)
from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.observations import Beat
from lattice.core.model.work.allocations import AllocationState, PartPhase
from lattice.core.model.work.usage import SINCE_LEVEL, Usage
from lattice.ports.nodes.agents import (
    EndCause,
    KnownRun,
    Phase,
    Registration,
    RegistrationRefused,
    Report,
    RunKey,
    StartProgress,
    StopOrder,
)
from lattice.ports.nodes.telemetry import MetricAlert, NodeAlert, NodeFigures, RunFigure
from lattice.ports.quorum.log import LogFull
from lattice.testing import scenario
from tests.unit.control.sessions import Desk, report
from tests.unit.control.world import HARDWARE, World


@scenario
async def test_a_new_node_is_ready_only_after_it_confirmed() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    greeting = await service.register("n1")
    assert world.node("n1").state is NodeState.BOOTING
    assert greeting.valid_runs == ()
    assert (greeting.heartbeat_interval_s, greeting.down_after_s) == (10, 90)
    assert await service.sessions.confirm("n1", greeting.session)
    assert world.node("n1").state is NodeState.READY
    assert service.opened == []
    service.sessions.opened("n1", greeting.session)
    assert service.opened == ["n1"]


@scenario
async def test_welcome_names_the_runs_that_are_still_wanted() -> None:
    world = World()
    await world.prepare("n1", "n2")
    running = await world.running("n1")
    other = await world.running("n2")
    greeting = await Desk(world).register("n1", RunKey(running, 1), RunKey(99, 1))
    assert greeting.valid_runs == (RunKey(running, 1),)
    assert world.allocation(other).state is AllocationState.RUNNING


@scenario
async def test_a_run_that_is_stopping_is_still_wanted_until_it_ended() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    await world.do(CancelAllocation(number=number))
    service = Desk(world)
    assert (await service.register("n1", RunKey(number, 1))).valid_runs == (RunKey(number, 1),)
    await world.ended(number, "n1")
    assert (await service.register("n1")).valid_runs == ()


@scenario
async def test_a_running_part_that_the_agent_does_not_know_is_given_up_before_the_node_confirms() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    await Desk(world).connect("n1")
    assert world.replica.proposed[-2:] == [
        LosePart(number=number, run=1, node="n1"),
        ConfirmNode(node="n1"),
    ]
    assert world.allocation(number).state is AllocationState.PENDING
    assert world.allocation(number).requeue_count == 1


@scenario
async def test_a_part_that_is_only_assigned_is_not_given_up() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.submit()
    await world.place(number, "n1")
    await Desk(world).connect("n1")
    assert world.allocation(number).state is AllocationState.STARTING


@scenario
async def test_a_ready_node_that_registers_again_stays_ready_with_its_work() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    await Desk(world).connect("n1", RunKey(number, 1))
    assert world.node("n1").state is NodeState.READY
    assert world.allocation(number).state is AllocationState.RUNNING


@scenario
async def test_a_disabled_node_keeps_its_stream_and_stays_down() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    await world.do(DisableNode(node="n1", reason="fan"))
    greeting = await Desk(world).connect("n1", RunKey(number, 1))
    assert greeting.valid_runs == ()
    assert world.node("n1").state is NodeState.DOWN
    assert world.links.closed == []


@scenario
async def test_a_node_given_up_between_register_and_confirmed_has_to_register_again() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    greeting = await service.register("n1")
    await world.do(DownNode(node="n1"))
    assert not await service.sessions.confirm("n1", greeting.session)
    assert [node for node, _ in world.links.closed] == ["n1"]
    await service.connect("n1")
    assert world.node("n1").state is NodeState.READY


@scenario
async def test_words_of_a_replaced_stream_neither_confirm_nor_count_as_signs_of_life() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    old = await service.register("n1")
    new = await service.register("n1")
    assert not await service.sessions.confirm("n1", old.session)
    assert world.node("n1").state is NodeState.BOOTING
    world.clock.pass_s(5)
    service.sessions.beat("n1", old.session, Beat(seq=1))
    service.sessions.closed("n1", old.session)
    observation = service.observations.get("n1")
    assert observation is not None
    assert (observation.seq, observation.connected) == (0, False)
    assert service.sessions.counts["stale_heartbeats"] == 1
    assert await service.sessions.confirm("n1", new.session)
    service.sessions.opened("n1", new.session)
    service.sessions.closed("n1", old.session)
    assert service.observations.connected() == {"n1"}


@scenario
async def test_a_node_gets_no_work_before_its_agent_takes_orders() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    greeting = await service.register("n1")
    assert await service.sessions.confirm("n1", greeting.session)
    assert world.node("n1").state is NodeState.READY
    assert service.observations.connected() == frozenset()
    service.sessions.opened("n1", greeting.session)
    assert service.observations.connected() == {"n1"}


@scenario
async def test_of_two_registrations_at_once_the_newer_wins() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    original = world.replica.propose

    async def overtaken(command: object, **kwargs: object) -> object:
        world.replica.propose = original  # type: ignore[method-assign]
        await service.register("n1")
        return await original(command, **kwargs)  # type: ignore[arg-type]

    world.replica.propose = overtaken  # type: ignore[method-assign,assignment]
    with pytest.raises(RegistrationRefused, match="newer stream"):
        await service.register("n1")


@scenario
async def test_reports_change_the_state_and_late_ones_change_nothing() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    number = await world.submit()
    await world.place(number, "n1")
    await service.sessions.report("n1", greeting.session, [report(number, 1, Phase.RUNNING, 1)])
    assert world.allocation(number).state is AllocationState.RUNNING
    ended = report(number, 1, Phase.ENDED, 2, EndCause.EXIT)
    await service.sessions.report("n1", greeting.session, [ended])
    assert world.allocation(number).state is AllocationState.COMPLETED
    await service.sessions.report("n1", greeting.session, [ended, report(number, 1, Phase.RUNNING, 1)])
    assert world.allocation(number).state is AllocationState.COMPLETED


@scenario
async def test_a_stopped_run_ends_as_cancelled() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    number = await world.running("n1")
    await world.do(CancelAllocation(number=number))
    stopped = Report(key=RunKey(number, 1), phase=Phase.ENDED, seq=2, cause=EndCause.STOPPED)
    await service.sessions.report("n1", greeting.session, [stopped])
    assert world.allocation(number).state is AllocationState.CANCELLED


@scenario
async def test_a_run_that_nobody_wants_is_stopped_when_it_says_that_it_runs() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    await service.sessions.report("n1", greeting.session, [report(77, 1, Phase.RUNNING, 1)])
    assert world.links.sent == [("n1", StopOrder(key=RunKey(77, 1), grace_s=0.0, why="stale"))]


@scenario
async def test_a_run_that_ended_before_its_start_was_committed_is_not_stopped() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    number = await world.running("n1")
    ended = Report(key=RunKey(number, 1), phase=Phase.ENDED, seq=2, cause=EndCause.EXIT)
    await service.sessions.report("n1", greeting.session, [report(number, 1, Phase.RUNNING, 1), ended])
    assert world.allocation(number).state is AllocationState.COMPLETED
    assert [order for _, order in world.links.sent if isinstance(order, StopOrder)] == []


@scenario
async def test_a_report_that_was_not_committed_is_not_acknowledged() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    greeting = await service.connect("n1")
    world.replica.failure = LogFull("no room")
    with pytest.raises(LogFull):
        await service.sessions.report("n1", greeting.session, [report(1, 1, Phase.RUNNING, 1)])


@scenario
async def test_a_report_names_the_node_of_its_stream() -> None:
    world = World()
    await world.prepare("n1", "n2")
    service = Desk(world)
    number = await world.submit()
    await world.place(number, "n1")
    greeting = await service.connect("n2")
    await service.sessions.report("n2", greeting.session, [report(number, 1, Phase.ENDED, 2, EndCause.EXIT)])
    command = world.replica.proposed[-1]
    assert isinstance(command, ReportPart)
    assert command.node == "n2"
    assert world.allocation(number).state is AllocationState.STARTING


@scenario
async def test_an_end_and_what_was_used_are_one_command_which_older_logs_do_not_take() -> None:
    world = World()
    await world.prepare("n1")
    service = Desk(world)
    number = await world.submit()
    await world.place(number, "n1")
    greeting = await service.connect("n1")
    ended = Report(
        key=RunKey(number, 1), phase=Phase.ENDED, seq=2, cause=EndCause.EXIT, usage=Usage(read_bytes=4096, peak_pids=2)
    )
    world.replica.state.level = 1
    await service.sessions.report("n1", greeting.session, [msgspec.structs.replace(ended, key=RunKey(number, 9))])
    assert isinstance(world.replica.proposed[-1], ReportPart)
    world.replica.state.level = SINCE_LEVEL
    before = len(world.replica.proposed)
    await service.sessions.report("n1", greeting.session, [ended])
    assert [type(command) for command in world.replica.proposed[before:]] == [EndPart]
    assert world.allocation(number).usage == Usage(read_bytes=4096, peak_pids=2)


@scenario
async def test_a_closed_stream_leaves_the_node_unconnected_but_remembered() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    greeting = await service.connect("n1")
    assert service.observations.connected() == {"n1"}
    service.sessions.closed("n1", greeting.session)
    assert service.observations.connected() == frozenset()
    assert service.observations.get("n1") is not None
    assert isinstance(world.replica.proposed[0], RegisterNode)


async def restored(epoch: int) -> tuple[World, Desk, int]:
    """A service of a restored cluster whose state has a run on n1 as running and one that was only placed there, on n2."""
    world = World()
    await world.prepare("n1", "n2")
    running, placed = await world.submit(), await world.submit()
    await world.place(running, "n1")
    await world.place(placed, "n2")
    await world.do(ReportPart(number=running, run=1, node="n1", seq=1, phase=PartPhase.RUNNING))
    service = Desk(world)
    service.sessions.settings = SessionSettings(server_name="s1", epoch=epoch)
    return world, service, placed


@scenario
async def test_an_agent_of_a_later_history_is_refused_and_changes_nothing() -> None:
    world, service, _ = await restored(epoch=10)
    before = world.state.digest()
    with pytest.raises(RegistrationRefused, match="later history of this cluster"):
        await service.sessions.register(Registration(node_id="n1", hardware=HARDWARE, boot_id="b2", epoch=11))
    assert world.state.digest() == before
    greeting = await service.sessions.register(Registration(node_id="n1", hardware=HARDWARE, epoch=10))
    assert greeting.epoch == 10


@scenario
async def test_a_run_of_a_former_history_counts_only_when_the_state_knows_it_as_running() -> None:
    world, service, placed = await restored(epoch=20)
    mine, same_number = RunKey(1, 1), RunKey(placed, 1)
    known = Registration(node_id="n1", hardware=HARDWARE, epoch=20, runs=(KnownRun(key=mine, epoch=10),))
    assert (await service.sessions.register(known)).valid_runs == (mine,)
    known = Registration(node_id="n2", hardware=HARDWARE, epoch=20, runs=(KnownRun(key=same_number, epoch=10),))
    greeting = await service.sessions.register(known)
    assert greeting.valid_runs == ()
    # Gone from the node, it is sent anew.
    assert await service.sessions.confirm("n2", greeting.session)
    assert world.allocation(placed).state is AllocationState.STARTING
    fresh = Registration(node_id="n2", hardware=HARDWARE, epoch=20, runs=(KnownRun(key=same_number, epoch=20),))
    assert (await service.sessions.register(fresh)).valid_runs == (same_number,)


@scenario
async def test_what_a_node_said_of_itself_is_forgotten_when_its_machine_was_booted_and_not_before() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    registry = service.inventories
    for boot, is_known in (("b1", False), ("b1", True), ("b2", False)):
        registration = Registration(node_id="n1", hardware=HARDWARE, boot_id=boot)
        session = (await service.sessions.register(registration)).session
        assert ("n1" in registry.fingerprints()) is is_known
        service.sessions.inventory("n1", session, b'{"software": {"kernel": "6.1"}}', "")
        assert "n1" in registry.fingerprints()


@scenario
async def test_a_node_that_boots_with_a_failed_check_is_drained_as_soon_as_its_stream_is_confirmed() -> None:
    world = World()
    await world.prepare()
    service = Desk(world)
    registry = service.health
    session = (await service.register("n1")).session
    failed = CheckStanding(name="fans", verdict=Verdict.FAILED, consequence=Consequence.DRAIN)
    service.sessions.health_report("n1", session, HealthReport(checks=(failed,)))
    assert await service.sessions.confirm("n1", session)
    await registry.settle()
    assert world.node("n1").state is NodeState.BOOTING
    world.links.open.add("n1")
    service.sessions.opened("n1", session)
    await registry.settle()
    assert (world.node("n1").state, world.node("n1").reason_by) == (NodeState.DRAINED, "check/fans")


@scenario
async def test_progress_of_a_start_is_heard_from_its_own_node_only() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await world.submit()
    await world.place(number, "n1")
    service, key = Desk(world), RunKey(number, 1)
    sessions = {node: (await service.connect(node, *([key] if node == "n1" else []))).session for node in ("n1", "n2")}
    for node, run in (("n2", 1), ("n1", 2), ("n1", 1)):
        told = StartProgress(key=RunKey(number, run), text="pulling x:\x1b 3.1 of 12.0 GB")
        service.sessions.start_progress(node, sessions[node], told)
    assert service.progressed == [key]
    assert service.observations.start_of(number, 1).startswith("n1: pulling x:")
    assert "\x1b" not in service.observations.start_of(number, 1)
    assert service.observations.start_of(number, 2) == ""


@scenario
async def test_a_run_that_only_copies_results_is_told_of_by_its_own_nodes_only() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await world.running("n1")
    service, heard = Desk(world), []
    service.sessions.on_copies = lambda node, key: heard.append((node, key))
    for node in ("n1", "n2"):
        session = (await service.connect(node, *([RunKey(number, 1)] if node == "n1" else []))).session
        service.sessions.start_progress(node, session, StartProgress(key=RunKey(number, 1), copies=True))
    assert heard == [("n1", RunKey(number, 1))]
    assert service.progressed == []


@scenario
async def test_figures_of_a_run_are_taken_from_its_own_nodes_only() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await world.running("n1")
    service, figures = Desk(world), ReportedFigures(world.clock)
    service.sessions.figures = figures
    named: list[tuple[str, int]] = []
    for node, value in (("n1", 20.0), ("n2", 100.0)):
        session = (await service.connect(node, *([RunKey(number, 1)] if node == "n1" else []))).session
        told = RunFigure(key=RunKey(number, 1), metrics=("cpu_utilization",), values=(value,))
        trouble = NodeAlert(key=RunKey(number, 1), alert=MetricAlert(rule="gpu_idle", at_ms=1))
        service.sessions.on_alerts = lambda node, alerts: named.append((node, len(alerts)))
        service.sessions.run_figures(node, session, NodeFigures(runs=(told,), alerts=(trouble,)))
    assert figures.of_allocation(number, 1) == {"cpu_utilization": 20.0}
    assert named == [("n1", 1), ("n2", 0)], "of work of others nothing is believed"
