"""Samples become windows of what was measured, and counters become figures per second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model.telemetry.catalogue import CATALOGUE, METRICS, SHOWN, UnknownMetric, choose, merged
from lattice.core.model.telemetry.rates import Reading, figures, only
from lattice.core.model.telemetry.windows import WINDOW_MS, Gathering, summarize

CPU = ("cpus_used", "")
FLOATS = st.floats(-1e12, 1e12, allow_nan=False)


def test_a_window_holds_mean_percentiles_maximum_and_count_of_its_samples() -> None:
    window = summarize(30_000, 30_000, [float(n) for n in range(1, 101)])
    assert (window.mean, window.p50, window.p95, window.p99, window.max, window.count) == (50.5, 50, 95, 99, 100, 100)


@given(st.lists(FLOATS, min_size=1, max_size=50))
def test_percentiles_are_samples_in_order_and_the_mean_lies_between(samples: list[float]) -> None:
    window = summarize(0, 1000, samples)
    assert {window.p50, window.p95, window.p99, window.max} <= set(samples)
    assert min(samples) <= window.p50 <= window.p95 <= window.p99 <= window.max == max(samples)
    assert min(samples) - 1e-3 <= window.mean <= window.max + 1e-3


def test_windows_begin_at_multiples_of_their_length_and_end_with_the_first_sample_beyond() -> None:
    gathering = Gathering()
    assert gathering.add(40_000, [(CPU, 1.0)]) == {}
    assert gathering.add(59_999, [(CPU, 3.0)]) == {}
    assert gathering.so_far()[CPU].count == 2
    done = gathering.add(60_000, [(CPU, 5.0)])
    assert (done[CPU].at_ms, done[CPU].length_ms, done[CPU].mean, done[CPU].count) == (30_000, WINDOW_MS, 2.0, 2)
    assert gathering.close()[CPU].mean == 5.0
    assert gathering.so_far() == {}


def test_a_new_length_ends_the_open_window() -> None:
    gathering = Gathering()
    gathering.add(40_000, [(CPU, 1.0)])
    gathering.length_ms = 1000
    assert gathering.add(41_000, [(CPU, 2.0)])[CPU].length_ms == WINDOW_MS
    assert gathering.add(42_000, [(CPU, 2.0)])[CPU].length_ms == 1000


def test_what_is_no_number_is_not_counted() -> None:
    gathering = Gathering()
    gathering.add(1, [(CPU, float("nan")), (("load1", ""), float("inf"))])
    assert gathering.so_far() == {}


def test_counters_become_figures_per_second_and_gauges_stay() -> None:
    before = Reading(at_s=10.0, counters={CPU: 5.0}, gauges={})
    now = Reading(at_s=12.0, counters={CPU: 8.0, ("page_faults", ""): 9.0}, gauges={("memory_used", ""): 7.0})
    assert figures(before, now, cpus=4) == {
        CPU: 1.5,
        ("cpu_utilization", ""): 37.5,
        ("memory_used", ""): 7.0,
    }
    assert figures(None, now, cpus=4) == {("memory_used", ""): 7.0}
    assert ("cpu_utilization", "") not in figures(before, now, cpus=0)


def test_a_counter_that_went_back_says_nothing() -> None:
    before = Reading(at_s=1.0, counters={CPU: 5.0})
    assert figures(before, Reading(at_s=2.0, counters={CPU: 4.0}), cpus=1) == {}
    assert figures(before, Reading(at_s=1.0, counters={CPU: 6.0}), cpus=1) == {}


def test_latency_of_a_disk_and_rate_of_errors_follow_from_counters() -> None:
    before = Reading(
        at_s=0.0,
        counters={
            ("_disk_requests", "sda"): 0.0,
            ("_disk_waited_ms", "sda"): 0.0,
            ("_disk_waited_ms", "sdb"): 0.0,
            ("_packets", ""): 0.0,
            ("_packet_errors", ""): 0.0,
        },
    )
    counters = {
        ("_disk_requests", "sda"): 10.0,
        ("_disk_waited_ms", "sda"): 20.0,
        ("_disk_waited_ms", "sdb"): 5.0,
        ("_packets", ""): 99.0,
        ("_packet_errors", ""): 1.0,
    }
    found = figures(before, Reading(at_s=1.0, counters=counters), cpus=0)
    assert found == {("disk_latency", "sda"): 2000.0, ("network_error_rate", ""): 1.0}
    idle = Reading(at_s=2.0, counters={("_disk_requests", "sda"): 10.0, ("_disk_waited_ms", "sda"): 20.0})
    assert figures(Reading(at_s=1.0, counters=counters), idle, cpus=0) == {}


def test_metrics_are_chosen_by_name_and_unknown_ones_are_refused_with_the_list() -> None:
    assert choose(["memory_used", "memory_used"]) == ("memory_used",)
    with pytest.raises(UnknownMetric, match='no metric "speed"; known are gpu_utilization, '):
        choose(["speed"])
    with pytest.raises(UnknownMetric):
        choose(["load1"])
    assert choose(["load1"], of_node=True) == ("load1",)
    assert only({CPU: 1.0, ("load1", ""): 2.0}, frozenset({"load1"})) == {("load1", ""): 2.0}
    assert only({CPU: 1.0}, frozenset()) == {CPU: 1.0}


def test_the_catalogue_of_the_specification_is_whole() -> None:
    named = (
        "gpu_utilization gpu_memory_used gpu_power_draw cpu_utilization memory_used network_tx_bytes network_rx_bytes"
    )
    assert {*named.split(), "io_read_bytes", "io_write_bytes", "io_latency_p99"} <= {*SHOWN}
    assert len(METRICS) == len(CATALOGUE)


def test_figures_of_several_nodes_become_one_as_the_catalogue_says() -> None:
    assert merged("memory_used", [1.0, 2.0]) == 3.0
    assert merged("cpu_utilization", [1.0, 2.0]) == 1.5
    assert merged("io_latency_p99", [1.0, 2.0]) == 2.0
    assert merged("nothing_known", [1.0, 3.0]) == 2.0
    assert merged("memory_used", []) is None
