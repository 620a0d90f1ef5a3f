"""Thresholds that a node watches for its runs and for itself, with hysteresis: an alert is raised once and is over once.

See docs/architecture/telemetry.md.
"""

from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.telemetry.rates import Name


class AlertRule(Struct, frozen=True, kw_only=True):
    """Raised when the metric was beyond `limit` for `for_s`; over when it was back beyond `back` for `quiet_s`."""

    name: str
    metric: str
    limit: float
    back: float
    is_below: bool = False  # it is low figures that are bad
    for_s: float = 0.0
    quiet_s: float = 30.0
    text: str = ""

    def is_bad(self, value: float) -> bool:
        return value < self.limit if self.is_below else value > self.limit

    def is_good(self, value: float) -> bool:
        return value >= self.back if self.is_below else value <= self.back


RULES = (
    AlertRule(
        name="gpu_idle",
        metric="gpu_utilization",
        limit=10.0,
        back=20.0,
        is_below=True,
        for_s=60.0,
        text="GPU use below 10 % for more than 60 s: the program may hang",
    ),
    AlertRule(
        name="gpu_memory_full",
        metric="gpu_memory_utilization",
        limit=95.0,
        back=90.0,
        text="GPU memory above 95 %: the program may run out of it",
    ),
    AlertRule(
        name="network_errors",
        metric="network_error_rate",
        limit=0.1,
        back=0.05,
        text="more than 0.1 % of the packets are in error or dropped",
    ),
    AlertRule(
        name="io_latency",
        metric="io_latency_p99",
        limit=10_000.0,
        back=5_000.0,
        text="the slowest percent of block requests takes more than 10 ms",
    ),
)


class Change(Struct, frozen=True, kw_only=True):
    """An alert that is raised now, or is over."""

    rule: AlertRule
    device: str
    value: float
    is_over: bool


class _Standing(Struct):
    is_raised: bool = False
    since_s: float | None = None  # since when it has been bad, or with `is_raised` good


class AlertRegistry:
    """The alerts of one run or node; time comes with the figures."""

    def __init__(self, rules: tuple[AlertRule, ...] = RULES) -> None:
        self._rules = rules
        self._standings: dict[tuple[str, str], _Standing] = {}

    def judge(self, now_s: float, figures: Mapping[Name, float]) -> list[Change]:
        """What changes with these figures. A metric that is not measured leaves everything as it is."""
        changes = []
        for (metric, device), value in figures.items():
            for rule in self._rules:
                if rule.metric == metric:
                    change = self._step(rule, device, value, now_s)
                    changes += [change] if change is not None else []
        return changes

    def _step(self, rule: AlertRule, device: str, value: float, now_s: float) -> Change | None:
        standing = self._standings.setdefault((rule.name, device), _Standing())
        turns = rule.is_good(value) if standing.is_raised else rule.is_bad(value)
        if not turns:
            standing.since_s = None
            return None
        if standing.since_s is None:
            standing.since_s = now_s
        if now_s - standing.since_s < (rule.quiet_s if standing.is_raised else rule.for_s):
            return None
        standing.is_raised, standing.since_s = not standing.is_raised, None
        return Change(rule=rule, device=device, value=value, is_over=not standing.is_raised)
