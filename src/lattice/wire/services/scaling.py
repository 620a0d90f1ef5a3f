"""What a submission says of scaling, in both spellings: fields of the lifecycle, and `scale_policy`. And how scaling stands."""

import math
import re

from msgspec import Struct

from lattice.core.model.services.scaling import ScalePolicy, ScaleStanding
from lattice.core.model.units import BadUnit, parse_duration_s, parse_size_mb
from lattice.core.model.work.allocations import Allocation, Lifecycle
from lattice.ports.site.metric_store import Matcher, Selector
from lattice.wire.bounds import Argument, Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

MAX_NODES = 1_000_000
MAX_WINDOW_S = 86_400
MAX_MATCHERS = 10
LIFECYCLE_NAMES = {"min": "min_nodes", "max": "max_nodes"}  # of the same fields in the lifecycle itself
FRACTIONS = ("cpu_utilization", "gpu_utilization")
OF_AGENTS = (*FRACTIONS, "memory_used")
OF_GATEWAY = ("request_rate", "request_latency_p99", "in_flight")
OF_STORE = ("queue_depth",)  # that the work itself reports to the store
BUILT_IN = (*OF_AGENTS, *OF_GATEWAY, *OF_STORE)
_ALIASES = {"memory": "memory_used"}
_CUSTOM = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]{0,199})(?:\{(.*)\})?", re.DOTALL)
_MATCHER = re.compile(r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*""")
_MILLISECONDS = re.compile(r"(\d+(?:\.\d+)?)ms")


class ScaleFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy in one record."""

    min: int | None = None
    max: int | None = None
    metric: Argument = ""
    target: Short | float | None = None
    scale_up_window: Short | int | None = None
    scale_down_window: Short | int | None = None
    scale_down_threshold: float | None = None
    evaluation_interval: Short | int | None = None
    cooldown_period: Short | int | None = None


class ScalingView(Struct, frozen=True, kw_only=True):
    """The policy of a service that follows its load, and what was decided last."""

    min_nodes: int
    max_nodes: int
    metric: str
    target: float
    scale_up_window_s: int
    scale_down_window_s: int
    scale_down_threshold: float
    evaluation_interval_s: int
    cooldown_period_s: int
    value: float | None  # of the metric, when it was last known
    decision: str  # up, down, hold; empty = not evaluated yet
    reason: str
    evaluated_at: str | None
    scaled_at: str | None


def policy_of(kind: Lifecycle, fields: ScaleFields | None) -> ScalePolicy | None:
    """The policy of reactive work, None of any other. Raises BadField that names what is missing or impossible."""
    if kind is not Lifecycle.REACTIVE:
        if fields is not None:
            given = [name for name in fields.__struct_fields__ if getattr(fields, name) not in (None, "")]
            named = ", ".join(LIFECYCLE_NAMES.get(name, name) for name in given) or "scale_policy"
            raise BadField(
                "lifecycle.scale_policy", f"{named}: for reactive work alone", hint="set lifecycle.type to reactive"
            )
        return None
    wanted = fields or ScaleFields()
    missing = [name for name in ("min", "max", "metric", "target") if getattr(wanted, name) in (None, "")]
    if missing:
        names = ", ".join(LIFECYCLE_NAMES.get(name, name) for name in missing)
        raise BadField(
            "lifecycle.type",
            f"reactive work needs {names}",
            hint="--min-nodes, --max-nodes, --scale-metric, --scale-target",
        )
    low, high = (
        _between(wanted.min or 0, "min_nodes", 1, MAX_NODES),
        _between(wanted.max or 0, "max_nodes", 1, MAX_NODES),
    )
    if low > high:
        raise BadField("lifecycle.max_nodes", f"at most {high} nodes, but at least {low} are asked for")
    metric = metric_name(wanted.metric)
    threshold = 0.5 if wanted.scale_down_threshold is None else wanted.scale_down_threshold
    if not 0 < threshold < 1:
        raise BadField("lifecycle.scale_down_threshold", f"{threshold:g} is not possible", limit="above 0, below 1")
    return ScalePolicy(
        min_nodes=low,
        max_nodes=high,
        metric=metric,
        target=_target(wanted.target, metric),
        up_window_s=_seconds(wanted.scale_up_window, "scale_up_window", 120),
        down_window_s=_seconds(wanted.scale_down_window, "scale_down_window", 300),
        down_threshold=threshold,
        interval_s=max(1, _seconds(wanted.evaluation_interval, "evaluation_interval", 60)),
        cooldown_s=_seconds(wanted.cooldown_period, "cooldown_period", 180),
    )


def metric_name(text: str) -> str:
    """As it is kept. Raises BadField for what is neither built in nor a metric with matchers."""
    name = _ALIASES.get(text.strip(), text.strip())
    if name in BUILT_IN:
        return name
    found = selector_of(name)
    if found is None or not (found.matchers or name.endswith("}")):
        raise BadField(
            "lifecycle.metric",
            f'"{text[:60]}" is no metric',
            hint=f"one of {', '.join(BUILT_IN)}, or a metric of the site's store such as tickets_open{{queue='a'}}",
        )
    return name


def needs_store(metric: str) -> bool:
    return metric not in OF_AGENTS and metric not in OF_GATEWAY


def selector_of(text: str) -> Selector | None:
    """The metric and its matchers; None if the text is something else."""
    found = _CUSTOM.fullmatch(text)
    if found is None:
        return None
    matchers: list[Matcher] = []
    rest = (found[2] or "").strip()
    while rest:
        each = _MATCHER.match(rest)
        if each is None or len(matchers) == MAX_MATCHERS:
            return None
        matchers.append(Matcher(label=each[1], operator=each[2], value=each[3] if each[3] is not None else each[4]))
        rest = rest[each.end() :]
        if rest and not rest.startswith(","):
            return None
        rest = rest[1:].strip()
    return Selector(name=found[1], matchers=tuple(matchers))


def _target(value: str | float | None, metric: str) -> float:
    """A number, 80 %, a duration such as 100ms, or a size such as 8G."""
    text = str(value).strip()
    number = _number(text, metric)
    if number is None or not math.isfinite(number) or number <= 0:
        raise BadField(
            "lifecycle.target", f'"{text[:40]}" is no target for {metric}', hint="such as 0.8, 80%, 100ms, 8G or 20"
        )
    if metric in FRACTIONS and number > 1:
        raise BadField("lifecycle.target", f"{text} is more than everything", limit="1, or 100%")
    return number


def _number(text: str, metric: str) -> float | None:
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        if metric == "request_latency_p99" and not _is_plain(text):
            short = _MILLISECONDS.fullmatch(text)
            return float(short[1]) / 1000 if short else float(parse_duration_s(text))
        if metric == "memory_used" and not _is_plain(text):
            return float(parse_size_mb(text)) * (1 << 20)
        return float(text)
    except (ValueError, BadUnit):
        return None


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None


def _seconds(value: str | int | None, field: str, default: int) -> int:
    if value is None:
        return default
    try:
        seconds = parse_duration_s(str(value))
    except BadUnit as error:
        raise BadField(f"lifecycle.{field}", str(error)) from None
    return _between(seconds, field, 0, MAX_WINDOW_S)


def _between(value: int, field: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise BadField(f"lifecycle.{field}", f"{value} is not possible", limit=f"from {low:,} to {high:,}")
    return value


def scaling_view(record: Allocation, policy: ScalePolicy, standing: ScaleStanding | None) -> ScalingView:
    told = standing if standing is not None and standing.run == record.run else None
    return ScalingView(
        min_nodes=policy.min_nodes,
        max_nodes=policy.max_nodes,
        metric=policy.metric,
        target=policy.target,
        scale_up_window_s=policy.up_window_s,
        scale_down_window_s=policy.down_window_s,
        scale_down_threshold=policy.down_threshold,
        evaluation_interval_s=policy.interval_s,
        cooldown_period_s=policy.cooldown_s,
        value=None if told is None else told.value,
        decision="" if told is None else told.decision,
        reason="" if told is None else told.reason,
        evaluated_at=None if told is None else rfc3339(told.at),
        scaled_at=rfc3339(record.scaled_at),
    )
