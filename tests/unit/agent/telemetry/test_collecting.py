"""The agent's memory of the last hour, the loop that fills it, and the answers that servers get."""

import asyncio
from pathlib import Path

from lattice.agent.runs.devices import NOTHING, DeviceTable, NodeTopology
from lattice.agent.shim_client import GroupPlace, ShimMessage
from lattice.agent.steps.folders import StepFolders
from lattice.agent.steps.launch import _spec
from lattice.agent.telemetry.collector import Collector, Surroundings, Target, read_places
from lattice.agent.telemetry.memory import ROW_BYTES, SeriesMemory, as_series
from lattice.agent.telemetry.push.pusher import run_labels
from lattice.agent.telemetry.questions import MAX_FOLLOWERS, TelemetryQuestions
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.telemetry.rates import Reading
from lattice.core.model.telemetry.windows import Window, summarize
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.steps import LaunchOrder
from lattice.ports.nodes.telemetry import MetricAlert, TelemetryAsk
from lattice.wire.agents.telemetry import TELEMETRY_ASK, TELEMETRY_TOLD
from lattice.wire.pb import agent_pb2 as pb

CPU, MEMORY = ("cpus_used", ""), ("memory_used", "")
RUN = RunKey(7, 1)


def window(at_ms: int, value: float = 1.0) -> Window:
    return summarize(at_ms, 30_000, [value])


def test_an_hour_is_kept_and_what_is_older_is_forgotten() -> None:
    memory = SeriesMemory()
    for at_ms in range(0, 7_200_000, 30_000):
        memory.add(RUN, {CPU: window(at_ms, at_ms / 1000)})
    memory.expire(7_200_000)
    kept = memory.read(RUN)[CPU]
    assert (kept[0].at_ms, kept[-1].at_ms, kept[-1].mean) == (3_600_000, 7_170_000, 7170.0)
    assert memory.bytes == len(kept) * ROW_BYTES
    memory.expire(99_000_000)
    assert memory.owners == frozenset()


def test_memory_never_grows_beyond_its_bytes() -> None:
    memory = SeriesMemory(max_bytes=100 * ROW_BYTES)
    for at_ms in range(0, 1_000_000, 1000):
        memory.add(RUN, {CPU: window(at_ms), MEMORY: window(at_ms)})
        assert memory.bytes <= 100 * ROW_BYTES
    assert memory.read(RUN)[CPU][-1].at_ms == 999_000


def test_windows_are_read_by_time_and_metric() -> None:
    memory = SeriesMemory()
    memory.add(RUN, {CPU: window(0), MEMORY: window(0)})
    memory.add(RUN, {CPU: window(30_000, 2.5)})
    assert list(memory.read(RUN, since_ms=1)) == [CPU]
    (series,) = as_series(memory.read(RUN, metrics=["memory_used"]))
    assert (series.metric, series.at_ms, series.count) == ("memory_used", (0,), (1,))
    assert memory.read(None) == {}


class Rig:
    """A collector over a shim that says one group, and a node that reads from a list."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "alloc-7.1"
        self.folder.mkdir()
        self.use(0)
        self.lives = True
        self.now_s = 1000.0
        self.posted: list[pb.TelemetryTold] = []
        around = Surroundings(
            cpus=4,
            ask=self.ask,
            order_of=lambda key: StartOrder(key=key, cpus=2),
            devices=DeviceTable(0, 0, "", NodeTopology()),
        )
        self.collector = Collector(around, source=self.read_node, wall=lambda: self.now_s)
        self.questions = TelemetryQuestions(self.collector, self.post, lambda: ("cgroup", "proc"))

    def use(self, cpu_us: int) -> None:
        (self.folder / "cpu.stat").write_text(f"usage_usec {cpu_us}\n")
        (self.folder / "cgroup.procs").write_text("")

    def ask(self, body: dict[str, object], answer: object) -> None:
        places = (GroupPlace(number=7, run=1, path=str(self.folder)),) if self.lives else ()
        assert body == {"op": "groups"}
        answer(ShimMessage(places=places))  # type: ignore[operator]

    def read_node(self) -> Reading:
        return Reading(at_s=self.now_s, gauges={("load1", ""): 1.0})

    def post(self, message: pb.AgentMessage) -> None:
        self.posted.append(message.telemetry_told)

    async def step(self, cpu_us: int) -> None:
        """A second passes, in which the run used this much."""
        self.use(cpu_us)
        self.now_s += 1
        self.ask({"op": "groups"}, self.collector._found)
        for target in self.collector.targets.values():
            target.due_s = 0.0
        await self.collector._measure(1e9)


def asked(ask: TelemetryAsk, ticket: int = 1) -> pb.ServerMessage:
    message = TELEMETRY_ASK.write(ask)
    message.ticket = ticket
    return pb.ServerMessage(ask_telemetry=message)


def test_a_run_is_measured_from_its_start_to_its_end_and_known_afterwards(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        for turn in range(5):
            await rig.step(turn * 500_000)
        target = rig.collector.targets[RUN]
        assert target.cpus == 2
        assert "cpu_utilization" in {name for name, _ in target.figures}
        told = rig.questions.answer(TelemetryAsk(key=RUN))
        assert not told.ended
        assert {series.metric for series in told.series} >= {"cpus_used", "cpu_utilization"}
        rig.lives = False
        await rig.step(0)
        assert RUN not in rig.collector.targets
        told = rig.questions.answer(TelemetryAsk(key=RUN, metrics=("cpus_used",)))
        assert (told.ended, [series.metric for series in told.series]) == (True, ["cpus_used"])
        assert "is not measured" in rig.questions.answer(TelemetryAsk(key=RunKey(8, 1))).error

    asyncio.run(scenario())


def test_who_follows_gets_every_window_alerts_and_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        await rig.step(0)
        assert rig.questions.received(asked(TelemetryAsk(key=RUN, follow=True, metrics=("cpus_used",)), 5))
        rig.collector.targets[RUN].set_mode(Mode.DEBUG, 1000)
        await rig.step(100_000)
        await rig.step(200_000)
        rig.questions.alerted(RUN, MetricAlert(rule="gpu_idle", at_ms=1))
        rig.questions.alerted(None, MetricAlert(rule="other", at_ms=1))
        rig.lives = False
        await rig.step(0)
        told = [TELEMETRY_TOLD.read(message) for message in rig.posted]
        assert {message.ticket for message in rig.posted} == {5}
        assert [each.mode for each in told[1:-1]] == [Mode.DEBUG] * len(told[1:-1])
        assert sum(len(each.series) for each in told) >= 2
        assert [alert.rule for each in told for alert in each.alerts] == ["gpu_idle"]
        assert told[-1].ended

    asyncio.run(scenario())


def test_followers_are_bounded_and_end_with_the_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        for ticket in range(MAX_FOLLOWERS + 1):
            rig.questions.received(asked(TelemetryAsk(follow=True), ticket))
        assert rig.posted[-1].error == "too many streams of figures on this node"
        stop = pb.ServerMessage(stop_telemetry=pb.StopTelemetry(ticket=0))
        assert rig.questions.received(stop)
        rig.questions.received(asked(TelemetryAsk(follow=True), 9999))
        assert not rig.posted[-1].error
        rig.questions.closed()
        count = len(rig.posted)
        rig.questions.alerted(None, MetricAlert(rule="x", at_ms=1))
        assert len(rig.posted) == count
        assert not rig.questions.received(pb.ServerMessage(goodbye=pb.Goodbye()))

    asyncio.run(scenario())


def test_groups_of_a_run_without_a_script_are_added_up(tmp_path: Path) -> None:
    places = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "cpu.stat").write_text("usage_usec 1000000\n")
        (folder / "pids.current").write_text("2\n")
        places.append(GroupPlace(number=7, run=1, path=str(folder)))
    found = read_places(places)
    assert found is not None
    assert found.counters["cpus_used", ""] == 2.0
    assert found.gauges["processes", ""] == 4.0
    assert read_places([]) is None


def test_processes_are_read_where_there_are_no_groups() -> None:
    import os

    found = read_places([GroupPlace(number=7, run=1, pids=(os.getpid(),))])
    assert found is not None
    assert found.counters["cpus_used", ""] > 0


def test_a_node_that_runs_steps_alone_knows_whose_they_are(tmp_path: Path) -> None:
    folders = StepFolders(tmp_path, reachable=False)
    base = StartOrder(
        key=RUN,
        allocation_id="a7",
        user="ada",
        vcluster="gpu",
        output_prefix="physics/-/a7/logs/run-1",
        script=b"secret",
        env={"PASSWORD": "x"},
        token="t",
    )
    launch = LaunchOrder(base=base, step=3, launch_id="l", plan=b"", tasks=(), size=1, nodes=("n2",), node_index=0)
    assert folders.order(RUN) is None
    folders.create(launch.key, _spec(launch, NOTHING, ()), "", (0, 0))
    order = folders.order(RUN)
    assert order is not None
    assert run_labels(Target(RUN, 1.0, order)) == {
        "allocation": "a7",
        "run": "1",
        "tenant": "physics",
        "project": "",
        "user": "ada",
        "vcluster": "gpu",
    }
    assert (order.script, order.env, order.token) == (b"", {}, ""), "nothing secret is written a second time"
    assert folders.order(RunKey(7, 2)) is None
    assert folders.order(RunKey(77, 1)) is None
