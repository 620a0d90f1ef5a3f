"""A node without work is measured rarely, and closely from the order of a start or a question on."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lattice.agent.machine.state import AgentState
from lattice.agent.runs.devices import DeviceTable, NodeTopology
from lattice.agent.runs.folders import RunFolders
from lattice.agent.shim_client import GroupPlace, ShimMessage
from lattice.agent.telemetry import collector, node
from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.node import NodeTelemetry
from lattice.core.model.telemetry.rates import Name
from lattice.ports.nodes.agents import RunKey
from lattice.wire.pb import agent_pb2 as pb

RUN = RunKey(7, 1)
FOR_GOOD_S = 3600.0
WITHIN_S = 20.0


class Idle:
    """A node; `samples` are those that were taken. Without a message that wakes it the second one comes too late for a test."""

    def __init__(self, folder: Path) -> None:
        self.runs: tuple[GroupPlace, ...] = ()
        self.folder = folder
        self.samples: asyncio.Queue[RunKey | None] = asyncio.Queue()
        self.telemetry = NodeTelemetry(
            RunFolders(folder / "state", reachable=False),
            DeviceTable(4, 0, "", NodeTopology()),
            self._ask,
            lambda _: None,
            AgentState,
        )
        self.telemetry.collector.kernel = None
        self.telemetry.collector.samples.append(self._sampled)

    def _ask(self, body: dict[str, object], answer: Callable[[ShimMessage], None] | None) -> None:
        if answer is not None and body == {"op": "groups"}:
            answer(ShimMessage(places=self.runs))

    def _sampled(self, target: Target, _figures: dict[Name, float]) -> None:
        self.samples.put_nowait(target.key)

    def start_run(self) -> None:
        group = self.folder / "group"
        group.mkdir()
        (group / "cpu.stat").write_text("usage_usec 0\n")
        self.runs = (GroupPlace(number=7, run=1, path=str(group)),)


@pytest.fixture(autouse=True)
def _it_sleeps_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "IDLE_S", FOR_GOOD_S)


@pytest.mark.parametrize("body", ["start_run", "launch_step"])
def test_a_run_is_measured_at_once_on_a_node_that_slept(body: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        idle = Idle(tmp_path)
        measuring = asyncio.create_task(idle.telemetry.collector.run())
        async with asyncio.timeout(WITHIN_S):
            assert await idle.samples.get() is None
            idle.start_run()
            message = pb.ServerMessage()
            getattr(message, body).SetInParent()
            idle.telemetry.heard(message)
            # Without further messages, and more than once.
            seen = [await idle.samples.get() for _ in range(4)]
        measuring.cancel()
        assert seen.count(RUN) >= 2

    asyncio.run(scenario())


def test_figures_of_a_node_that_slept_are_fresh_once_somebody_asks(tmp_path: Path) -> None:
    async def scenario() -> None:
        idle = Idle(tmp_path)
        measuring = asyncio.create_task(idle.telemetry.collector.run())
        async with asyncio.timeout(WITHIN_S):
            await idle.samples.get()
            idle.telemetry.heard(pb.ServerMessage(ask_telemetry=pb.AskTelemetry()))
            for _ in range(2):
                await idle.samples.get()
        measuring.cancel()

    asyncio.run(scenario())


def test_a_node_without_work_sleeps_and_one_with_work_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    telemetry = Idle(tmp_path).telemetry
    assert telemetry.collector._rest_s() == FOR_GOOD_S
    telemetry.heard(pb.ServerMessage(ask_telemetry=pb.AskTelemetry()))
    assert telemetry.collector._rest_s() <= 1.0
    now_s += node.AWAKE_S["ask_telemetry"] + 1
    assert telemetry.collector._rest_s() == FOR_GOOD_S
    telemetry._has_steps = lambda: True
    assert telemetry.collector._rest_s() <= 1.0
