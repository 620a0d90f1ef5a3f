"""The leader's last figures: of allocations and nodes, put together over nodes, and unknown when they are two windows old."""

from lattice.control.telemetry.reported import FRESH_S, LOOK_EVERY_S, ReportedFigures
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import NodeFigures, RunFigure


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def monotonic_s(self) -> float:
        return self.s

    def now_ms(self) -> int:
        return int(self.s * 1000)


def told(number: int, run: int = 1, **figures: float) -> NodeFigures:
    return NodeFigures(
        runs=(RunFigure(key=RunKey(number, run), metrics=tuple(figures), values=tuple(figures.values())),)
    )


def test_figures_of_an_allocation_are_those_of_all_its_nodes() -> None:
    figures = ReportedFigures(Clock())
    figures.take("n1", told(7, cpu_utilization=40.0, memory_used=100.0))
    figures.take("n2", told(7, cpu_utilization=60.0, memory_used=50.0))
    figures.take("n2", told(8, cpu_utilization=1.0))
    assert figures.of_allocation(7, 1) == {"cpu_utilization": 50.0, "memory_used": 150.0}
    assert figures.of_allocation(7, 2) == {}
    assert figures.of_allocation(9, 1) == {}


def test_what_is_two_windows_old_is_not_known() -> None:
    clock = Clock()
    figures = ReportedFigures(clock)
    figures.take("n1", told(7, cpu_utilization=40.0))
    node = RunFigure(metrics=("gpu_utilization", "power_draw"), values=(50.0, 300.0))
    figures.take("n1", NodeFigures(runs=(node,)))
    clock.s += FRESH_S + 1
    assert figures.of_allocation(7, 1) == {}
    figures.take("n1", told(8, cpu_utilization=1.0))
    assert len(figures._runs) == 1


def test_congestion_of_the_network_is_the_mean_of_what_nodes_say_of_themselves() -> None:
    clock = Clock()
    figures = ReportedFigures(clock)
    assert figures.congestion() is None

    def said(node: str, percent: float) -> None:
        of_node = RunFigure(metrics=("network_congestion",), values=(percent,))
        figures.take(node, NodeFigures(runs=(of_node,)))

    said("n1", 10.0)
    said("n2", 1e9)
    said("n1", 20.0)
    assert figures.congestion() == 0.6, "no node counts more than one"
    clock.s += FRESH_S / 2
    said("n1", 40.0)
    clock.s += FRESH_S / 2 + 1
    assert figures.congestion() == 0.4, "what is two windows old is not known"
    clock.s += FRESH_S
    assert figures.congestion() is None


def test_storage_is_what_runs_read_and_write_on_all_their_nodes() -> None:
    clock = Clock()
    figures = ReportedFigures(clock)
    figures.take("n1", told(7, io_read_bytes=1e9, io_write_bytes=2e9))
    figures.take("n2", told(7, io_write_bytes=1e9))
    figures.take("n2", told(8, cpu_utilization=1.0))
    assert figures.storage_gbps() == {7: 4.0}
    clock.s += FRESH_S / 2
    figures.take("n1", told(9, io_read_bytes=1e9))
    clock.s += FRESH_S / 2 + 1
    assert figures.storage_gbps() == {9: 1.0}


def test_a_run_that_stopped_using_storage_is_not_counted_any_more() -> None:
    clock = Clock()
    figures = ReportedFigures(clock)
    figures.take("n1", told(7, io_read_bytes=1e9))
    assert figures.storage_gbps() == {7: 1.0}
    clock.s += LOOK_EVERY_S
    figures.take("n1", told(7, io_read_bytes=0.0))
    assert figures.storage_gbps() == {}


def test_the_use_of_gpus_is_that_of_all_nodes_and_of_all_tasks_of_a_group() -> None:
    clock = Clock()
    group_of = {21: 20, 22: 20}
    figures = ReportedFigures(clock, lambda number: group_of.get(number, number))
    figures.take("n1", told(7, gpu_utilization=90.0))
    figures.take("n2", told(7, gpu_utilization=30.0))
    figures.take("n2", told(8, cpu_utilization=1.0))
    figures.take("n1", told(21, gpu_utilization=1e9))
    figures.take("n2", told(22, gpu_utilization=0.0))
    assert figures.gpu_use() == {7: 0.6, 20: 0.5}
    clock.s += FRESH_S / 2
    figures.take("n2", told(7, gpu_utilization=20.0))
    figures.take("n2", told(22, cpu_utilization=5.0))
    clock.s += FRESH_S / 2 + 1
    assert figures.gpu_use() == {7: 0.2}, "what is two windows old, or is not said any more, is not known"
