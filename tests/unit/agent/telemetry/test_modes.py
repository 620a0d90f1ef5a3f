"""Modes on the node: taken from orders and updates, kept over a restart of the agent, over by the node's own clock; and reports."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from lattice.agent.telemetry.modes import RunModes
from lattice.agent.telemetry.reporting import Reporting
from lattice.core.model.site.protocols import TELEMETRY
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.ports.nodes.agents import RunKey, StartOrder, UpdateOrder
from lattice.wire.agents.messages import order_message
from lattice.wire.agents.telemetry import NODE_FIGURES
from lattice.wire.pb import agent_pb2 as pb
from tests.unit.agent.telemetry.test_collecting import RUN, Rig

DEBUG = RunMode(mode=Mode.DEBUG, interval_ms=100, left_s=60.0)


class Modes(Rig):
    def __init__(self, folder: Path, order: StartOrder | None = None) -> None:
        super().__init__(folder)
        self.boot_s = 5000.0
        if order is not None:
            around = self.collector._around
            object.__setattr__(around, "order_of", lambda key: order)
        self.modes = RunModes(self.collector, lambda key: folder, lambda key: 4990.0, lambda: self.boot_s)

    def is_debug(self) -> bool:
        return self.collector.targets[RUN].mode is Mode.DEBUG

    def pass_s(self, seconds: float) -> None:
        self.boot_s += seconds
        self.modes.expire()


def test_an_update_changes_the_mode_until_its_time_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Modes(tmp_path)
        await rig.step(0)
        assert not rig.is_debug()
        rig.modes.heard(order_message(UpdateOrder(key=RUN, walltime_s=1.0)))
        assert not rig.is_debug()
        rig.modes.heard(order_message(UpdateOrder(key=RUN, walltime_s=1.0, telemetry=DEBUG)))
        assert (rig.is_debug(), rig.collector.targets[RUN].interval_ms) == (True, 100)
        rig.pass_s(59.0)
        assert rig.is_debug()
        rig.pass_s(1.0)
        assert not rig.is_debug()
        rig.modes.set(RUN, DEBUG)
        rig.modes.set(RUN, RunMode())
        assert not rig.is_debug()

    asyncio.run(scenario())


def test_a_new_agent_finds_the_mode_and_the_rest_of_its_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = Modes(tmp_path)
        await before.step(0)
        before.modes.set(RUN, DEBUG)
        (tmp_path / "alloc-7.1").rename(tmp_path / "gone")
        after = Modes(tmp_path)
        await after.step(0)
        assert after.is_debug()
        after.pass_s(60.0)
        assert not after.is_debug()

    asyncio.run(scenario())


def test_a_submission_is_measured_closely_from_its_start_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Modes(tmp_path, StartOrder(key=RUN, telemetry=replace(DEBUG, left_s=20.0)))
        await rig.step(0)
        assert rig.is_debug()
        rig.pass_s(10.0)  # it had started 10 s before
        assert not rig.is_debug()

    asyncio.run(scenario())


def test_what_a_server_says_is_held_to_the_bounds(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Modes(tmp_path)
        await rig.step(0)
        rig.modes.set(RUN, RunMode(mode=Mode.DEBUG, interval_ms=1, left_s=1e9))
        assert rig.collector.targets[RUN].interval_ms == 100
        rig.pass_s(86_400.0)
        assert not rig.is_debug()
        rig.modes.set(RunKey(99, 1), DEBUG)  # of a run that is not measured: kept beside it
        rig.collector.ended[-1](rig.collector.targets[RUN])

    asyncio.run(scenario())


def test_last_figures_and_alerts_are_reported_to_servers_that_take_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        sent: list[pb.AgentMessage] = []
        now = [0.0]
        reporting = Reporting(rig.collector, rig.questions, sent.append, lambda: now[0])
        await rig.step(0)
        await rig.step(500_000)
        reporting.send_due()
        assert sent == [], "no server has said that it takes them"
        reporting.heard(pb.ServerMessage(welcome=pb.Welcome(protocol=pb.Protocol(features=[TELEMETRY]))))
        reporting.send_due()
        told = NODE_FIGURES.read(sent[-1].run_figures)
        (run,) = [each for each in told.runs if each.key == RUN]
        assert "cpu_utilization" in run.metrics
        now[0] = 10.0
        reporting.send_due()
        assert len(sent) == 1
        rig.collector.further = lambda target: {("gpu_memory_utilization", "0"): 99.0} if target.key else {}
        await rig.step(600_000)
        reporting.send_due()
        (alert,) = NODE_FIGURES.read(sent[-1].run_figures).alerts
        assert (alert.key, alert.alert.rule) == (RUN, "gpu_memory_full")
        assert alert.alert.text == "GPU memory above 95 %: the program may run out of it; now 99.0 % (gpu 0)"
        reporting.closed()
        now[0] = 1000.0
        reporting.send_due()
        assert len(sent) == 2

    asyncio.run(scenario())


def test_a_node_is_measured_more_closely_for_a_while_also_by_a_new_agent(tmp_path: Path) -> None:
    def agent(name: str) -> Modes:
        (tmp_path / name).mkdir()
        made = Modes(tmp_path / name)
        made.modes._folder = lambda key: tmp_path
        return made

    def mode_of(rig: Modes) -> Mode:
        return rig.collector.node.mode

    async def scenario() -> None:
        first = agent("first")
        first.modes.set_node(DEBUG)
        assert mode_of(first) is Mode.DEBUG
        second = agent("second")
        second.modes.recall_node()
        assert mode_of(second) is Mode.DEBUG
        second.pass_s(61.0)
        assert mode_of(second) is Mode.PROD
        third = agent("third")
        third.boot_s += 61.0
        third.modes.recall_node()
        assert mode_of(third) is Mode.PROD
        (tmp_path / "telemetry.json").write_text(
            '{"mode": "debug", "interval_ms": 100, "until_boot_s": 9000000, "boot_id": "another"}'
        )
        fourth = agent("fourth")
        fourth.modes.recall_node()
        assert mode_of(fourth) is Mode.PROD, "of another boot"

    asyncio.run(scenario())
