"""What a run used from its start to its end that no counter of the kernel adds up: use of GPUs, and energy.

An agent that was restarted meanwhile knows less of it: use is a share of what was measured and stays right, energy is too low.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from lattice.agent.machine.state import End
from lattice.agent.telemetry.collector import Collector, Target
from lattice.core.model.telemetry.rates import Name
from lattice.ports.nodes.agents import RunKey

LONGEST_S = 5.0  # between two samples; what lies between others further apart is not known
KEEP = 1000  # runs, of which the oldest are forgotten


class Total(Struct):
    at_s: float
    gpu_used_s: float = 0.0
    gpu_held_s: float = 0.0
    energy_j: float = 0.0


class RunTotals:
    """One per agent."""

    def __init__(self, collector: Collector, now_s: Callable[[], float] = time.monotonic) -> None:
        self._collector = collector
        self._now_s = now_s
        self._totals: OrderedDict[RunKey, Total] = OrderedDict()
        collector.samples.append(self._sampled)

    def _sampled(self, target: Target, figures: dict[Name, float]) -> None:
        if target.key is None:
            return
        now_s = self._now_s()
        total = self._totals.get(target.key)
        if total is None:
            self._totals[target.key] = Total(now_s)
            while len(self._totals) > KEEP:
                self._totals.popitem(last=False)
            return
        elapsed_s, total.at_s = min(LONGEST_S, now_s - total.at_s), now_s
        watts = self._processors_w(figures)
        for (metric, _), value in figures.items():
            if metric == "gpu_utilization":
                total.gpu_used_s += elapsed_s * min(100.0, max(0.0, value)) / 100
                total.gpu_held_s += elapsed_s
            elif metric == "gpu_power_draw":
                watts += max(0.0, value)
        total.energy_j += elapsed_s * watts

    def _processors_w(self, figures: dict[Name, float]) -> float:
        """What the processors draw, by the run's share of the CPU time that is used."""
        of_node = self._collector.node.figures
        watts, used = of_node.get(("power_draw", "")), of_node.get(("cpus_used", ""))
        own = figures.get(("cpus_used", ""))
        if watts is None or used is None or own is None or used <= 0:
            return 0.0
        return max(0.0, watts) * min(1.0, own / used)

    def added(self, key: RunKey, end: End) -> End:
        """The end of a run with what is known of it."""
        total = self._totals.pop(key, None)
        if total is None:
            return end
        usage = replace(
            end.usage,
            gpu_used_s=round(total.gpu_used_s, 3),
            gpu_held_s=round(total.gpu_held_s, 3),
            energy_j=round(total.energy_j, 3),
        )
        return replace(end, usage=usage)
