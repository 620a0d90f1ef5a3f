"""Alerts are raised once when a threshold was crossed for long enough, and are over once; modes end by the clock."""

import pytest

from lattice.core.model.telemetry.alerts import RULES, AlertRegistry
from lattice.core.model.telemetry.modes import BadMode, Mode, Telemetry, check_mode, in_force

IDLE = ("gpu_utilization", "0")


def test_an_idle_gpu_is_reported_after_a_minute_and_once() -> None:
    registry = AlertRegistry()
    assert registry.judge(0.0, {IDLE: 5.0}) == []
    assert registry.judge(59.0, {IDLE: 5.0}) == []
    (raised,) = registry.judge(60.0, {IDLE: 5.0})
    assert (raised.rule.name, raised.device, raised.is_over) == ("gpu_idle", "0", False)
    assert registry.judge(120.0, {IDLE: 5.0}) == []


def test_a_short_pause_is_no_alert() -> None:
    registry = AlertRegistry()
    registry.judge(0.0, {IDLE: 5.0})
    registry.judge(30.0, {IDLE: 50.0})
    assert registry.judge(61.0, {IDLE: 5.0}) == []


def test_an_alert_is_over_only_after_a_quiet_while_well_below_the_threshold() -> None:
    registry = AlertRegistry()
    full = ("gpu_memory_utilization", "1")
    assert [change.rule.name for change in registry.judge(0.0, {full: 96.0})] == ["gpu_memory_full"]
    assert registry.judge(1.0, {full: 93.0}) == []
    assert registry.judge(40.0, {full: 93.0}) == [], "below the threshold, and not below where it is over"
    assert registry.judge(41.0, {full: 80.0}) == []
    (over,) = registry.judge(71.0, {full: 80.0})
    assert over.is_over


def test_what_is_not_measured_raises_nothing_and_devices_are_apart() -> None:
    registry = AlertRegistry()
    assert registry.judge(0.0, {}) == []
    registry.judge(0.0, {IDLE: 1.0, ("gpu_utilization", "1"): 90.0})
    assert [change.device for change in registry.judge(60.0, {IDLE: 1.0, ("gpu_utilization", "1"): 90.0})] == ["0"]


def test_the_four_rules_of_the_specification_are_there() -> None:
    limits = {rule.name: (rule.limit, rule.for_s) for rule in RULES}
    assert limits == {
        "gpu_idle": (10.0, 60.0),
        "gpu_memory_full": (95.0, 0.0),
        "network_errors": (0.1, 0.0),
        "io_latency": (10_000.0, 0.0),
    }


def test_debug_is_over_when_its_time_is() -> None:
    debug = Telemetry(mode=Mode.DEBUG, duration_s=60, since_ms=1_000_000)
    assert in_force(debug, 1_059_999, 0) is Mode.DEBUG
    assert in_force(debug, 1_060_000, 0) is Mode.PROD
    assert in_force(None, 0, 0) is Mode.PROD
    submitted = Telemetry(mode=Mode.DEBUG, duration_s=60)
    assert submitted.left_s(5_000, 1_000) == 56.0
    assert submitted.left_s(5_000, 0) == 60.0
    assert Telemetry().left_s(1, 1) == 0.0
    assert in_force(Telemetry(mode=Mode.PROD), 1, 1) is Mode.PROD


@pytest.mark.parametrize(
    "asked",
    [
        Telemetry(mode=Mode.DEBUG, duration_s=86_401),
        Telemetry(mode=Mode.DEBUG, duration_s=0),
        Telemetry(mode=Mode.DEBUG, interval_ms=99),
        Telemetry(mode=Mode.DEBUG, interval_ms=10_001),
    ],
)
def test_modes_that_cannot_be_are_refused(asked: Telemetry) -> None:
    with pytest.raises(BadMode):
        check_mode(asked)


def test_modes_that_can_be_are_taken() -> None:
    check_mode(Telemetry())
    check_mode(Telemetry(mode=Mode.AUDIT))
    check_mode(Telemetry(mode=Mode.DEBUG, duration_s=86_400, interval_ms=100))
