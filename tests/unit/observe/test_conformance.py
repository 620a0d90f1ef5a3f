"""Figures of configurations, and that a server which leads no more shows none."""

from lattice.core.machine.state import State
from lattice.core.model.nodes.drift import Drift
from lattice.core.model.nodes.nodes import Hardware, Node
from lattice.observe.conformance import ConformanceFigures
from lattice.observe.metrics import Metrics


def drift(node: str, **changes: object) -> Drift:
    return Drift(node=node, vcluster="default", expected="a", actual="b", since=1, **changes)  # type: ignore[arg-type]


def figures() -> ConformanceFigures:
    state = State.empty()
    for name in ("n1", "n2", "n3", "n4", "n5"):
        state.put_node(Node(id=name, hardware=Hardware(cpus=1, memory_mb=1)))
    state.drift.put(drift("n1"))
    state.drift.put(drift("n2", escalated_at=5))
    state.drift.put(drift("n3", is_sensitive=True, verified_at=5))
    state.drift.put(drift("n4", is_persistent=True))
    prints = {"n1": "b", "n2": "b", "n3": "a", "n4": "c"}
    return ConformanceFigures(lambda: state, lambda: prints, lambda: {"noted": 7, "told": 3, "failed": 2})


def shown(metrics: Metrics) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if line.startswith("lattice_conformance")]


def test_groups_drifts_by_stage_and_signals_are_shown() -> None:
    metrics = Metrics()
    metrics.show_conformance(figures())
    assert {
        "lattice_conformance_groups 3.0",
        "lattice_conformance_largest_group 2.0",
        "lattice_conformance_unknown_nodes 1.0",
        'lattice_conformance_drifted_nodes{sensitive="false",stage="open"} 1.0',
        'lattice_conformance_drifted_nodes{sensitive="true",stage="open"} 0.0',
        'lattice_conformance_drifted_nodes{sensitive="false",stage="persistent"} 1.0',
        'lattice_conformance_drifted_nodes{sensitive="false",stage="escalated"} 1.0',
        'lattice_conformance_drifted_nodes{sensitive="true",stage="waits"} 1.0',
        "lattice_conformance_drift_total 7.0",
        'lattice_conformance_signals_total{outcome="told"} 3.0',
        'lattice_conformance_signals_total{outcome="failed"} 2.0',
    } <= set(shown(metrics))


def test_figures_are_shown_once_however_often_a_server_leads_and_not_when_it_does_not() -> None:
    metrics = Metrics()
    metrics.show_conformance(figures())
    metrics.show_conformance(figures())
    assert shown(metrics).count("lattice_conformance_groups 3.0") == 1
    metrics.hide_loops()
    assert shown(metrics) == []
