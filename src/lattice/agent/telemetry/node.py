"""All that an agent does about figures, as one thing for its driver: measure, answer, keep modes, report."""

import asyncio
from collections.abc import Callable

from lattice.agent.machine.state import AgentState
from lattice.agent.runs.devices import DeviceTable
from lattice.agent.runs.folders import RunFolders
from lattice.agent.telemetry.collector import Ask, Collector, Surroundings
from lattice.agent.telemetry.gpus import GpuSource
from lattice.agent.telemetry.modes import RunModes
from lattice.agent.telemetry.push.pusher import Pusher, PushSettings
from lattice.agent.telemetry.questions import TelemetryQuestions
from lattice.agent.telemetry.reporting import Reporting
from lattice.ports.nodes.agents import RunKey
from lattice.wire.pb import agent_pb2 as pb


class NodeTelemetry:
    """`run` for good; `received` and `closed` as the stream to a server goes."""

    def __init__(
        self,
        folders: RunFolders,
        devices: DeviceTable,
        ask: Ask,
        post: Callable[[pb.AgentMessage], None],
        state: Callable[[], AgentState],
    ) -> None:
        self.collector = Collector(
            Surroundings(cpus=devices.cpu_count, ask=ask, order_of=folders.order, devices=devices)
        )
        self.gpus = GpuSource(devices.gpu_count)
        self.collector.further = self.gpus.figures
        self.pusher: Pusher | None = None
        self._modes = RunModes(self.collector, folders.path, lambda key: _started_s(state(), key))
        self._questions = TelemetryQuestions(self.collector, post, self.sources)
        self._reporting = Reporting(self.collector, self._questions, post)

    def sources(self) -> tuple[str, ...]:
        """Where the figures come from, as the node says it of itself."""
        found = ("cgroup", "proc") if self.collector.has_groups else ("proc",)
        return (*found, "nvml") if self.gpus.is_answering else found

    async def run(self) -> None:
        """Never returns."""
        loops = [self.collector.run(), self.gpus.run()]
        if self.pusher is not None:
            loops.append(self.pusher.run())
        await asyncio.gather(*loops)

    def push_to(self, settings: PushSettings | None) -> None:
        """Windows go to a store from now on; before `run`."""
        if settings is not None:
            self.pusher = Pusher(settings, self.collector)

    def heard(self, message: pb.ServerMessage) -> None:
        """Looks at every message, also at those for others."""
        self._modes.heard(message)
        self._reporting.heard(message)

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this."""
        return self._questions.received(message)

    def closed(self) -> None:
        """The stream to the server is gone."""
        self._reporting.closed()
        self._questions.closed()


def _started_s(state: AgentState, key: RunKey) -> float:
    run = state.find(key)
    return run.started_boot_s if run is not None else 0.0
