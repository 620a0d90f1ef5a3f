"""Allocations side by side, and how one fares."""

from msgspec import Struct


class ComparedPoint(Struct, frozen=True, kw_only=True):
    """The mean of one window, `t_s` seconds after the allocation started."""

    t_s: float
    length_s: float = 0.0
    mean: float


class ComparedSeries(Struct, frozen=True, kw_only=True):
    """One metric of one allocation, of all its nodes."""

    id: str
    mean: float
    max: float | None = None
    count: int = 0
    points: list[ComparedPoint] = []


class ComparedMetric(Struct, frozen=True, kw_only=True):
    """One metric; allocations of which it is not known are not in `series`."""

    metric: str
    unit: str = ""
    series: list[ComparedSeries] = []


class Compared(Struct, frozen=True, kw_only=True):
    """One of the allocations: since when and how long it ran, and where its figures come from."""

    id: str
    name: str = ""
    state: str = ""
    started_at: str | None = None
    elapsed_s: float = 0.0
    source: str = ""
    note: str = ""
    resolution_s: float = 0.0


class Comparison(Struct, frozen=True, kw_only=True):
    """`source` is the store if all figures come from there."""

    align: str = "relative"
    source: str = ""
    allocations: list[Compared] = []
    items: list[ComparedMetric] = []


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `health` is ok, warning or unknown, and then `text` says why nothing is known."""

    name: str
    health: str
    text: str = ""
    value: float | None = None
    unit: str = ""
    node: str | None = None
    device: str | None = None


class Diagnostics(Struct, frozen=True, kw_only=True):
    """A section that was not asked for is empty."""

    id: str
    source: str = ""
    note: str = ""
    resolution_s: float = 30.0
    network: list[Finding] = []
    storage: list[Finding] = []
    gpus: list[Finding] = []
    unreachable: list[str] = []
