"""All that an agent does about figures, as one thing for its driver: measure, answer, keep modes, report."""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from lattice.agent.collectors.figures import FigureRelay
from lattice.agent.machine.state import AgentState
from lattice.agent.runs.devices import DeviceTable
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.telemetry.access.watching import FEATURE, AccessWatch
from lattice.agent.telemetry.access.watching import SOURCE as ACCESS
from lattice.agent.telemetry.bpf.source import BpfSource
from lattice.agent.telemetry.collector import Ask, Collector, Surroundings
from lattice.agent.telemetry.gpus import GpuSource
from lattice.agent.telemetry.modes import RunModes
from lattice.agent.telemetry.push.group import GroupPusher
from lattice.agent.telemetry.push.pusher import Pusher
from lattice.agent.telemetry.push.requests import PushSettings
from lattice.agent.telemetry.push.scraping import Connect, Scraper
from lattice.agent.telemetry.questions import TelemetryQuestions
from lattice.agent.telemetry.reporting import Reporting
from lattice.agent.telemetry.totals import RunTotals
from lattice.agent.telemetry.traces import DebugTraces
from lattice.agent.tunnels.streams import Refused
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.wire.pb import agent_pb2 as pb

# Seconds after such a message in which the node is measured each second, whether or not it has work by then.
AWAKE_S = {"welcome": 3.0, "start_run": 3.0, "launch_step": 3.0, "ask_telemetry": 60.0}


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """What an administrator says about it."""

    push: PushSettings | None = None  # where windows go; None = nowhere
    without: frozenset[str] = frozenset()  # sources of figures that are not read


class NodeTelemetry:
    """`run` for good; `received` and `closed` as the stream to a server goes."""

    def __init__(
        self,
        folders: RunFolders,
        devices: DeviceTable,
        ask: Ask,
        post: Callable[[pb.AgentMessage], None],
        state: Callable[[], AgentState],
        order_of_steps: Callable[[RunKey], StartOrder | None] = lambda _key: None,
        has_steps: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state, self._has_steps = state, has_steps
        self._awake_until_s = 0.0

        def order_of(key: RunKey) -> StartOrder | None:
            return folders.order(key) or order_of_steps(key)

        self.collector = Collector(Surroundings(cpus=devices.cpu_count, ask=ask, order_of=order_of, devices=devices))
        self.access = AccessWatch(self.collector, folders.state_dir)
        self.gpus = GpuSource(devices.gpu_count)
        self.collector.further = self.gpus.figures
        self.pusher: Pusher | None = None
        self.connect: Connect | None = None  # to the ports of runs; where figures of their own are read
        self._group: GroupPusher | None = None
        self._traces: DebugTraces | None = None
        self._without: dict[str, str] = {}
        self.collector.kernel = BpfSource()
        self._modes = RunModes(
            self.collector,
            lambda key: folders.state_dir if key is None else folders.path(key),
            lambda key: _started_s(state(), key),
        )
        self._modes.recall_node()
        self.totals = RunTotals(self.collector)
        self._questions = TelemetryQuestions(self.collector, post, self.sources, self.missing, self._modes.set_node)
        self._reporting = Reporting(self.collector, self._questions, post)
        self.collector.is_idle = self._is_idle

    def _is_idle(self) -> bool:
        state = self._state()
        has_work = bool(state.runs or state.waiting) or self._has_steps()
        is_watched = self.pusher is not None or self._questions.is_followed or time.monotonic() < self._awake_until_s
        return not has_work and not is_watched

    def sources(self) -> tuple[str, ...]:
        """Where the figures come from, as the node says it of itself."""
        kernel, collector = self.collector.kernel, self.collector
        known = {
            "bpf": kernel is not None and kernel.is_answering,
            "cgroup": collector.has_groups and collector.reads_groups,
            "proc": True,
        }
        read = (*(name for name, is_read in known.items() if is_read), *self.gpus.sources)
        return (*read, ACCESS) if self.access.is_reading else read

    def missing(self) -> tuple[str, ...]:
        """Sources that this node does not have, with the reason."""
        kernel = self.collector.kernel
        reasons = dict(self._without)
        if kernel is not None and kernel.problem:
            reasons["bpf"] = kernel.problem
        if not self.collector.has_groups:
            reasons.setdefault("cgroup", "runs have no control groups here")
        reasons |= self.gpus.problems()
        if why := self.access.why_not:
            reasons[ACCESS] = why
        return tuple(f"{name}: {why}" for name, why in reasons.items())

    @property
    def bpf_overhead_percent(self) -> float | None:
        """CPU time of the kernel programs, in percent of one CPU; None where there are none."""
        return self.collector.kernel.overhead_percent if self.collector.kernel is not None else None

    def _leave_out(self, sources: frozenset[str]) -> None:
        """These are not read, whether or not the node has them."""
        self._without = dict.fromkeys(sorted(sources), "switched off by --telemetry-without")
        if "bpf" in sources:
            self.collector.kernel = None
        if "cgroup" in sources:
            self.collector.reads_groups = False
        self.gpus.leave_out(sources)
        self.access.is_off = ACCESS in sources

    async def run(self) -> None:
        """Never returns."""
        loops = [self.collector.run(), self.gpus.run()]
        if self.pusher is not None:
            loops.append(self.pusher.run())
            if self.connect is not None:
                targets = self.collector.targets.values
                loops.append(Scraper(targets, self.pusher.take_shown, self.connect, Refused).run())
        if self._group is not None:
            loops.append(self._group.run())
        if self._traces is not None:
            loops += [self._traces.run(), self.access.run()]
        await asyncio.gather(*loops)

    def arrange(self, settings: TelemetrySettings, relay: FigureRelay | None = None) -> None:
        """Before `run`. `relay`: the way by collectors, of this node's figures and of those of others."""
        self._leave_out(settings.without)
        if settings.push is not None:
            self.pusher = Pusher(settings.push, self.collector)
            if relay is not None:
                self.pusher.go_by(relay)
                self._group = GroupPusher(relay, self.pusher.send)

    def features(self, *, has_groups: bool) -> set[str]:
        """What this node can do for its work, where the shim has control groups or not."""
        return {FEATURE} if has_groups and not self.access.why_not else set()

    def keep_traces(self, sink: ChunkSink, node: str) -> None:
        """Before `run`: samples of mode debug go to this store."""
        self._traces = DebugTraces(self.collector, sink, node)
        self.access.keep_at(sink, node)

    def heard(self, message: pb.ServerMessage) -> None:
        """Looks at every message, also at those for others."""
        awake_s = AWAKE_S.get(message.WhichOneof("body") or "")
        if awake_s is not None:
            was_idle = self._is_idle()
            self._awake_until_s = max(self._awake_until_s, time.monotonic() + awake_s)
            if was_idle:
                self.collector.wake()
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
