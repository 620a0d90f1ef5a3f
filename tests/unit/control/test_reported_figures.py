"""The leader's last figures: of allocations and nodes, put together over nodes, and unknown when they are two windows old."""

from lattice.control.telemetry.reported import FRESH_S, ReportedFigures
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
