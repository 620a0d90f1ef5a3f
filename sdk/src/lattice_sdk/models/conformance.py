"""Configurations of nodes: groups of like nodes, baselines, who differs and in what."""

from msgspec import Struct


class Difference(Struct, frozen=True, kw_only=True):
    """A component that differs; an empty text = it is not there."""

    component: str
    expected: str = ""
    actual: str = ""


class ConformanceGroup(Struct, frozen=True, kw_only=True):
    """Nodes of one fingerprint, and what separates them from the largest group (`expected`)."""

    fingerprint: str
    size: int = 0
    nodes: list[str] = []
    baseline_of: list[str] = []
    differences: list[Difference] = []


class Baseline(Struct, frozen=True, kw_only=True):
    """What the nodes of a vCluster should be; `source` is declared, majority or none."""

    vcluster: str
    source: str = ""
    fingerprint: str = ""
    kind: str = ""
    node: str = ""
    set_by: str = ""
    set_at: str | None = None
    components: dict[str, str] = {}


class Drift(Struct, frozen=True, kw_only=True):
    """A node that differs from its baseline."""

    node: str
    state: str = ""
    vcluster: str = ""
    expected: str = ""
    actual: str = ""
    since: str | None = None
    differences: list[Difference] = []
    is_sensitive: bool = False
    given_up_at: str | None = None
    escalated_at: str | None = None
    verified_at: str | None = None


class Conformance(Struct, frozen=True, kw_only=True):
    """The whole picture; `unknown` are nodes that have told nothing fresh."""

    nodes: int = 0
    groups: list[ConformanceGroup] = []
    unknown: list[str] = []
    baselines: list[Baseline] = []
    drifted: list[Drift] = []


class NodeDiff(Struct, frozen=True, kw_only=True):
    """Two nodes compared: `expected` is the first node's value, `actual` the second's."""

    first: str
    second: str
    is_same: bool = False
    first_fingerprint: str = ""
    second_fingerprint: str = ""
    differences: list[Difference] = []


class Refreshed(Struct, frozen=True, kw_only=True):
    """The nodes that were asked to take their inventory again, and those that could not be asked."""

    asked: list[str] = []
    unreachable: list[str] = []
