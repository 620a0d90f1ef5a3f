"""Figures of the nodes' configurations: how many there are, how many nodes differ, and how far the response has come."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lattice.core.machine.state import State


class ConformanceFigures(Collector):
    """`prints` are the nodes' fresh fingerprints, `counts` what was noted and signalled since this server leads."""

    def __init__(
        self,
        state: Callable[[], State],
        prints: Callable[[], Mapping[str, str]],
        counts: Callable[[], Mapping[str, int]],
    ) -> None:
        self._state = state
        self._prints = prints
        self._counts = counts

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        state, prints, counts = self._state(), self._prints(), self._counts()
        sizes = Counter(prints.values())
        yield GaugeMetricFamily("lattice_conformance_groups", "Different configurations of nodes", value=len(sizes))
        yield GaugeMetricFamily(
            "lattice_conformance_largest_group",
            "Nodes of the most frequent configuration",
            value=max(sizes.values(), default=0),
        )
        yield GaugeMetricFamily(
            "lattice_conformance_unknown_nodes",
            "Nodes whose configuration is not known, or not lately",
            value=sum(name not in prints for name in state.nodes),
        )
        yield _drifted(state)
        yield CounterMetricFamily(
            "lattice_conformance_drift", "Drifts noted since this server leads", value=counts.get("noted", 0)
        )
        told = CounterMetricFamily(
            "lattice_conformance_signals",
            "Drifts signalled to the system that manages the nodes: told; failed (tried again)",
            labels=["outcome"],
        )
        for outcome in ("told", "failed"):
            told.add_metric([outcome], counts.get(outcome, 0))
        yield told


def _drifted(state: State) -> Metric:
    """By stage; one that is `persistent` differed after a reboot too, the time of one that is `escalated` is over, one that `waits` is right again and not approved."""
    family = GaugeMetricFamily(
        "lattice_conformance_drifted_nodes",
        "Nodes that differ from their baseline: open; persistent (after a reboot too); escalated (not remedied in time); waits (right again, not approved)",
        labels=["stage", "sensitive"],
    )
    found: Counter[tuple[str, str]] = Counter()
    for drift in state.drift.drifts.values():
        stage = (
            "waits"
            if drift.verified_at
            else "escalated"
            if drift.escalated_at
            else "persistent"
            if drift.is_persistent
            else "open"
        )
        found[stage, str(drift.is_sensitive).lower()] += 1
    for stage in ("open", "persistent", "escalated", "waits"):
        for sensitive in ("false", "true"):
            family.add_metric([stage, sensitive], found[stage, sensitive])
    return family
