"""Metrics of servers."""

from msgspec import Struct

from lattice_sdk.models.records import Figure


class FigurePoint(Struct, frozen=True, kw_only=True):
    at: Figure  # seconds since 1970
    value: Figure


class FigureSeries(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    points: list[FigurePoint] = []


class FigureHistory(Struct, frozen=True, kw_only=True):
    """`since` is the moment of the oldest sample that the server has."""

    server: str
    component: str
    leader: bool = False
    since: str | None = None
    series: list[FigureSeries] = []


class MetricTarget(Struct, frozen=True, kw_only=True):
    node: str
    address: str  # host:port
    group: str = ""


class TargetLeftOut(Struct, frozen=True, kw_only=True):
    node: str
    why: str


class MetricTargets(Struct, frozen=True, kw_only=True):
    """Every node is in one of the two lists."""

    targets: list[MetricTarget] = []
    left_out: list[TargetLeftOut] = []


class ServerDiagnostics(Struct, frozen=True, kw_only=True):
    """Secrets are left out of the configuration and of the lines."""

    server: str
    version: str = ""
    leader: bool = False
    applied_index: int = 0
    problem: str = ""
    warning: str = ""
    configuration: str = ""  # YAML
    log: list[str] = []


class NodeLog(Struct, frozen=True, kw_only=True):
    node: str
    log: list[str] = []
