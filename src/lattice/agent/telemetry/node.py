"""All that an agent does about figures, as one thing for its driver: measure, answer, keep modes, report."""

import asyncio
from collections.abc import Callable

from lattice.agent.runs.devices import DeviceTable
from lattice.agent.runs.folders import RunFolders
from lattice.agent.telemetry.collector import Ask, Collector, Surroundings
from lattice.agent.telemetry.questions import TelemetryQuestions
from lattice.wire.pb import agent_pb2 as pb


class NodeTelemetry:
    """`run` for good; `received` and `closed` as the stream to a server goes."""

    def __init__(
        self,
        cpus: int,
        folders: RunFolders,
        devices: DeviceTable,
        ask: Ask,
        post: Callable[[pb.AgentMessage], None],
    ) -> None:
        self.collector = Collector(Surroundings(cpus=cpus, ask=ask, order_of=folders.order, devices=devices))
        self._questions = TelemetryQuestions(self.collector, post, self.sources)

    def sources(self) -> tuple[str, ...]:
        """Where the figures come from, as the node says it of itself."""
        return ("cgroup", "proc") if self.collector.has_groups else ("proc",)

    async def run(self) -> None:
        """Never returns."""
        await asyncio.gather(self.collector.run())

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this."""
        return self._questions.received(message)

    def closed(self) -> None:
        """The stream to the server is gone."""
        self._questions.closed()
