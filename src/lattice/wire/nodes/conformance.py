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
    """An empty text = the component is not there."""

    component: str
    expected: str
    actual: str


class ConformanceGroupView(Struct, frozen=True, kw_only=True):
    """Nodes of one fingerprint. `differences` are those from the largest group, as `expected`; `baseline_of` names vClusters."""

    fingerprint: str
    size: int
    nodes: tuple[str, ...]
    baseline_of: tuple[str, ...]
    differences: tuple[DifferenceView, ...]


class BaselineView(Struct, frozen=True, kw_only=True):
    """What the nodes of a vCluster should be. `kind` says which nodes of it a majority is of; a declared one is for all."""

    vcluster: str
    source: Literal["declared", "majority", "none"]
    fingerprint: str
    kind: str
    node: str
    set_by: str
    set_at: str | None
    components: dict[str, str]


class DriftView(Struct, frozen=True, kw_only=True):
    """A node that differs. `given_up_at` is when it is taken down if nothing happens; `verified_at` = right again, waits for approval."""

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
    """`unknown` are nodes that have told nothing, or nothing fresh."""

    nodes: int
    groups: tuple[ConformanceGroupView, ...]
    unknown: tuple[str, ...]
    baselines: tuple[BaselineView, ...]
    drifted: tuple[DriftView, ...]


class NodeDiffView(Struct, frozen=True, kw_only=True):
    """Two nodes side by side: `expected` is what the first has, `actual` what the second has."""

    first: str
    second: str
    is_same: bool
    first_fingerprint: str
    second_fingerprint: str
    differences: tuple[DifferenceView, ...]


class RefreshView(Struct, frozen=True, kw_only=True):
    """Which nodes were asked to look at themselves again, and which could not be."""

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
