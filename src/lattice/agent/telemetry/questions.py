"""Answers servers that ask what was measured, once or with everything that follows."""

from collections.abc import Callable

from msgspec.structs import replace

from lattice.agent.telemetry.collector import Collector, Target, Windows
from lattice.agent.telemetry.memory import as_series
from lattice.core.model.telemetry.modes import DEFAULT_INTERVAL_MS, Mode, RunMode
from lattice.core.model.telemetry.rates import Name
from lattice.core.model.telemetry.windows import Window
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import NOT_MEASURED, MetricAlert, TelemetryAsk, TelemetryTold
from lattice.wire.agents.telemetry import TELEMETRY_ASK, TELEMETRY_TOLD
from lattice.wire.pb import agent_pb2 as pb

MAX_FOLLOWERS = 256


class TelemetryQuestions:
    """One per agent. Followers end with the stream to the server."""

    def __init__(
        self,
        collector: Collector,
        post: Callable[[pb.AgentMessage], None],
        sources: Callable[[], tuple[str, ...]],
        missing: Callable[[], tuple[str, ...]] = tuple,
        set_node: Callable[[RunMode], None] = lambda mode: None,
    ) -> None:
        self._collector = collector
        self._post = post
        self._sources = sources
        self._missing = missing
        self._set_node = set_node
        self._followers: dict[int, TelemetryAsk] = {}
        collector.listeners.append(self._windows)
        collector.ended.append(self._ended)

    @property
    def is_followed(self) -> bool:
        return bool(self._followers)

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this."""
        if message.HasField("stop_telemetry"):
            self._followers.pop(message.stop_telemetry.ticket, None)
            return True
        if not message.HasField("ask_telemetry"):
            return False
        ticket, ask = message.ask_telemetry.ticket, TELEMETRY_ASK.read(message.ask_telemetry)
        if ask.mode is not None and ask.key is None:
            self._set_node(ask.mode)
        told = self.answer(ask)
        if ask.follow and not told.error and not told.ended:
            if len(self._followers) >= MAX_FOLLOWERS:
                told = TelemetryTold(error="too many streams of figures on this node")
            else:
                self._followers[ticket] = ask
        self._tell(ticket, told)
        return True

    def closed(self) -> None:
        """The stream to the server is gone, and who asked on it."""
        self._followers.clear()

    def answer(self, ask: TelemetryAsk) -> TelemetryTold:
        target = self._collector.targets.get(ask.key)
        found = self._collector.memory.read(ask.key, ask.since_ms, ask.metrics)
        if target is None and not found:
            name = "the node" if ask.key is None else f"run {ask.key}"
            return TelemetryTold(error=f"{name} {NOT_MEASURED}")
        if target is not None:
            wanted = frozenset(ask.metrics)
            for series, window in target.gathering.so_far().items():
                if not wanted or series[0] in wanted:
                    found.setdefault(series, []).append(window)
        return replace(self._of(target), series=as_series(found), ended=target is None)

    def alerted(self, key: RunKey | None, alert: MetricAlert) -> None:
        """Tells those who follow the run, or the node."""
        for ticket, ask in list(self._followers.items()):
            if ask.key == key:
                self._tell(ticket, replace(self._of(self._collector.targets.get(key)), alerts=(alert,)))

    def _windows(self, target: Target, done: Windows, _figures: dict[Name, float]) -> None:
        for ticket, ask in list(self._followers.items()):
            if ask.key == target.key:
                wanted = frozenset(ask.metrics)
                fresh: dict[Name, list[Window]] = {
                    series: [window] for series, window in done.items() if not wanted or series[0] in wanted
                }
                if fresh:
                    self._tell(ticket, replace(self._of(target), series=as_series(fresh)))

    def _ended(self, target: Target) -> None:
        for ticket, ask in list(self._followers.items()):
            if ask.key == target.key:
                del self._followers[ticket]
                self._tell(ticket, replace(self._of(None), ended=True))

    def _of(self, target: Target | None) -> TelemetryTold:
        return TelemetryTold(
            sources=self._sources(),
            missing=self._missing(),
            mode=target.mode if target is not None else Mode.PROD,
            interval_ms=target.interval_ms if target is not None else DEFAULT_INTERVAL_MS,
            now_ms=self._collector.now_ms(),
        )

    def _tell(self, ticket: int, told: TelemetryTold) -> None:
        message = TELEMETRY_TOLD.write(told)
        message.ticket = ticket
        self._post(pb.AgentMessage(telemetry_told=message))
