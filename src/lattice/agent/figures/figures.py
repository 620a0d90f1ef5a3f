"""What an agent measures of itself, in the text format of Prometheus. Agents have no library for it: they stay small."""

import time
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import NamedTuple

from lattice.core.model.site.protocols import PINGS
from lattice.observe.recent_lines import RECENT
from lattice.observe.scrubbing import scrub
from lattice.wire.pb import agent_pb2 as pb

PING_EVERY_S = 60.0
MAX_LOG_BYTES = 512 << 10
_LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0)
_STARTS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0)


class Family(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    help: str


FAMILIES: Mapping[str, Family] = {
    "lattice_agent_heartbeat_latency_seconds": Family(
        "histogram", ("node_id",), "Time until the server answered a ping beside a heartbeat, once a minute"
    ),
    "lattice_agent_allocation_startup_seconds": Family(
        "histogram",
        ("node_id",),
        "Time from the order to start a run until its process started, images and prologue included",
    ),
    "lattice_agent_ebpf_overhead_percent": Family(
        "gauge", ("node_id",), "CPU time of the BPF programs, in percent of one CPU; absent where none are loaded"
    ),
    "lattice_agent_connected": Family("gauge", ("node_id",), "1 while a server has welcomed the agent"),
    "lattice_agent_runs": Family("gauge", ("node_id",), "Runs on this node"),
}


class Histogram:
    """Counts in buckets with these upper ends, in rising order."""

    def __init__(self, ends: tuple[float, ...]) -> None:
        self._ends = ends
        self._counts = [0] * (len(ends) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        place = next((place for place, end in enumerate(self._ends) if value <= end), len(self._ends))
        self._counts[place] += 1
        self._sum += value

    def lines(self, name: str, label: str) -> list[str]:
        shown = zip((*map(str, self._ends), "+Inf"), accumulate(self._counts), strict=True)
        return [
            *(f'{name}_bucket{{{label},le="{end}"}} {count}' for end, count in shown),
            f"{name}_sum{{{label}}} {self._sum:.6f}",
            f"{name}_count{{{label}}} {sum(self._counts)}",
        ]


class AgentFigures:
    """`post` sends to the server. Gauges are read when the page is; one without a value is left out."""

    def __init__(
        self, node: str, post: Callable[[pb.AgentMessage], None], *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = f'node_id="{node}"'
        self._post = post
        self._now_s = now_s
        self._latency = Histogram(_LATENCIES)
        self._starts = Histogram(_STARTS)
        self._gauges: dict[str, Callable[[], float | None]] = {}
        self._answers_pings = False
        self._ping = 0
        self._pinged_s: float | None = None  # when the ping was sent that has no answer yet
        self._next_ping_s = 0.0

    def gauge(self, name: str, read: Callable[[], float | None]) -> None:
        """Shows a figure of FAMILIES; None = not known."""
        self._gauges[name] = read

    # heartbeats

    def welcomed(self, features: tuple[str, ...]) -> None:
        """A server that does not know pings is not sent any."""
        self._answers_pings = PINGS in features
        self._pinged_s = None

    def beat(self) -> None:
        """A heartbeat was sent."""
        now_s = self._now_s()
        if self._answers_pings and now_s >= self._next_ping_s:
            self._ping += 1
            self._pinged_s, self._next_ping_s = now_s, now_s + PING_EVERY_S
            self._post(pb.AgentMessage(ping=pb.Ping(number=self._ping)))

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this."""
        if message.HasField("welcome"):
            self.welcomed(tuple(message.welcome.protocol.features))
        if message.HasField("ask_log"):
            lines = map(scrub, RECENT.since(message.ask_log.since_s, most_bytes=MAX_LOG_BYTES))
            self._post(pb.AgentMessage(log_told=pb.LogTold(ticket=message.ask_log.ticket, lines=lines)))
            return True
        if not message.HasField("pong"):
            return False
        if self._pinged_s is not None and message.pong.number == self._ping:
            self._latency.observe(self._now_s() - self._pinged_s)
            self._pinged_s = None
        return True

    # runs

    def started(self, since_s: float) -> None:
        """A run that was ordered at that moment, as `now_s` counts, has a process."""
        self._starts.observe(self._now_s() - since_s)

    def now_s(self) -> float:
        return self._now_s()

    def page(self) -> str:
        shown: dict[str, list[str]] = {
            "lattice_agent_heartbeat_latency_seconds": self._latency.lines(
                "lattice_agent_heartbeat_latency_seconds", self._label
            ),
            "lattice_agent_allocation_startup_seconds": self._starts.lines(
                "lattice_agent_allocation_startup_seconds", self._label
            ),
        }
        for name, read in self._gauges.items():
            value = read()
            if value is not None:
                shown[name] = [f"{name}{{{self._label}}} {value:g}"]
        lines: list[str] = []
        for name, samples in shown.items():
            family = FAMILIES[name]
            lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *samples]
        return "\n".join([*lines, ""])
