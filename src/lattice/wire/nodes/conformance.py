"""Configurations of nodes on the wire: groups of like nodes, baselines, who differs and in what."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from lattice.core.model.nodes.drift import Difference, Drift
from lattice.core.model.nodes.nodes import NodeState
from lattice.wire.text.times import rfc3339

BOOT_PARAMETERS = "boot_parameters"
NOT_SHOWN = "not shown"


class DifferenceView(Struct, frozen=True, kw_only=True):
    """An empty string means that the component is missing."""

    component: str
    expected: str
    actual: str


class ConformanceGroupView(Struct, frozen=True, kw_only=True):
    """Nodes with the same fingerprint. `differences` compares them with the largest group (`expected`); `baseline_of` lists vClusters."""

    fingerprint: str
    size: int
    nodes: tuple[str, ...]
    baseline_of: tuple[str, ...]
    differences: tuple[DifferenceView, ...]


class BaselineView(Struct, frozen=True, kw_only=True):
    """The baseline of a vCluster. `kind` is the kind of node that a majority baseline covers; a declared one covers all."""

    vcluster: str
    source: Literal["declared", "majority", "none"]
    fingerprint: str
    kind: str
    node: str
    set_by: str
    set_at: str | None
    components: dict[str, str]


class DriftView(Struct, frozen=True, kw_only=True):
    """A node that has drifted. `given_up_at` is when it goes Down unless repaired; `verified_at` is set once it matches again and waits for approval."""

    node: str
    state: NodeState
    vcluster: str
    expected: str
    actual: str
    since: str | None
    differences: tuple[DifferenceView, ...]
    is_sensitive: bool
    given_up_at: str | None
    escalated_at: str | None
    verified_at: str | None


class ConformanceView(Struct, frozen=True, kw_only=True):
    """`unknown` lists nodes without a current inventory."""

    nodes: int
    groups: tuple[ConformanceGroupView, ...]
    unknown: tuple[str, ...]
    baselines: tuple[BaselineView, ...]
    drifted: tuple[DriftView, ...]


class NodeDiffView(Struct, frozen=True, kw_only=True):
    """Two nodes compared: `expected` is the first node's value, `actual` the second's."""

    first: str
    second: str
    is_same: bool
    first_fingerprint: str
    second_fingerprint: str
    differences: tuple[DifferenceView, ...]


class RefreshView(Struct, frozen=True, kw_only=True):
    """The nodes that were asked to take their inventory again, and those that could not be asked."""

    asked: tuple[str, ...]
    unreachable: tuple[str, ...]


def difference_views(found: Iterable[Difference]) -> tuple[DifferenceView, ...]:
    return tuple(DifferenceView(component=each.component, expected=each.expected, actual=each.actual) for each in found)


def without_boot_parameters(found: tuple[DifferenceView, ...]) -> tuple[DifferenceView, ...]:
    """For those who do not manage nodes: that the kernel's command lines differ, and not in what."""
    hidden = DifferenceView(component=BOOT_PARAMETERS, expected=NOT_SHOWN, actual=NOT_SHOWN)
    return tuple(hidden if each.component == BOOT_PARAMETERS else each for each in found)


def drift_view(drift: Drift, state: NodeState, given_up_at: int) -> DriftView:
    return DriftView(
        node=drift.node,
        state=state,
        vcluster=drift.vcluster,
        expected=drift.expected,
        actual=drift.actual,
        since=rfc3339(drift.since),
        differences=difference_views(drift.differences),
        is_sensitive=drift.is_sensitive,
        given_up_at=rfc3339(given_up_at),
        escalated_at=rfc3339(drift.escalated_at),
        verified_at=rfc3339(drift.verified_at),
    )
