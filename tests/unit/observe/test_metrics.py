"""What /metrics shows."""

from lattice.observe.metrics import Metrics


def test_failed_turns_of_loops_are_counted_by_their_names() -> None:
    metrics = Metrics()
    failures = {"scheduling": 2}
    repeats = {"scheduling": 1}
    metrics.show_loops(lambda: failures, lambda: repeats)
    failures["dispatch"] = 1
    shown = metrics.render().decode()
    assert 'lattice_loop_failures_total{loop="scheduling"} 2.0' in shown
    assert 'lattice_loop_failures_total{loop="dispatch"} 1.0' in shown
    assert 'lattice_loop_repeated_failures_total{loop="scheduling"} 1.0' in shown
    assert 'lattice_loop_repeated_failures_total{loop="dispatch"} 0.0' in shown


def test_unreported_nodes_of_collectors_are_counted_under_their_name_and_the_former_one() -> None:
    metrics = Metrics()
    metrics.show_collectors(lambda: {"stray": 3}, dict)
    shown = metrics.render().decode()
    assert "lattice_collector_unreported_total 3.0" in shown
    assert "lattice_collector_strays_total 3.0" in shown
