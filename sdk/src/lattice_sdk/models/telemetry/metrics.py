"""Figures of allocations and nodes."""

from msgspec import Struct


class MetricPoint(Struct, frozen=True, kw_only=True):
    """A window. Percentiles are None where figures of several nodes or devices were put together."""

    at: str
    length_s: float
    mean: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    count: int = 0


class MetricRow(Struct, frozen=True, kw_only=True):
    """One metric over the period, of all nodes unless it names one; `now` is the mean of the newest window."""

    metric: str
    unit: str = ""
    node: str | None = None
    device: str | None = None
    now: float
    mean: float
    max: float | None = None
    count: int = 0
    points: list[MetricPoint] = []


class Metrics(Struct, frozen=True, kw_only=True):
    """`source` is where the figures come from: agents or store. What is not measured is not in `items`."""

    id: str
    source: str
    note: str = ""  # why they come from there
    read: list[str] = []  # what the nodes read: bpf, cgroup, proc, nvml, rocm
    missing: list[str] = []  # what they cannot read, with the reason
    mode: str = "prod"
    resolution_s: float = 30.0
    age_s: float | None = None  # of the newest figure
    items: list[MetricRow] = []
    unreachable: list[str] = []  # nodes that did not answer


class RunningMetrics(Struct, frozen=True, kw_only=True):
    """One allocation that runs; its figures are of all its nodes."""

    id: str
    name: str = ""
    user: str = ""
    nodes: int = 0
    age_s: float | None = None
    items: list[MetricRow] = []


class AllRunningMetrics(Struct, frozen=True, kw_only=True):
    """`left_out` counts allocations beyond those that are listed."""

    source: str
    note: str = ""  # why it is the nodes that answered
    items: list[RunningMetrics] = []
    left_out: int = 0


class Figure(Struct, frozen=True, kw_only=True):
    """One metric in one window."""

    metric: str
    unit: str = ""
    device: str | None = None
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int = 0


class MetricEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a stream of figures, by `kind`: what a node measured in one window (figures), a threshold that was crossed or
    with `over` no longer is (alert), or the run whose figures follow (run), with a `problem` of the nodes that cannot say theirs."""

    kind: str = ""
    node: str = ""
    at: str = ""
    length_s: float = 0.0
    mode: str = ""
    figures: list[Figure] = []
    rule: str = ""
    text: str = ""
    metric: str = ""
    device: str | None = None
    value: float = 0.0
    over: bool = False
    run: int = 0
    nodes: list[str] = []
    problem: str = ""
