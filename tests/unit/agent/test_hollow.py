"""Hollow nodes: their options, what is drawn for them, and how pretended work ends."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from lattice.agent.connection import Outbox, patience_s
from lattice.agent.hollow.durations import NotASpan, span_s
from lattice.agent.hollow.faults import BadFault, FaultKind, Misfortune, draw_faults, parse_faults
from lattice.agent.hollow.hardware import HollowHardware
from lattice.agent.hollow.injections import InjectionFile, read_injections
from lattice.agent.hollow.names import node_names
from lattice.agent.hollow.node import HollowNode
from lattice.agent.hollow.runs import PretendedRuns
from lattice.agent.hollow.switchboard import HollowSwitchboard, pretended_address
from lattice.agent.hollow.work import Work, parse_work
from lattice.agent.machine.state import End
from lattice.agent.messages import NodeFacts
from lattice.core.model.nodes.inventory import UnusableInventory
from lattice.ports.nodes.agents import EndCause, RunKey, StartOrder
from lattice.testing import scenario
from lattice.wire.pb import agent_pb2 as pb


def order(*argv: str, script: str = "") -> StartOrder:
    return StartOrder(key=RunKey(1, 1), argv=argv, script=script.encode())


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("3s", 3), ("2m", 120), ("1h", 3600), ("7", 7), ("0.5", 0.5)]
)
def test_a_span_has_a_unit_or_means_seconds(text: str, seconds: float) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1d", "-1s", "1s..2s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(NotASpan, match="is no span of time"):
        span_s(text)


def test_the_same_seed_draws_the_same_faults_and_each_node_has_one_at_most() -> None:
    names = node_names("hollow", 500)
    faults = parse_faults("silence=1%, flap=2%:20s,slow-boot=0.01%:3s,drift=0%")
    drawn = draw_faults(names, faults, 7)
    assert drawn == draw_faults(names, faults, 7)
    assert drawn.keys() != draw_faults(names, faults, 8).keys()
    kinds = Counter(misfortune.kind for misfortune in drawn.values())
    assert kinds == {FaultKind.SILENCE: 5, FaultKind.FLAP: 10, FaultKind.SLOW_BOOT: 1}
    assert {m.for_s for m in drawn.values()} == {0.0, 20.0, 3.0}


def test_more_faults_than_nodes_hit_every_node_once() -> None:
    assert len(draw_faults(node_names("n", 3), parse_faults("silence=100%,flap=100%"), 1)) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("noise=1%", "'noise' is no fault; known: silence, flap, slow-boot, drift"),
        ("silence", "say how many nodes"),
        ("silence=3", "say how many nodes"),
        ("silence=x%", "could not convert"),
        ("silence=101%", "between 0% and 100%"),
        ("flap=1%:soon", "is no span of time"),
        ("flap=1%:0s", "away for some time"),
    ],
)
def test_a_fault_that_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(BadFault, match=why):
        parse_faults(text)


def test_work_takes_as_long_as_it_says_unless_told_otherwise() -> None:
    source = random.Random(1)
    assert Work().outcome(order("sleep", "3"), source).work_s == 3
    assert Work().outcome(order(script="sleep 1m\nsleep 0.5\nexit 4"), source).work_s == 60.5
    assert Work().outcome(order("true"), source).work_s == 0
    drawn = parse_work("1s..5s").outcome(order("sleep", "300"), source).work_s
    assert 1 <= drawn <= 5
    assert parse_work("2s").outcome(order("true"), source).work_s == 2
    with pytest.raises(NotASpan, match="shorter"):
        parse_work("5s..1s")


def test_work_ends_with_the_code_it_names() -> None:
    source = random.Random(1)
    assert Work().outcome(order("true"), source).end.exit_code == 0
    assert Work().outcome(order("false"), source).end.exit_code == 1
    assert Work().outcome(order(script="sleep 1; exit 7"), source).end.exit_code == 7


def test_names_have_one_width() -> None:
    assert node_names("hollow", 3) == ["hollow0001", "hollow0002", "hollow0003"]
    assert node_names("x", 12_000)[0] == "x00001"
    assert len({pretended_address(place) for place in range(70_000)}) == 70_000


def test_the_log_of_injections_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    log = InjectionFile(tmp_path / "log")
    log.note("n1", "silence")
    assert [(each.node, each.what) for each in read_injections(tmp_path / "log")] == [("n1", "silence")]
    log.close()
    nowhere = InjectionFile(None)
    nowhere.note("n1", "silence")
    nowhere.close()


def test_nodes_are_alike_until_they_drift_or_their_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "hardware.json"
    file.write_text('{"board": {"bios_version": "2.0"}}')
    hardware = HollowHardware(64, 1024, file)
    marks = {hardware.usual.mark, hardware.drifted.mark, HollowHardware(64, 1024).usual.mark}
    assert len(marks) == 3
    told: list[str] = []
    hardware.look(lambda: told.append("changed"))
    assert told == []
    file.write_text('{"board": {"bios_version": "3.0.1"}}')
    hardware.look(lambda: told.append("changed"))
    assert told == ["changed"]
    assert hardware.usual.mark not in marks
    file.write_text("rubbish")
    with pytest.raises(UnusableInventory, match=r"hardware\.json"):
        hardware.look(lambda: told.append("changed"))


def test_patience_with_a_busy_server_grows_and_has_an_end() -> None:
    assert [patience_s(failures) for failures in (0, 1, 2, 3, 9)] == [10, 20, 40, 80, 80]


class Stage:
    """One hollow node and what it says."""

    def __init__(self, *, work: Work | None = None, misfortune: Misfortune | None = None) -> None:
        facts = NodeFacts(
            node_id="hollow0001",
            address="",
            boot_id="b",
            cpus=4,
            memory_mb=4096,
            gpus=0,
            gpu_type="",
            group="",
            features=(),
            runs_as_root=True,
            agent_user="",
        )
        self.noted: list[tuple[str, str]] = []
        self.node = HollowNode(
            facts, work or Work(), random.Random(1), self, HollowHardware(4, 4096), HollowSwitchboard(), misfortune
        )
        self.outbox = Outbox()
        self.node.opened(self.outbox)

    def note(self, node: str, what: str) -> None:
        self.noted.append((node, what))

    def hear(self, **body: object) -> None:
        self.node.received(pb.ServerMessage(**body))  # type: ignore[arg-type]

    def welcome(self) -> None:
        self.hear(welcome=pb.Welcome(session=9, heartbeat_interval_s=0.1, down_after_s=60, takes_batches=True))

    async def said(self, kind: str) -> pb.AgentMessage:
        """The next message of the kind; others are passed over."""
        async with asyncio.timeout(60):
            while (message := await self.outbox.take()).WhichOneof("body") != kind:
                pass
            return message


@scenario
async def test_a_hollow_node_registers_confirms_and_beats_with_its_session() -> None:
    stage = Stage()
    assert (await stage.said("register")).register.node_id == "hollow0001"
    assert (await stage.said("inventory")).inventory.fingerprint
    stage.welcome()
    assert (await stage.said("confirmed")).confirmed.session == 9
    first, second = (await stage.said("heartbeat")).heartbeat, (await stage.said("heartbeat")).heartbeat
    assert (first.session, second.seq) == (9, first.seq + 1)
    stage.node.closed()


@scenario
async def test_a_hollow_node_makes_figures_up_and_says_so() -> None:
    stage = Stage()
    stage.welcome()
    stage.hear(ask_telemetry=pb.AskTelemetry(ticket=5))
    told = (await stage.said("telemetry_told")).telemetry_told
    assert (told.ticket, told.error, list(told.sources)) == (5, "", ["made up"])
    assert "load1" in {series.metric for series in told.series}
    stage.node.closed()


@scenario
async def test_pretended_work_is_reported_until_it_is_acknowledged() -> None:
    stage = Stage()
    stage.welcome()
    key = pb.RunKey(number=3, run=1)
    stage.hear(start_run=pb.StartRun(key=key, argv=["sleep", "0.01"]))
    reports: list[pb.RunReport] = []
    while not reports or reports[-1].phase != pb.PHASE_ENDED:
        message = await stage.said("run_report") if not reports else await stage.outbox.take()
        reports += [message.run_report] if message.HasField("run_report") else list(message.run_reports.reports)
    assert [(report.phase, report.seq) for report in reports] == [(pb.PHASE_RUNNING, 1), (pb.PHASE_ENDED, 2)]
    stage.node.tick(1e9)
    assert (await stage.said("run_report")).run_report.phase == pb.PHASE_ENDED
    stage.hear(report_ack=pb.ReportAck(key=key, seq=2))
    assert stage.node.state.runs == {}
    stage.hear(start_run=pb.StartRun(key=pb.RunKey(number=4, run=1), argv=["sleep", "100"]))
    assert (await stage.said("run_report")).run_report.phase == pb.PHASE_RUNNING
    stage.hear(stop_run=pb.StopRun(key=pb.RunKey(number=4, run=1)))
    assert (await stage.said("run_report")).run_report.cause == pb.END_CAUSE_STOPPED
    stage.node.closed()


@scenario
async def test_a_mute_node_says_nothing_and_a_slow_one_confirms_late() -> None:
    stage = Stage(misfortune=Misfortune(kind=FaultKind.SLOW_BOOT, for_s=0.02, after_s=0.0))
    stage.welcome()
    await stage.said("confirmed")
    assert stage.noted == [("hollow0001", "slow-boot"), ("hollow0001", "slow-boot-over")]
    stage.node.audible.clear()
    stage.hear(read_output=pb.ReadOutput(reader=1))
    stage.node.beat_now()
    stage.node.audible.set()
    stage.hear(read_output=pb.ReadOutput(reader=2))
    assert (await stage.said("output_chunk")).output_chunk.reader == 2
    stage.node.drift()
    assert (await stage.said("inventory")).inventory.fingerprint
    stage.node.closed()


@scenario
async def test_a_paused_run_stands_still_and_a_shorter_walltime_ends_it() -> None:
    ended: dict[int, End] = {}
    runs = PretendedRuns(lambda key, end: ended.update({key.number: end}))
    runs.start(RunKey(1, 1), Work().outcome(order("sleep", "0.02"), random.Random(1)), 0.0)
    runs.start(RunKey(2, 1), Work().outcome(order("sleep", "300"), random.Random(1)), 600.0)
    runs.pause(RunKey(1, 1))
    runs.limit(RunKey(2, 1), 0.05)
    async with asyncio.timeout(60):
        while 2 not in ended:  # noqa: ASYNC110 - a few steps
            await asyncio.sleep(0.005)
        assert ended.keys() == {2}
        assert ended[2].cause is EndCause.WALLTIME
        runs.resume(RunKey(1, 1))
        while 1 not in ended:  # noqa: ASYNC110 - a few steps
            await asyncio.sleep(0.005)
    assert ended[1].cause is EndCause.EXIT
    for nobody in (runs.pause, runs.resume, runs.drop):
        nobody(RunKey(3, 1))


@scenario
async def test_steps_are_reported_until_acknowledged_and_known_meanwhile() -> None:
    stage = Stage()
    stage.hear(welcome=pb.Welcome(session=9, heartbeat_interval_s=60, held_by=[pb.RunKey(number=5, run=1)]))
    base = pb.StartRun(key=pb.RunKey(number=5, run=1), argv=["sleep", "300"])
    tasks = [pb.StepTask(rank=rank) for rank in (4, 5)]
    stage.hear(launch_step=pb.LaunchStep(base=base, step=0, launch_id="x", plan=b"p", tasks=tasks))
    key = pb.StepKey(run=pb.RunKey(number=5, run=1), step=0)
    stage.hear(step_input=pb.StepInput(key=key, data=b"abc", ticket=8))
    assert (await stage.said("step_input_taken")).step_input_taken.upto == 3
    stage.hear(signal_step=pb.SignalStep(key=key, signal=9))
    told = (await stage.said("step_report")).step_report
    assert [(task.rank, task.signal) for task in told.tasks] == [(4, 9), (5, 9)]
    stage.node.tick(1e9)
    assert (await stage.said("step_report")).step_report.ended
    stage.node.closed()
    stage.node.opened(stage.outbox)
    assert [step.launch_id for step in (await stage.said("register")).register.steps] == ["x"]
    stage.hear(step_ack=pb.StepAck(key=key))
    stage.node.closed()
